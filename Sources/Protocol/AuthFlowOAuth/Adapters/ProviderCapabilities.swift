package import AuthFlowHTTP
public import AuthFlowJSON

/// A provider whose back-channel responses are neither JSON nor a form, or name their members differently.
public protocol ResponseParsing: ProviderAdapter {
    /// Reads the parameters of a response, an `error` among them, under the names of the standards. Called for each response of
    /// the token, device authorization, revocation and introspection endpoints; it must not block.
    /// - Throws: ``AuthError`` with `invalid_reply` when the response cannot be read.
    func parameters(of response: ProviderResponse) throws -> JSON
}

/// A provider that says in its own way who a user is.
public protocol UserInfoProviding: ProviderAdapter {
    /// Returns the user whom tokens belong to; nil when that cannot be known. Called at each sign-in, after the ID Token, if
    /// there is one, has passed every check.
    func identity(for tokens: TokenSet, in context: ProviderContext) async throws -> Identity?

    /// Returns the claims about the user. Called by `userInfo()` of a client. Default: asks the userinfo endpoint.
    func userInfo(for tokens: TokenSet, in context: ProviderContext) async throws -> JSON

    /// Whether users of a client will be known. Called where a configuration is examined, before any sign-in. Default: true.
    func identifiesUsers(of registration: ClientRegistration) -> Bool
}

extension UserInfoProviding {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func userInfo(for tokens: TokenSet, in context: ProviderContext) async throws -> JSON {
        try await context.userInfo(for: tokens)
    }

    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func identifiesUsers(of registration: ClientRegistration) -> Bool { true }
}

/// A provider that revokes tokens in another way than RFC 7009 has it, or other tokens than these.
public protocol TokenRevoking: ProviderAdapter {
    /// Revokes the tokens of a user who signs out. They are no longer stored when it is called.
    /// - Throws: ``AuthError`` with `unsupported` and a sentence for the user when it cannot be done.
    func revoke(_ tokens: TokenSet, in context: ProviderContext) async throws
}

/// A provider with which the apps of one vendor share a sign-in, in ``ProviderContext/sharedCredentials``.
public protocol SharedSignIn: ProviderAdapter {
    /// Returns an exchange that signs the user in without a page, with what another app has shared; nil when there is
    /// nothing to exchange. Called before any other sign-in method; when the exchange fails, the next method is used.
    func exchangeForSignIn(in context: ProviderContext) async throws -> TokenExchange?

    /// Shares a sign-in with the vendor's other apps. Called after the credential was stored; an error is reported with the
    /// sign-in, which stays good.
    func share(_ credential: Credential, in context: ProviderContext) async throws

    /// Returns why the provider has ended a session, when an app has shared that; nil otherwise.
    func reasonForEnd(of credential: Credential, in context: ProviderContext) async -> String?
}

/// A provider that nothing but a protected resource has named: its metadata may name endpoints of another server.
package protocol MixUpDefending: ProviderAdapter {
    /// Passes a request whose response can be told from that of another server (RFC 9700 section 2.1).
    /// - Throws: ``AuthError`` with `unsupported`.
    func requireMixUpDefense(_ metadata: ProviderMetadata, redirectURI: String) throws(AuthError)
}

extension ProviderAdapter {
    /// The parameters of a response, read by the adapter when it has a format of its own.
    func responseParameters(_ response: ProviderResponse) throws -> JSON {
        try (self as? any ResponseParsing)?.parameters(of: response) ?? response.parameters()
    }

    /// What the standards call an error of this provider's.
    package func standardName(of error: ProviderError?) -> String? {
        error.map { standardErrorNames[$0.error] ?? $0.error }
    }
}
