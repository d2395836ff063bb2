public import AuthFlowHTTP
import AuthFlowJSON
import HTTPTypes

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

extension OAuthClient {
    /// Exchanges a token for others (RFC 8693): for a service behind this one, or to act on a user's behalf.
    /// - Returns: The new tokens. An ID Token among them has passed every check.
    /// - Throws: ``AuthError`` with `provider_rejected` when the provider does not allow it.
    public func tokenExchange(_ exchange: TokenExchange) async throws -> TokenSet {
        let metadata = try await metadata()
        let response = try await sendTokenExchange(exchange, metadata)
        // RFC 8693 section 2.2.1: N_A when "the issued token is not an access token or usable as an access token".
        if response.tokens.tokenType == "N_A" { return response.tokens }
        var tokens = try requireUsable(response)
        guard let idToken = tokens.idToken else { return tokens }
        let expectation = expectation(of: metadata, occasion: .exchange(subject: exchange.subject), response)
        (tokens.idToken, tokens.verifiedIDToken) = try await verifyIDToken(idToken, expectation, metadata: metadata)
        return tokens
    }

    /// Signs a user in by an exchange, without a page.
    package func signIn(by exchange: TokenExchange, reporter: FlowReporter) async throws -> Credential {
        let metadata = try await metadata()
        let response = try await reporter.step(.tokenExchange) { try await sendTokenExchange(exchange, metadata) }
        let expectation = expectation(of: metadata, occasion: .exchange(subject: exchange.subject), response)
        let credential = try await credential(of: response, expectation, metadata: metadata, reporter: reporter)
        // The user whose sign-in was shared, also where no ID Token says so.
        try await revokingRefused(credential.tokens) {
            guard exchange.subject.map({ credential.identity?.subject.isIdentical(to: $0) == true }) ?? true else {
                throw AuthError(
                    .invalidIDToken,
                    "The exchanged tokens do not belong to the user whose sign-in was shared."
                )
            }
        }
        return credential
    }

    func sendTokenExchange(_ exchange: TokenExchange, _ metadata: ProviderMetadata) async throws
        -> TokenResponse
    {
        let scopes = exchange.scopes ?? registration.scopes
        var request = ProviderRequest(
            purpose: .tokenExchange,
            endpoint: try metadata.required(\.tokenEndpoint, "token endpoint"),
            parameters: parameters(of: .tokenExchange),
            protectedParameters: [
                "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
                "subject_token": exchange.subjectToken.exposed,
                "subject_token_type": exchange.subjectTokenType.rawValue,
            ]
        )
        // Section 2.1: actor_token_type "is REQUIRED when the actor_token parameter is present in the request but MUST NOT
        // be included otherwise".
        if let actorToken = exchange.actorToken {
            request.protectedParameters["actor_token"] = actorToken.exposed
            request.protectedParameters["actor_token_type"] = exchange.actorTokenType?.rawValue
        }
        request.protectedParameters["requested_token_type"] = exchange.requestedTokenType?.rawValue
        for audience in exchange.audience { request.protectedParameters.append("audience", audience) }
        for resource in exchange.resource { request.protectedParameters.append("resource", resource) }
        if !scopes.isEmpty { request.parameters["scope"] = scopes.joined(separator: " ") }
        return try await sendTokenRequest(request, scopes: scopes, key: try await newDPoPKey(at: metadata))
    }
}
