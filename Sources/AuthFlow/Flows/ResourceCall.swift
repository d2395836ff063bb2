import HTTPTypes

extension ProviderContext {
    /// Asks one of the provider's own resources with the access token.
    /// - Parameters:
    ///   - call: The call, without an `Authorization` field.
    ///   - tokens: The tokens.
    /// - Returns: A reply with status 200.
    /// - Throws: ``AuthError`` with `access_token_rejected` when the token is not accepted, `temporarily_unavailable` when the
    ///   provider is asked too often, `invalid_reply` for any other status.
    public func resource(_ call: HTTPCall, with tokens: TokenSet) async throws -> HTTPReply {
        let reply = try await engine.send(call, with: tokens)
        if reply.status == 401 {
            throw AuthError(
                .accessTokenRejected,
                "\(Redaction.url(call.url)) does not accept the access token any more. Sign in again.",
                providerError: reply.providerError,
                status: 401
            )
        }
        try reply.requireAvailable(from: call.request.authority ?? "The provider", now: host.now())
        guard reply.status == 200 else {
            throw AuthError(
                .invalidReply,
                "\(Redaction.url(call.url)) answered with status \(reply.status).",
                providerError: reply.providerError,
                status: reply.status
            )
        }
        return reply
    }
}
