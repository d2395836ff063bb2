import Foundation

/// Tokens as a token endpoint sent them: read, and not believed yet.
struct ReceivedTokens: Sendable {
    let tokens: TokenSet

    /// How far this machine's clock is ahead of the provider's, in seconds, when the reply says the provider's time.
    let clockOffset: TimeInterval?
}

extension Engine {
    /// Reads the reply of a token endpoint.
    func received(_ reply: ProviderReply) throws -> ReceivedTokens {
        ReceivedTokens(
            tokens: try provider.tokens(from: reply, in: context),
            clockOffset: reply.http.date.map { host.now().timeIntervalSince($0) }
        )
    }

    /// The tokens, when the access token is of a type that is understood here. Nothing about the ID Token is believed.
    func usable(_ tokens: TokenSet) throws(AuthError) -> TokenSet {
        // RFC 6749 section 7.1: "The client MUST NOT use an access token if it does not understand the token type." The
        // name is compared without case (section 5.1).
        guard tokens.tokenType.lowercased() == "bearer" else {
            throw AuthError(
                .unsupported,
                "The provider sent an access token of type \"\(DisplayText.sanitized(tokens.tokenType, limit: 40))\", which is not understood here."
            )
        }
        var tokens = tokens
        tokens.verifiedIDToken = nil
        return tokens
    }
}
