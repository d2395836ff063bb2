public import AuthFlowCredentials
public import AuthFlowOAuth

extension AuthClient {
    /// The stored credential, or a newer one that could not be stored, even if its access token has expired; nil when
    /// no user is signed in.
    /// - Parameter account: The subject of an account, or its issuer and subject, separated by a space; default: the account in the options.
    /// - Throws: ``AuthError`` with `storage_failed` or `credential_unusable`; `invalid_configuration` when several accounts have the
    ///   subject at different issuers.
    public func credential(account: String? = nil) async throws -> Credential? {
        let (accounts, name) = (try await current().accounts(), account ?? options.account)
        try accounts.requireUnambiguous(name)
        return accounts.entry(name)?.credential
    }

    /// Returns the result of ``credential(account:)``, or throws an error if it is nil. The user is never prompted.
    /// - Throws: ``AuthError`` with `login_required` when no user is signed in, or, with the reason, when the provider has ended
    ///   the session; `storage_failed`.
    package func requiredCredential() async throws -> Credential { try await current().lastCredential() }

    /// Whether a credential has the registration's authorization details (RFC 9396), in any order; nil when the registration
    /// has none.
    package func coversAuthorizationDetails(_ credential: Credential) -> Bool? {
        client.coversAuthorizationDetails(credential.tokens)
    }

    /// The signed-in users, the current account first; accounts without an identity are omitted.
    /// - Throws: ``AuthError`` with `storage_failed`, or `credential_unusable` when the record cannot be read.
    public func accounts() async throws -> [Identity] {
        let accounts = try await current().accounts()
        let first = accounts.entry(nil)
        return ([first].compactMap { $0 } + accounts.entries.filter { $0 != first }).compactMap(\.credential?.identity)
    }

    /// Makes an account the current account, in this process and in all others.
    /// - Parameter name: The subject of an account that is signed in, or its issuer and subject, separated by a space.
    /// - Throws: ``AuthError`` with `login_required` when the account is not signed in, `invalid_configuration` when several accounts have the
    ///   subject, at different issuers; `storage_failed` or `credential_unusable`.
    public func selectAccount(_ name: String) async throws { try await current().select(name) }

    /// The states of the credential, starting with the current one: signed in, refreshed, expired, or ended with a reason. Changes by other
    /// processes are detected when the store is read, at the latest by the first ``freshTokens(account:)`` ten seconds after the last read.
    /// - Throws: ``AuthError`` with `storage_failed`, or `credential_unusable` when the record cannot be read.
    public func states() async throws -> AsyncStream<CredentialState> { try await current().states() }

    /// Whether the provider has ended the session.
    /// - Throws: ``AuthError`` with `storage_failed`, or `credential_unusable` when the record cannot be read.
    package func isEnded() async throws -> Bool {
        if case .ended? = try await states().first(where: { _ in true }) { true } else { false }
    }

    /// Returns tokens with a fresh access token: from the cache, or from a refresh.
    ///
    /// Call this method before each use; do not store the result. The call is cheap while the tokens are fresh; otherwise
    /// all tasks and processes wait for one refresh. The store is read at most once every ten seconds, to detect whether another process
    /// has signed out or signed in as another user; in between, the cache is trusted.
    /// - Parameter account: The subject of an account, or its issuer and subject, separated by a space; default: the account in the options.
    /// - Throws: ``AuthError`` with `login_required` when no user is signed in or the session has ended, or any error from
    ///   refreshing; `CancellationError` when the task is cancelled, which does not cancel the refresh for other tasks.
    public func freshTokens(account: String? = nil) async throws -> TokenSet {
        if account == nil, let fresh = alwaysCurrent?.cachedTokens() { return fresh.credential.tokens }
        return try await current().credential(of: account).tokens
    }

    /// Returns tokens for one of the resources of the sign-in (RFC 8707 section 2.2): from the cache, or obtained with
    /// the refresh token. Each resource, and each set of scopes, has a separate access token, and one refresh token
    /// can be used for all of them if the provider allows it. A machine-to-machine client requests tokens for the resource only.
    /// - Parameters:
    ///   - resource: One of the resources of the sign-in.
    ///   - scopes: A subset of the granted scopes; default: all, the only choice for a machine-to-machine client.
    ///   - duration: The minimum remaining lifetime of the token; default: the freshness margin.
    ///   - rejected: An access token that the resource has rejected and that must be replaced; default: none.
    /// - Throws: The same errors as ``freshTokens(account:)``; ``AuthError`` with `invalid_configuration` when the user was not signed in for the
    ///   resource, `provider_rejected` when the provider issues no token for it.
    public func freshTokens(
        for resource: String,
        scopes: [String]? = nil,
        lasting duration: Duration = .zero,
        replacing rejected: Secret? = nil
    ) async throws -> TokenSet {
        guard isWithoutUser else {
            return try await current().tokens(for: resource, scopes: scopes, rejected: rejected, margin: duration)
        }
        guard registration.resources.contains(where: { $0.isIdentical(to: resource) }) else {
            throw AuthError(
                .invalidConfiguration,
                "The resource \(Redaction.url(resource)) is not one of the resources of this client."
            )
        }
        guard scopes == nil else {
            throw AuthError(.unsupported, "A machine-to-machine client cannot request fewer scopes for one resource.")
        }
        return try await current(for: resource).credential(margin: duration, rejected: rejected).tokens
    }

