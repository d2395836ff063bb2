import HTTPTypes

extension ProviderContext {
    /// Asks one of the provider's own resources with the access token.
    /// - Parameters:
    ///   - call: The call, without an `Authorization` field.
    ///   - tokens: The tokens.
    /// - Returns: A response with status 200.
    /// - Throws: ``AuthError`` with `access_token_rejected` when the token is not accepted, `temporarily_unavailable` when the
    ///   provider is asked too often, `invalid_reply` for any other status.
    public func resource(_ call: TransportRequest, with tokens: TokenSet) async throws -> TransportResponse {
        let response = try await engine.send(call, with: tokens)
        if response.status == 401 {
            throw AuthError(
                .accessTokenRejected,
                "\(Redaction.url(call.url)) does not accept the access token any more. Sign in again.",
                providerError: response.providerError,
                status: 401
            )
        }
        try response.requireAvailable(from: call.head.authority ?? "The provider", now: host.now())
        guard response.status == 200 else {
            throw AuthError(
                .invalidResponse,
                "\(Redaction.url(call.url)) answered with status \(response.status).",
                providerError: response.providerError,
                status: response.status
            )
        }
        return response
    }
}
