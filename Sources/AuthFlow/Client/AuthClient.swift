public import AuthFlowJSON
import Foundation

/// Signs a person in with one provider and keeps the credential: the face of AuthFlow that an app sees.
///
/// Made from a configuration file:
///
/// ```swift
/// let file = try ConfigurationFile(path: "authflow.json")
/// let client = try AuthClient(profile: try file.profile(), providers: [.oidc], userAgents: [.loopback])
/// let signIn = try await client.signIn()
/// print("Hello, \(signIn.credential.identity.displayName)")
/// ```
///
/// or from values, with ``init(name:settings:provider:userAgent:store:transport:host:observer:)``. Cancelling the task
/// that signs in cancels the sign-in and frees what it had opened.
public final class AuthClient: Sendable {
    private let engine: Engine
    private let userAgent: any UserAgent
    private let store: any TokenStore
    private let tokenKey: TokenKey
    private let observer: @Sendable (FlowEvent) -> Void

    /// Creates a client.
    /// - Parameters:
    ///   - name: Tells apart what several clients keep in one store.
    ///   - settings: What the provider knows the client by.
    ///   - provider: The adapter of the provider.
    ///   - userAgent: Shows the provider's pages to the person.
    ///   - store: Keeps the credential.
    ///   - transport: The way to the network.
    ///   - host: Time, randomness and environment.
    ///   - observer: Receives every event of every flow, at once and in order. It must not block.
    public init(
        name: String = "default",
        settings: ClientSettings,
        provider: any ProviderAdapter,
        userAgent: any UserAgent,
        store: any TokenStore = MemoryTokenStore(),
        transport: any HTTPTransport = URLSessionTransport(),
        host: HostServices = .system,
        observer: @escaping @Sendable (FlowEvent) -> Void = { _ in }
    ) {
        self.engine = Engine(provider: provider, settings: settings, transport: transport, host: host)
        self.userAgent = userAgent
        self.store = store
        self.tokenKey = TokenKey(name: name, provider: provider.id, clientID: settings.clientID)
        self.observer = observer
    }

    // MARK: Signing in

    /// Signs a person in: shows the provider's page, waits, checks everything, and keeps the credential.
    /// - Returns: The credential, and what went wrong if it could not be stored.
    /// - Throws: ``AuthError``; `CancellationError` when the task is cancelled.
    public func signIn() async throws -> SignIn {
        let flow = AuthorizationCodeFlow(engine: engine, reporter: reporter())
        let timeout = engine.settings.timeout
        return try await withDeadline(timeout, clock: engine.host.clock) {
            AuthError(
                .timedOut,
                "Nobody finished signing in within \(Int(timeout.seconds)) seconds. Start again when ready."
            )
        } _: {
            try await flow.signIn(with: self.userAgent) { outcome in
                await self.keep(outcome, reporter: flow.reporter)
            }
        }
    }

    /// Begins a sign-in by hand: for apps that show the page and receive the redirect themselves.
    ///
    /// Open the URL of the result, then hand the redirect to ``finishSignIn(_:with:)``. No user agent is used. A loopback
    /// redirect URI must name its port.
    /// - Throws: ``AuthError``.
    public func beginSignIn() async throws -> PendingAuthorization {
        let redirectURI = engine.settings.redirectURI
        if case .loopback(_, nil, _) = redirectURI.kind {
            throw AuthError(
                .invalidConfiguration,
                "Signing in by hand needs a redirect URI that is whole. Give \"\(redirectURI)\" the port you listen on."
            )
        }
        let flow = AuthorizationCodeFlow(engine: engine, reporter: reporter())
        return try await flow.begin(
            at: try await flow.discover(),
            redirectURI: redirectURI.uri,
            state: engine.host.randomToken()
        )
    }

    /// Finishes a sign-in that was begun by hand.
    /// - Parameters:
    ///   - pending: What ``beginSignIn()`` returned. It can be finished once.
    ///   - redirectURL: The URL that the person was sent back to, whole.
    /// - Throws: ``AuthError``. When the URL is not the answer, `pending` is still good and the answer may yet come.
    public func finishSignIn(_ pending: PendingAuthorization, with redirectURL: String) async throws -> SignIn {
        let flow = AuthorizationCodeFlow(engine: engine, reporter: reporter())
        return await keep(try await flow.finish(pending, with: redirectURL), reporter: flow.reporter)
    }

