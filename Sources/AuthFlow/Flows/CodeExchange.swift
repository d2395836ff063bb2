import HTTPTypes

extension Engine {
    /// Exchanges an authorization code for tokens (RFC 6749 section 4.1.3, RFC 7636 section 4.5) at the endpoint of the
    /// issuer that was asked. What comes back is not validated yet.
    func exchange(_ code: Secret, for pending: PendingAuthorization) async throws -> ReceivedTokens {
        let request = ProviderRequest(
            purpose: .token,
            endpoint: try pending.metadata.required(\.tokenEndpoint, "token endpoint"),
            parameters: settings.parameters[.token] ?? [:],
            headerFields: [:],
            protectedParameters: [
                "grant_type": "authorization_code",
                "code": code.exposed,
                "redirect_uri": pending.redirectURI,
                "code_verifier": pending.codeVerifier.exposed,
            ]
        )
        return try received(try await send(request, scopes: settings.scopes))
    }

    /// Checks tokens that came for a code, and releases them (RFC 9700 section 4.5.3.2: no token is used before).
    func validated(
        _ received: ReceivedTokens,
        for pending: PendingAuthorization,
        code: Secret
    ) async throws -> TokenSet {
        var tokens = try usable(received.tokens)
        guard let idToken = tokens.idToken else {
            // OIDC Core section 3.1.3.3: id_token is REQUIRED in the token response to an OpenID request.
            guard pending.nonce == nil else {
                throw AuthError(
                    .invalidIDToken,
                    "The provider sent no ID Token although \"openid\" was asked for (OpenID Connect Core section 3.1.3.3)."
                )
            }
            return tokens
        }
        var expectation = expectation(of: pending.metadata, occasion: .signIn(nonce: pending.nonce))
        expectation.accessToken = tokens.accessToken
        expectation.code = code
        expectation.maximumAuthenticationAge = pending.demand.maximumAge
        expectation.essentialACRValues = pending.demand.essentialACRValues
        expectation.clockOffset = received.clockOffset
        tokens.verifiedIDToken = try await verify(idToken, expectation, metadata: pending.metadata)
        return tokens
    }
}
