/// `response_mode`: how the provider returns the authorization response to the user's browser.
public enum ResponseMode: String, Sendable, Hashable, CaseIterable {
    /// In the query of the redirect (OAuth 2.0 Multiple Response Type Encoding Practices section 2.1).
    case query
    /// In the fragment of the redirect, which a browser does not send to the server (section 2.1).
    case fragment
    /// In a form that the browser posts to the redirect URI (OAuth 2.0 Form Post Response Mode).
    case formPost = "form_post"
    /// As a signed JWT in the response type's default mode: the query, for a code (JARM section 2.3.4).
    case jwt
    /// As a signed JWT in the query (JARM section 2.3.1).
    case queryJWT = "query.jwt"
    /// As a signed JWT in the fragment (JARM section 2.3.2).
    case fragmentJWT = "fragment.jwt"
    /// As a signed JWT in a form (JARM section 2.3.3).
    case formPostJWT = "form_post.jwt"

    /// Whether the response is a signed JWT (JARM).
    package var isSigned: Bool { delivery != self }

    /// The mode in which the user agent receives the response, regardless of whether it is a JWT.
    package var delivery: ResponseMode {
        switch self {
        case .query, .jwt, .queryJWT: .query
        case .fragment, .fragmentJWT: .fragment
        case .formPost, .formPostJWT: .formPost
        }
    }
}
