package import AuthFlowHTTP
import AuthFlowIssuer

extension OAuthClient {
    /// Exchanges a token for other tokens (RFC 8693): for a downstream service, or to act on a user's behalf.
    /// - Returns: The new tokens. If they include an ID Token, it has passed every check.
    /// - Throws: ``AuthError`` with `provider_rejected` when the provider does not allow the exchange; `unsupported` when the
    ///   issued token is not of the requested type, or is not an access token although one was requested; `invalid_configuration` when there is an
    ///   actor token without its type, or a resource that is not an absolute URI.
    public func tokenExchange(_ exchange: TokenExchange) async throws -> TokenSet {
        let metadata = try await metadata()
        let response = try await sendTokenExchange(exchange, metadata)
        return try await revokingRejectedToken(of: exchange, response) {
            try await tokens(of: exchange, response, metadata)
        }
    }

    /// Runs the checks on the tokens of an exchange. Only a rejected access token is revoked: if the refresh token were revoked, the server might
    /// also end the session of the subject token, which the user still needs.
    func revokingRejectedToken<Return>(
        of exchange: TokenExchange,
        _ response: TokenResponse,
        _ checks: () async throws -> Return
    ) async throws -> Return {
        var tokens = response.tokens
        guard tokens.accessToken != exchange.subjectToken else { return try await checks() }
        tokens.refreshToken = nil
        return try await revokingRejectedTokens(tokens, checks)
    }

    /// Checks the tokens of a response.
    private func tokens(
        of exchange: TokenExchange,
        _ response: TokenResponse,
        _ metadata: ProviderMetadata
    ) async throws -> TokenSet {
        try requireIssuedType(of: exchange, response)
        // RFC 8693 section 2.2.1: N_A when "the issued token is not an access token or usable as an access token". RFC
        // 6749 section 5.1: "Value is case insensitive."
        if response.tokens.tokenType.uppercased() == "N_A" {
            guard let requested = exchange.requestedTokenType, requested != .accessToken else {
                throw AuthError(
                    .unsupported,
                    "The provider issued a token that is not an access token (RFC 8693 section 2.2.1)."
                )
            }
            var tokens = response.tokens
            // Only the issued token was requested, so any accompanying ID Token is discarded.
            tokens.idToken = nil
            return tokens
        }
        var tokens = try requireUsable(response)
        let isRequested = exchange.requestedTokenType == .idToken || response.requestedScopes.contains("openid")
        if !isRequested, !canVerifyIDTokens(metadata) { tokens.idToken = nil }
        guard let idToken = tokens.idToken else { return tokens }
        let expectation = expectation(of: metadata, context: .exchange(subject: exchange.subject), response)
        (tokens.idToken, tokens.verifiedIDToken) = try await verifyIDToken(idToken, expectation, metadata: metadata)
        return tokens
    }

    /// Checks `issued_token_type`, which is REQUIRED (RFC 8693 section 2.2.1), but which some providers omit. An access
    /// token may be a JWT (section 3).
    private func requireIssuedType(of exchange: TokenExchange, _ response: TokenResponse) throws {
        guard let issued = response.tokens.parameters.exposed["issued_token_type"]?.string else { return }
        let requested = exchange.requestedTokenType ?? .accessToken
        let accessTokens = [TokenExchange.TokenType.accessToken, .jwt].map(\.rawValue)
        guard issued == requested.rawValue || accessTokens.contains(issued) && accessTokens.contains(requested.rawValue)
        else {
            throw AuthError(
                .unsupported,
                "The provider issued a token of the type \(DisplayText.sanitized(issued, limit: 100)), which was not requested (RFC 8693 section 2.2.1)."
            )
        }
    }

    /// Signs a user in through a token exchange, without user interaction.
    package func signIn(by exchange: TokenExchange, reporter: FlowReporter) async throws -> Credential {
        let metadata = try await metadata()
        let response = try await reporter.step(.tokenExchange) { try await sendTokenExchange(exchange, metadata) }
        let expectation = expectation(of: metadata, context: .exchange(subject: exchange.subject), response)
        let credential = try await credential(of: response, expectation, metadata: metadata, reporter: reporter)
        // This is also checked if the response contains no ID Token: tokens without an identity are rejected.
        try await revokingRejectedTokens(credential.tokens) {
            guard exchange.subject.map({ credential.identity?.subject.isIdentical(to: $0) == true }) ?? true else {
                throw AuthError(
                    .invalidIDToken,
                    "The issued tokens do not belong to the user whose sign-in was shared."
                )
            }
            try await (adapter as? any SharedSignIn)?.check(credential, from: exchange, in: providerContext)
        }
        return credential
    }

    func sendTokenExchange(_ exchange: TokenExchange, _ metadata: ProviderMetadata) async throws
        -> TokenResponse
    {
        // Section 2.1: actor_token_type "is REQUIRED when the actor_token parameter is present in the request but MUST NOT
        // be included otherwise".
        guard exchange.actorToken == nil || exchange.actorTokenType != nil else {
            throw AuthError(
                .invalidConfiguration,
                "A token exchange with an actor token requires the actor token's type (RFC 8693 section 2.1)."
            )
        }
        // Section 2.1: a resource "MUST be an absolute URI ... and MUST NOT include a fragment component".
        try ResourceIdentifier.check(exchange.resource)
        var request = try tokenRequest(
            .tokenExchange,
            [
                "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
                "subject_token": exchange.subjectToken.exposed,
                "subject_token_type": exchange.subjectTokenType.rawValue,
            ],
            at: metadata
        )
        // A profile may specify the scopes of its exchanges, which need not be those of its sign-in.
        let scopes = exchange.scopes ?? request.scopes ?? registration.scopes
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
