package import AuthFlowHTTP
import AuthFlowIssuer
public import AuthFlowJSON

/// A provider whose back-channel responses are neither JSON nor form-encoded, or use non-standard member names.
public protocol ResponseParsing: ProviderAdapter {
    /// Parses the parameters of a response, including `error`, and returns them under their standard names. Called for
    /// responses from the token, device authorization, revocation and introspection endpoints; it must not block.
    /// - Throws: ``AuthError`` with `invalid_reply` when the response cannot be parsed.
    func parameters(of response: ProviderResponse) throws -> JSON
}

/// A provider that identifies users in a non-standard way.
public protocol UserInfoProviding: ProviderAdapter {
    /// Returns the user to whom the tokens belong; nil when the user cannot be determined. Called at each sign-in, and at refreshes in sessions without an ID Token, after the ID
    /// Token, if there is one, has passed every check. A user whose subject differs from the ID Token's is rejected.
    func identity(for tokens: TokenSet, in context: ProviderContext) async throws -> Identity?

    /// Returns the claims about the user. Called by `userInfo()` of a client. Default: requests the userinfo endpoint.
    func userInfo(for tokens: TokenSet, in context: ProviderContext) async throws -> JSON

    /// Whether users of a client can be identified. Called when a configuration is validated, before any sign-in. Default: true.
    func identifiesUsers(of registration: ClientRegistration) -> Bool
}

extension UserInfoProviding {
    public func userInfo(for tokens: TokenSet, in context: ProviderContext) async throws -> JSON {
        try await context.userInfo(for: tokens)
    }

    public func identifiesUsers(of registration: ClientRegistration) -> Bool { true }
}

/// A provider that does not revoke tokens as RFC 7009 specifies, or that revokes additional tokens.
public protocol TokenRevoking: ProviderAdapter {
    /// Revokes the tokens of a user who signs out (``Credential/revocableTokens(at:)``). When this method is called, they
    /// have already been removed from the store.
    /// - Throws: ``AuthError`` with `unsupported` and a message for the user when revocation is not possible.
    func revoke(_ credential: Credential, in context: ProviderContext) async throws

    /// Revokes the unused tokens of a rejected sign-in, and nothing else: the same user may have another session. Default: RFC 7009.
    /// - Throws: Any error. The rejection is reported instead.
    func revokeUnused(_ tokens: TokenSet, in context: ProviderContext) async throws
}

extension TokenRevoking {
    public func revokeUnused(_ tokens: TokenSet, in context: ProviderContext) async throws {
        try await context.revoke(tokens.allTokens)
    }
}

/// A provider at which the apps of one vendor can share a sign-in, through ``ProviderContext/sharedCredentials``.
public protocol SharedSignIn: ProviderAdapter {
    /// Returns a token exchange that signs the user in without user interaction, based on data that another app has shared; nil when there
    /// is nothing to exchange. Called before any other sign-in method; when the provider rejects the exchange, the next method is used.
    func exchangeForSignIn(in context: ProviderContext) async throws -> TokenExchange?

    /// Shares a sign-in with the vendor's other apps. Called after the credential has been stored. If it throws, the
    /// error is reported with the sign-in, which remains valid.
    func share(_ credential: Credential, in context: ProviderContext) async throws

    /// Returns the reason why the provider has ended a session, if another app has shared that reason; nil otherwise.
    func reasonForEnd(of credential: Credential, in context: ProviderContext) async -> String?
}

/// A provider that is known only from a protected resource, and whose metadata may therefore contain another server's
/// endpoints.
package protocol MixUpDefending: ProviderAdapter {
    /// Checks that the response to a request can be distinguished from another server's response (RFC 9700 section
    /// 2.1).
    /// - Throws: ``AuthError`` with `unsupported`.
    func requireMixUpDefense(_ metadata: ProviderMetadata, redirectURI: String) throws(AuthError)
}

extension ProviderAdapter {
    /// The parameters of a response, parsed by the adapter if the provider uses a non-standard format.
    func responseParameters(_ response: ProviderResponse) throws -> JSON {
        try (self as? any ResponseParsing)?.parameters(of: response) ?? response.parameters()
    }

    /// The standard code for a provider's error.
    package func standardName(of error: ProviderError?) -> String? {
        error.map { standardErrorNames[$0.error] ?? $0.error }
    }
}