    private func keep(_ outcome: AuthorizationCodeFlow.Outcome, reporter: FlowReporter) async -> SignIn {
        var storageError: AuthError?
        do {
            try await reporter.step(.storing) {
                let bytes = try outcome.credential.serialized()
                try await store.withExclusiveAccess(to: tokenKey) { try await store.set(bytes, for: tokenKey) }
            }
        } catch {
            storageError =
                error as? AuthError
                ?? AuthError(.storageFailed, "The credential could not be stored.", underlyingError: error)
        }
        return SignIn(
            credential: outcome.credential,
            authorizationParameters: outcome.authorizationParameters,
            storageError: storageError
        )
    }

    // MARK: Being signed in

    /// The stored credential, whether or not its access token is still good; nil when nobody is signed in.
    /// - Throws: ``AuthError`` with `storage_failed`.
    public func credential() async throws -> Credential? {
        guard let bytes = try await store.bytes(for: tokenKey) else { return nil }
        return try Credential(serialized: bytes)
    }

    /// The stored credential when its access token is good for a while yet.
    /// - Parameter margin: How long it must last.
    /// - Throws: ``AuthError`` with `login_required` when nobody is signed in or the token has ended.
    public func validCredential(margin: Duration = .seconds(60)) async throws -> Credential {
        guard let credential = try await credential() else {
            throw AuthError(.loginRequired, "Nobody is signed in.")
        }
        if let end = credential.tokens.expiresAt, end.timeIntervalSince(engine.host.now()) <= margin.seconds {
            throw AuthError(
                .loginRequired,
                "The access token of \(credential.identity.displayName) has ended. Sign in again."
            )
        }
        return credential
    }

    /// What the provider's userinfo endpoint says about the person who is signed in.
    /// - Throws: ``AuthError`` with `login_required` when nobody is, and what fetching it throws.
    public func userInfo() async throws -> JSON {
        let credential = try await validCredential(margin: .zero)
        // A token never goes to another provider than the one that issued it, whatever became of the configuration.
        let issuer = try await engine.metadata().issuer
        guard issuer == credential.identity.issuer else {
            throw AuthError(
                .loginRequired,
                "The person is signed in at \(credential.identity.issuer), and the configuration now says \(issuer). Sign in again."
            )
        }
        return try await engine.context.userInfo(for: credential.tokens)
    }

    /// Verifies an ID Token of this provider for this client, one that came by another way than ``signIn()``: signature and
    /// every claim (OIDC Core section 3.1.3.7).
    /// - Parameters:
    ///   - idToken: The token.
    ///   - nonce: The nonce that was sent for it; nil when none was, and then it must have none.
    ///   - accessToken: The access token that came with it, for `at_hash`.
    /// - Throws: ``AuthError`` with `invalid_id_token`, or what fetching the provider's keys throws.
    public func verify(_ idToken: Secret, nonce: Secret? = nil, accessToken: Secret? = nil) async throws -> IDToken {
        let metadata = try await engine.metadata()
        var expectation = engine.expectation(of: metadata, occasion: .signIn(nonce: nonce))
        expectation.accessToken = accessToken
        return try await engine.verify(idToken, expectation, metadata: metadata)
    }

    /// Exchanges the refresh token for new tokens, whether or not the old ones are still good, and keeps them.
    /// - Throws: ``AuthError`` with `login_required` when there is no refresh token.
    public func refresh() async throws -> Credential {
        try await store.withExclusiveAccess(to: tokenKey) {
            guard let credential = try await credential() else {
                throw AuthError(.loginRequired, "Nobody is signed in.")
            }
            let refreshed = try await reporter().step(.refresh) { try await engine.refreshed(credential) }
            try await store.set(try refreshed.serialized(), for: tokenKey)
            return refreshed
        }
    }

    /// Forgets the credential on this machine. The session at the provider goes on.
    /// - Returns: Whether there was one.
    /// - Throws: ``AuthError`` with `storage_failed`.
    @discardableResult
    public func signOutLocally() async throws -> Bool {
        try await store.withExclusiveAccess(to: tokenKey) {
            let existed = try await store.bytes(for: tokenKey) != nil
            try await store.set(nil, for: tokenKey)
            return existed
        }
    }

    /// The provider's metadata.
    /// - Throws: ``AuthError``.
    public func metadata() async throws -> ProviderMetadata {
        try await AuthorizationCodeFlow(engine: engine, reporter: reporter()).discover()
    }

    private func reporter() -> FlowReporter {
        FlowReporter(host: engine.host, observer: observer)
    }
}

/// The result of a sign-in.
public struct SignIn: Sendable {
    /// The credential, every check passed.
    public let credential: Credential

    /// Every parameter of the redirect, for what a provider adds (`session_state` and the like). The code is used up.
    public let authorizationParameters: FormParameters

    /// Why it could not be stored, when it could not. The sign-in is good; only this process knows of it.
    public let storageError: AuthError?
}
