public import AuthFlowHTTP

/// A token exchange request (RFC 8693 section 2.1).
public struct TokenExchange: Sendable, Hashable {
    /// A token type identifier (RFC 8693 section 3): a URI, from an extensible set.
    public struct TokenType: RawRepresentable, Sendable, Hashable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// An access token.
        public static let accessToken = Self(rawValue: "urn:ietf:params:oauth:token-type:access_token")
        /// A refresh token.
        public static let refreshToken = Self(rawValue: "urn:ietf:params:oauth:token-type:refresh_token")
        /// An ID Token.
        public static let idToken = Self(rawValue: "urn:ietf:params:oauth:token-type:id_token")
        /// A JWT.
        public static let jwt = Self(rawValue: "urn:ietf:params:oauth:token-type:jwt")
        /// An Identity Assertion JWT Authorization Grant (ID-JAG), which is exchanged for an access token from another
        /// domain's authorization server (draft-ietf-oauth-identity-assertion-authz-grant).
        public static let identityAssertion = Self(rawValue: "urn:ietf:params:oauth:token-type:id-jag")
        /// A device secret, as defined in OpenID Connect Native SSO for Mobile Apps.
        public static let deviceSecret = Self(rawValue: "urn:openid:params:token-type:device-secret")
    }

    /// `subject_token`: the token of the party on whose behalf the request is made.
    public var subjectToken: Secret
    /// `subject_token_type`.
    public var subjectTokenType: TokenType
    /// `actor_token`: the token of the acting party; nil when the subject itself acts.
    public var actorToken: Secret?
    /// `actor_token_type`, which is required with an actor token.
    public var actorTokenType: TokenType?
    /// `requested_token_type`; nil to omit it: the issued token must then be an access token.
    public var requestedTokenType: TokenType?
    /// `audience`: the logical names of the target services.
    public var audience: [String]
    /// `resource`: the URIs of the target services or resources.
    public var resource: [String]
    /// `scope`; nil for the registration's parameter `scope` of token exchanges, or without one, for the client's scopes.
    public var scopes: [String]?
    /// The `sub` that an ID Token in the response must have; nil when the user is unknown.
    public var subject: String?

    /// Creates a token exchange request.
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
