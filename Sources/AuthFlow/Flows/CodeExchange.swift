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
        let key = pending.dpopKey
        return try received(try await send(request, scopes: pending.scopes, key: key), key: key)
    }

    /// What the ID Token that came for a code must say.
    func expectation(
        for pending: PendingAuthorization,
        _ received: ReceivedTokens,
        code: Secret
    ) -> IDTokenValidation.Expectation {
        var expectation = expectation(of: pending.metadata, occasion: .signIn(nonce: pending.nonce))
        expectation.accessToken = received.tokens.accessToken
        expectation.code = code
        expectation.maximumAuthenticationAge = pending.demand.maximumAge
        expectation.essentialACRValues = pending.demand.essentialACRValues
        expectation.clockOffset = received.clockOffset
        return expectation
    }
}