    /// A credential whose access token has at least the given remaining lifetime.
    /// - Parameter duration: The minimum remaining lifetime. For short-lived tokens it is at most a quarter of their
    ///   lifetime, because otherwise every call would refresh them.
    /// - Throws: The same errors as ``freshTokens(account:)``.
    public func freshCredential(lasting duration: Duration) async throws -> Credential {
        try await current().credential(margin: duration)
    }

    /// Runs `body` with fresh tokens, and once more with newer tokens when it throws an ``AuthError`` with
    /// `access_token_rejected`. `body` must throw that error when an API responds with 401.
    /// - Throws: The same errors as ``freshTokens(account:)``, and any error that `body` throws.
    public func perform<Return: Sendable>(
        _ body: nonisolated(nonsending) (TokenSet) async throws -> Return
    ) async throws -> Return {
        let tokens = try await freshTokens()
        do {
            return try await body(tokens)
        } catch let error as AuthError where error.code == .accessTokenRejected {
            // Without a refresh token, newer tokens require another sign-in, here or in another process.
            if tokens.refreshToken == nil, !isWithoutUser {
                guard try await credential()?.tokens.accessToken != tokens.accessToken else { throw error }
            }
            return try await body(try await current().credential(rejected: tokens.accessToken).tokens)
        }
    }

    /// Exchanges the refresh token for new tokens, even if the old tokens are still valid, and stores them. A machine-to-machine client
    /// obtains new tokens, even if it has none yet.
    /// - Throws: The same errors as ``freshTokens(account:)``.
    @discardableResult
    public func refresh() async throws -> Credential {
        let known = isWithoutUser ? try await credential() : try await current().lastCredential()
        return try await current().credential(rejected: known?.tokens.accessToken)
    }

    /// The replacement for a credential whose access token was rejected: a newer credential from another task or
    /// process, or the result of a refresh.
    package func credential(replacing rejected: Secret) async throws -> Credential {
        try await current().credential(rejected: rejected)
    }

    /// Replaces and stores the tokens, in a way that is specific to the provider's adapter. No other task or process
    /// refreshes these tokens or writes their record in the meantime. The operation completes even if the task is cancelled.
    /// - Parameter body: Receives the stored tokens, and returns the tokens to store.
    /// - Throws: ``AuthError`` with `login_required` when no user is signed in; any error that `body` throws.
    @discardableResult
    public func replaceTokens(
        _ body: @escaping @Sendable (TokenSet, ProviderContext) async throws -> TokenSet
    ) async throws -> Credential {
        let current = try await current()
        return try await credentials.unfinished.finish { [client] in
            try await current.replace { try await body($0, client.providerContext) }
        }
    }

    /// The provider's claims about the signed-in user, from its userinfo endpoint or the adapter's equivalent.
    /// - Throws: ``AuthError`` with `login_required` when no user is signed in, and any error from the request.
    public func userInfo() async throws -> JSON {
        let credential = try await current().credential()
        try await client.requireBinding(of: credential, with: \ProviderMetadata.userInfoEndpoint)
        return try await perform { tokens in
            try await client.requireUser(of: credential, tokens)
            return try await client.userInfo(tokens, of: credential)
        }
    }

    /// Introspects a token: requests its active state and its metadata from the provider (RFC 7662).
    /// - Parameters:
    ///   - token: The token; default: the signed-in user's access token.
    ///   - typeHint: `token_type_hint`: the type of the token; default: `access_token`.
    /// - Throws: The same errors as ``OAuthClient/introspect(_:typeHint:)`` and, without a token, as
    ///   ``freshTokens(account:)``; ``AuthError`` with `login_required` when a stored token is bound to other endpoints.
    public func introspect(_ token: Secret? = nil, typeHint: String? = "access_token") async throws -> JSON {
        if let token {
            try await requireBinding(ofStored: [token], with: \ProviderMetadata.introspectionEndpoint)
            return try await client.introspect(token, typeHint: typeHint)
        }
        let credential = try await current().credential()
        try await client.requireBinding(of: credential, with: \ProviderMetadata.introspectionEndpoint)
        return try await client.introspect(credential.tokens.accessToken, typeHint: typeHint)
    }

    /// Exchanges a token for other tokens (RFC 8693). Nothing is stored.
    /// - Throws: The same errors as ``OAuthClient/tokenExchange(_:)``; ``AuthError`` with `login_required` when a
    ///   stored token that is bound to other endpoints is passed.
    public func exchange(_ exchange: TokenExchange) async throws -> TokenSet {
        try await requireBinding(ofStored: [exchange.subjectToken, exchange.actorToken])
        return try await client.tokenExchange(exchange)
    }

    /// Checks that the tokens passed by an app are not stored tokens, or that they may be sent to the provider's
    /// current endpoints.
    /// - Throws: ``AuthError`` with `login_required` when the tokens must not be sent there.
    private func requireBinding(ofStored tokens: [Secret?], with path: EndpointPath? = nil) async throws {
        for credential in try await storedCredentials() {
            let stored = credential.tokens
            let known =
                [stored.accessToken, stored.refreshToken, stored.idToken, stored.deviceSecret].compactMap { $0 }
                + credential.resourceTokens.map(\.accessToken)
            guard tokens.contains(where: { $0.map(known.contains) == true }) else { continue }
            try await client.requireBinding(of: credential, with: path)
        }
    }
}
