#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Tokens as a token endpoint sent them: read, and not believed yet.
struct ReceivedTokens: Sendable {
    let tokens: TokenSet

    /// The scopes that were asked for, as they were sent.
    let requestedScopes: [String]

    /// The key that they were asked to be bound to.
    let key: DPoPKey?

    /// How far this machine's clock is ahead of the provider's, in seconds, when the response says the provider's time.
    let clockOffset: TimeInterval?
}

extension Engine {
    /// Reads the response of a token endpoint.
    /// - Parameter key: The key that the tokens were asked to be bound to.
    func received(_ response: ProviderResponse, key: DPoPKey?) throws -> ReceivedTokens {
        let tokens: TokenSet
        do {
            tokens = try provider.tokens(from: response, in: context)
        } catch let error as AuthError {
            throw advised(error)
        }
        try tokens.requireTransportableCharacters()
        return ReceivedTokens(
            tokens: tokens,
            requestedScopes: response.scopes,
            key: key,
            clockOffset: response.http.date.map { host.now().timeIntervalSince($0) }
        )
    }

    /// Adds what may help when a provider does not know the client: several do not undo the encoding that RFC 6749 section 2.3.1
    /// asks for in the header.
    private func advised(_ error: AuthError) -> AuthError {
        guard standardName(of: error.providerError) == "invalid_client",
            settings.authentication.method == .clientSecretBasic,
            let secret = settings.authentication.secret?.exposed,
            FormURLEncoding.encode(secret) != secret || FormURLEncoding.encode(settings.clientID) != settings.clientID
        else { return error }
        return AuthError(
            error.code,
            "\(error.message) The client's secret or identifier has characters that some providers misread in the header: client_secret_post may help.",
            providerError: error.providerError,
            status: error.status,
            retryAfter: error.retryAfter,
            underlyingError: error
        )
    }

    /// The tokens, when the access token is of a type that is understood here. Nothing about the ID Token is believed.
    func usable(_ received: ReceivedTokens) throws(AuthError) -> TokenSet {
        var tokens = received.tokens
        let expected = received.key == nil ? "bearer" : "dpop"
        // RFC 6749 section 7.1: "The client MUST NOT use an access token if it does not understand the token type." The
        // name is compared without case (section 5.1).
        guard tokens.tokenType.lowercased() == expected else {
            // RFC 9449 section 5: with "a value other than DPoP in the token_type", the token "is not bound", and "The client
            // MUST discard the response in this case, if this protection is deemed important". Who asks for it deems it so.
            let name = DisplayText.sanitized(tokens.tokenType, limit: 40)
            throw AuthError(
                .unsupported,
                received.key == nil
                    ? "The provider sent an access token of type \"\(name)\", which was not asked for."
                    : "The provider sent an access token of type \"\(name)\", although one bound to a key was asked for (RFC 9449)."
            )
        }
        tokens.dpopKey = received.key
        tokens.verifiedIDToken = nil
        return tokens
    }
}
