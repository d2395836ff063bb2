public import AuthFlowHTTP

/// A token that is to be exchanged for others (RFC 8693 section 2.1).
public struct TokenExchange: Sendable, Hashable {
    /// What kind of token a token is, as an open set of URIs (RFC 8693 section 3).
    public struct TokenType: RawRepresentable, Sendable, Hashable {
        // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
        public let rawValue: String
        // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
        public init(rawValue: String) { self.rawValue = rawValue }

        /// An access token.
        public static let accessToken = Self(rawValue: "urn:ietf:params:oauth:token-type:access_token")
        /// A refresh token.
        public static let refreshToken = Self(rawValue: "urn:ietf:params:oauth:token-type:refresh_token")
        /// An ID Token.
        public static let idToken = Self(rawValue: "urn:ietf:params:oauth:token-type:id_token")
        /// A JWT.
        public static let jwt = Self(rawValue: "urn:ietf:params:oauth:token-type:jwt")
        /// An identity assertion, with which the server of another domain gives an access token
        /// (draft-ietf-oauth-identity-assertion-authz-grant).
        public static let identityAssertion = Self(rawValue: "urn:ietf:params:oauth:token-type:id-jag")
        /// A device secret, by the name of OpenID Connect Native SSO for Mobile Apps.
        public static let deviceSecret = Self(rawValue: "urn:openid:params:token-type:device-secret")
    }

    /// `subject_token`: on whose behalf.
    public var subjectToken: Secret
    /// `subject_token_type`.
    public var subjectTokenType: TokenType
    /// `actor_token`: who acts; nil when the subject does.
    public var actorToken: Secret?
    /// `actor_token_type`.
    public var actorTokenType: TokenType?
    /// `requested_token_type`; nil to leave it to the provider.
    public var requestedTokenType: TokenType?
    /// `audience`: the services that the new token is for, by the names the provider knows them by.
    public var audience: [String]
    /// `resource`: the same, by their addresses.
    public var resource: [String]
    /// `scope`; nil for the client's own.
    public var scopes: [String]?
    /// The `sub` that an ID Token among the new tokens must have; nil when it is not known.
    public var subject: String?

    /// Creates an exchange of one token.
    public init(
        _ subjectToken: Secret,
        type: TokenType,
        audience: [String] = [],
        resource: [String] = [],
        scopes: [String]? = nil
    ) {
        self.subjectToken = subjectToken
        self.subjectTokenType = type
        self.audience = audience
        self.resource = resource
        self.scopes = scopes
    }
}
