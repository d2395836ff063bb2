/// `response_mode`: how the provider returns the authorization response to the user's browser.
public enum ResponseMode: String, Sendable, Hashable, CaseIterable {
    /// In the query of the redirect (OAuth 2.0 Multiple Response Type Encoding Practices section 2.1).
    case query
    /// In the fragment of the redirect, which a browser does not send on by itself (ibid.).
    case fragment
    /// In a form that the browser posts to the redirect URI (OAuth 2.0 Form Post Response Mode).
    case formPost = "form_post"
}
