public import AuthFlowJSON
import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

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
/// or from values, with ``init(name:settings:provider:userAgent:devicePresenter:store:sharedCredentials:account:transport:host:observer:)``. Cancelling the task
/// that signs in cancels the sign-in and frees what it had opened.
public final class AuthClient: Sendable {
    let engine: Engine
    let userAgent: any UserAgent
    private let lastResort: (any UserAgent)?
    private let devicePresenter: (any DevicePresenter)?
    let keeper: SessionKeeper
    private let account: String?
    private let observer: @Sendable (FlowEvent) -> Void

    /// Creates a client.
    /// - Parameters:
    ///   - name: Tells apart what several clients keep in one store.
    ///   - settings: What the provider knows the client by.
    ///   - provider: The adapter of the provider.
    ///   - userAgent: Shows the provider's pages to the person.
    ///   - devicePresenter: Shows the person the code for signing in on another screen; nil when that is no way to sign in.
    ///   - store: Keeps the credential.
    ///   - sharedCredentials: What the apps of one maker share on this machine; nil for an app by itself.
    ///   - account: The subject of the account that is meant when several are signed in; nil for the one that signed in or
    ///     was selected last.
    ///   - transport: The way to the network.
    ///   - host: Time, randomness and environment.
    ///   - observer: Receives every event of every flow, at once and in order. It must not block.
    public convenience init(
        name: String = "default",
        settings: ClientSettings,
        provider: any ProviderAdapter,
        userAgent: any UserAgent,
        devicePresenter: (any DevicePresenter)? = nil,
        store: any TokenStore = MemoryTokenStore(),
        sharedCredentials: SharedCredentialStore? = nil,
        account: String? = nil,
        transport: any HTTPTransport = SystemTransport(),
        host: HostServices = .system,
        observer: @escaping @Sendable (FlowEvent) -> Void = { _ in }
    ) {
        self.init(
            name: name,
            settings: settings,
            provider: provider,
            userAgent: userAgent,
            lastResort: nil,
            devicePresenter: devicePresenter,
            store: store,
            sharedCredentials: sharedCredentials,
            account: account,
            transport: transport,
            host: host,
            observer: observer
        )
    }

    /// - Parameter lastResort: The user agent to take when no flow could begin: it works, but another screen is better.
    init(
        name: String,
        settings: ClientSettings,
        provider: any ProviderAdapter,
        userAgent: any UserAgent,
        lastResort: (any UserAgent)?,
        devicePresenter: (any DevicePresenter)?,
        store: any TokenStore,
        sharedCredentials: SharedCredentialStore?,
        account: String?,
        transport: any HTTPTransport,
        host: HostServices,
        observer: @escaping @Sendable (FlowEvent) -> Void
    ) {
        self.engine = Engine(
            provider: provider,
            settings: settings,
            transport: transport,
            host: host,
            shared: sharedCredentials
        )
        self.userAgent = userAgent
        self.lastResort = lastResort
        self.devicePresenter = devicePresenter
        self.account = account
        self.observer = observer
        self.keeper = SessionKeeper(
            engine: engine,
            store: store,
            key: TokenKey(name: name, provider: provider.id, clientID: settings.clientID),
            account: account,
            reporter: { FlowReporter(host: host, observer: observer) }
        )
    }

    /// What to do when another user signs in than the one who is signed in already.
    public enum AccountPolicy: Sendable, Hashable {
        /// Refuse. The one who was signed in stays.
        case sameAccount
        /// Keep both; the new one becomes the current one.
        case addAccount
        /// Forget the one who was signed in.
        case replaceAccount
    }

    // MARK: Signing in

    /// Signs a person in: shows the provider's page, or a code for another screen, waits, checks everything, and keeps the
    /// credential. The ways in ``ClientSettings/flows`` are tried in order until one can begin.
    /// - Parameter policy: What to do when it is another user than the one who is signed in already.
    /// - Returns: The credential, and what went wrong if it could not be stored.
    /// - Throws: ``AuthError``, with `storage_failed` before any page is shown when the store cannot be used;
    ///   `CancellationError` when the task is cancelled.
    public func signIn(_ policy: AccountPolicy = .sameAccount) async throws -> SignIn {
        // A person who has signed in for nothing does not come back.
        try await keeper.probe()
        let reporter = reporter()
        // Who asks for another account wants to be asked who they are.
        if policy == .sameAccount, let signIn = try await signInByExchange(reporter) { return signIn }
        var ways = engine.settings.flows.map { Way(flow: $0, userAgent: userAgent) }
        if let lastResort { ways.append(Way(flow: .authorizationCode, userAgent: lastResort)) }
        let last = ways.removeLast()
        for way in ways {
            let hasBegun = Mutex(false)
            do {
                return try await signIn(by: way, policy, reporter) { hasBegun.withLock { $0 = true } }
            } catch let error as AuthError where Self.mayGoOtherwise(error) && !hasBegun.withLock({ $0 }) {
                reporter.report(.flowChoice, details: ["passed_over": way.flow.rawValue, "reason": error.description])
            }
        }
        return try await signIn(by: last, policy, reporter) {}
    }

    private struct Way: Sendable {
        let flow: SignInFlow
        let userAgent: any UserAgent
    }

    /// Signs in with what another app has shared, when there is something and it works.
    private func signInByExchange(_ reporter: FlowReporter) async throws -> SignIn? {
        @Sendable func passOver(_ error: AuthError) {
            reporter.report(
                .flowChoice,
                details: ["passed_over": FlowEvent.Step.tokenExchange.rawValue, "reason": error.description]
            )
        }
        let exchange: TokenExchange
        do {
            guard let found = try await engine.provider.exchangeForSignIn(in: engine.context) else { return nil }
            exchange = found
        } catch let error as AuthError {
            passOver(error)
            return nil
        }
        return try await engine.unfinished.finish {
            let outcome: SignInOutcome
            do {
                outcome = try await self.engine.signedIn(by: exchange, reporter: reporter)
            } catch let error as AuthError {
                passOver(error)
                return nil
            }
            return try await self.keep(outcome, .sameAccount, reporter: reporter)
        }
    }

    /// Whether the redirect of a sign-in has come.
    private final class IsAnswered: Sendable {
        let value = Atomic(false)
    }

    /// Whether another way to sign in may work where one could not begin.
    private static func mayGoOtherwise(_ error: AuthError) -> Bool {
        [.unsupported, .userAgentFailed, .noUserAgent, .portBusy].contains(error.code)
    }

    /// - Parameter begun: Called before a person is shown anything.
    private func signIn(
        by way: Way,
        _ policy: AccountPolicy,
        _ reporter: FlowReporter,
        begun: @escaping @Sendable () -> Void
    ) async throws -> SignIn {
        switch way.flow {
        case .authorizationCode:
            // Known before anybody is asked anything: a program that nobody watches must not wait for somebody.
            if let unavailable = way.userAgent as? UnavailableUserAgent { throw unavailable.error }
            let timeout = engine.settings.timeout
            let isAnswered = IsAnswered()
            return try await withDeadline(timeout, clock: engine.host.clock) {
                // The tokens that come for a code are kept, so the sign-in is not said to have failed meanwhile.
                isAnswered.value.load(ordering: .relaxed)
            } orThrow: {
                AuthError(
                    .timedOut,
                    "The sign-in was not finished within \(Int(timeout.seconds)) seconds. Start again when ready."
                )
            } _: {
                let flow = AuthorizationCodeFlow(
                    engine: self.engine,
                    reporter: reporter,
                    begun: begun,
                    answered: { isAnswered.value.store(true, ordering: .relaxed) }
                )
                return try await flow.signIn(with: way.userAgent) { outcome in
                    try await self.keep(outcome, policy, reporter: reporter)
                }
            }
        case .device:
            guard let devicePresenter else {
                throw AuthError(.unsupported, "This program cannot show a code for signing in on another screen.")
            }
            let flow = DeviceFlow(engine: engine, reporter: reporter)
            let (metadata, authorization) = try await flow.begin(longestWait: devicePresenter.longestWait)
            begun()
            return try await devicePresenter.present(authorization) {
                try await flow.finish(authorization, at: metadata) { outcome in
                    try await self.keep(outcome, policy, reporter: reporter)
                }
            }
        }
    }

    /// Finds out whether the store can be read, written to and locked, as every sign-in does before a person is asked.
    /// - Throws: ``AuthError`` with `storage_failed`.
    public func checkStore() async throws { try await keeper.probe() }

    /// The settings of the client.
    public var settings: ClientSettings { engine.settings }

    /// The redirect URIs that the provider knows this client by, best first.
    public var redirectURIs: [RedirectURI] { engine.settings.redirectURIs }

    /// Hands over a redirect that arrived by another way than the user agent: the URL that an app was opened with, or one
    /// that a person has pasted. It is checked like any other.
    /// - Parameter url: The URL, whole.
    /// - Returns: Whether a sign-in or sign-out of this client waits for it. What does not belong to one ends none.
    @discardableResult
    public func resume(with url: String) -> Bool { engine.visits.resume(with: url) }

    /// Begins a sign-in by hand: for apps that show the page and receive the redirect themselves.
    ///
    /// Open the URL of the result, then hand the redirect to ``finishSignIn(_:with:policy:)``. No user agent is used. A
    /// loopback redirect URI must name its port; the first redirect URI that is whole is taken.
    /// - Throws: ``AuthError``.
    public func beginSignIn() async throws -> PendingAuthorization {
        let redirectURI = engine.settings.redirectURIs.first {
            if case .loopback(_, nil, _) = $0.kind { false } else { true }
        }
        guard let redirectURI else {
            throw AuthError(
                .invalidConfiguration,
                "Signing in by hand needs a redirect URI that is whole. Give it the port you listen on."
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
    ///   - policy: What to do when it is another user than the one who is signed in already.
    /// - Throws: ``AuthError``. When the URL is not the answer, `pending` is still good and the answer may yet come.
    public func finishSignIn(
        _ pending: PendingAuthorization,
        with redirectURL: String,
        policy: AccountPolicy = .sameAccount
    ) async throws -> SignIn {
        let flow = AuthorizationCodeFlow(engine: engine, reporter: reporter())
        return try await engine.unfinished.finish {
            try await self.keep(try await flow.finish(pending, with: redirectURL), policy, reporter: flow.reporter)
        }
    }

    /// Whether something is under way that must not be lost: what ``drain(within:)`` waits for.
    public var hasUnfinishedWork: Bool { engine.unfinished.isBusy }

    /// Waits until nothing is under way that must not be lost: exchanges of codes and refresh tokens, whose results are then
    /// stored, and revocations. They come to their end whichever tasks are cancelled, but not when the process leaves: call it
    /// before that.
    /// - Parameter patience: How long to wait; default: three seconds.
    /// - Returns: Whether everything is finished.
    public func drain(within patience: Duration = .seconds(3)) async -> Bool {
        await engine.unfinished.drain(within: patience, clock: engine.host.clock)
    }

    private func keep(
        _ outcome: SignInOutcome,
        _ policy: AccountPolicy,
        reporter: FlowReporter
    ) async throws -> SignIn {
        var signIn = SignIn(credential: outcome.credential, authorizationParameters: outcome.authorizationParameters)
        do {
            try await keeper.keep(outcome.credential, policy, reporter)
        } catch let error as AuthError where error.code == .accountMismatch {
            throw error
        } catch {
            if error is CancellationError { throw error }
            await keeper.keepInMemory(outcome.credential)
            signIn.storageError =
                error as? AuthError
                ?? AuthError(.storageFailed, "The credential could not be stored.", underlyingError: error)
        }
        do {
            try await engine.provider.share(outcome.credential, in: engine.context)
        } catch {
            if error is CancellationError { throw error }
            let failure =
                error as? AuthError
                ?? AuthError(
                    .storageFailed,
                    "The sign-in could not be shared with the other apps of its group.",
                    underlyingError: error
                )
            reporter.report(.sharing, .failed(failure.code))
            signIn.sharingError = failure
        }
        return signIn
    }

    // MARK: Being signed in

    /// The stored credential, or the newer one that could not be stored, whether or not its access token is still good; nil when
    /// no user is signed in.
    /// - Throws: ``AuthError`` with `storage_failed`.
    public func credential() async throws -> Credential? {
        try await keeper.book().entry(account)?.credential
    }

    /// What ``credential()`` returns. No page is shown.
    /// - Throws: ``AuthError`` with `login_required` when no user is signed in, or, with the reason, when the provider has ended
    ///   the session; `storage_failed`.
    public func requiredCredential() async throws -> Credential {
        try keeper.signedIn(in: try await keeper.book())
    }

    /// Who is signed in, the current account first.
    /// - Throws: ``AuthError`` with `storage_failed`.
    public func accounts() async throws -> [Identity] {
        let book = try await keeper.book()
        let current = book.entry(nil)
        return ([current].compactMap { $0 } + book.entries.filter { $0 != current }).compactMap {
            if case .signedIn(let credential) = $0 { credential.identity } else { nil }
        }
    }

    /// Makes an account the current one, for this and every other process.
    /// - Parameter subject: The subject of an account that is signed in.
    /// - Throws: ``AuthError`` with `login_required` when it is not.
    public func selectAccount(_ subject: String) async throws {
        try await keeper.change { book in
            guard let entry = book.entry(subject) else {
                throw AuthError(
                    .loginRequired,
                    "The account \"\(DisplayText.sanitized(subject, limit: 80))\" is not signed in."
                )
            }
            book.select(entry.identity.account)
        }
        keeper.beginEpoch()
    }

    /// Tokens that are good for a while yet: those at hand, or refreshed ones.
    ///
    /// Call it before each use and keep nothing. While the tokens are fresh this costs next to nothing; when they are not,
    /// all tasks and processes wait for one refresh. At most every ten seconds the store is read to see whether another process
    /// has signed out, or in as another user, meanwhile; in between, what is at hand in this process is trusted.
    /// - Throws: ``AuthError`` with `login_required` when no user is signed in or the session has ended, or what refreshing
    ///   throws; `CancellationError` when the task is cancelled, which ends no other task's refresh.
    public func freshTokens() async throws -> TokenSet {
        if let fresh = keeper.fresh() { return fresh.credential.tokens }
        return try await keeper.credential().tokens
    }

    /// A credential whose access token lasts for a while.
    /// - Parameter duration: How long it should last. Of tokens that live shortly no more is asked than three quarters of their
    ///   life, or they would be refreshed at every call.
    /// - Throws: As ``freshTokens()``.
    public func freshCredential(lasting duration: Duration) async throws -> Credential {
        try await keeper.credential(margin: duration)
    }

    /// Runs `body` with fresh tokens, and once more with newer ones when it throws an ``AuthError`` with
    /// `access_token_rejected`: what to throw when an API answers with 401.
    /// - Throws: As ``freshTokens()``, and whatever `body` throws.
    public func perform<Return: Sendable>(
        _ body: nonisolated(nonsending) (TokenSet) async throws -> Return
    ) async throws -> Return {
        let tokens = try await freshTokens()
        do {
            return try await body(tokens)
        } catch let error as AuthError where error.code == .accessTokenRejected {
            // Without a refresh token the only newer ones are those of another sign-in, here or in another process.
            if tokens.refreshToken == nil {
                guard try await keeper.book().entry(account)?.credential?.tokens.accessToken != tokens.accessToken
                else {
                    throw error
                }
            }
            return try await body(try await keeper.credential(rejected: tokens.accessToken).tokens)
        }
    }

    /// Exchanges the refresh token for new tokens, whether or not the old ones are still good, and keeps them.
    /// - Throws: As ``freshTokens()``.
    @discardableResult
    public func refresh() async throws -> Credential {
        try await keeper.credential(rejected: try await keeper.lastCredential().tokens.accessToken)
    }

    /// Replaces the tokens by others, in a way that only the provider's adapter knows, and keeps those: no other task or process
    /// refreshes or uses the store meanwhile. It comes to its end when the task is cancelled.
    /// - Parameter body: Given the stored tokens, returns the ones to keep.
    /// - Throws: ``AuthError`` with `login_required` when no user is signed in; what `body` throws.
    @discardableResult
    public func replaceTokens(
        _ body: @escaping @Sendable (TokenSet, ProviderContext) async throws -> TokenSet
    ) async throws -> Credential {
        try await engine.unfinished.finish { [keeper, engine] in
            try await keeper.replace { try await body($0, engine.context) }
        }
    }

    /// What the provider says about the person who is signed in: its userinfo endpoint, or what its adapter asks instead.
    /// - Throws: ``AuthError`` with `login_required` when nobody is, and what fetching it throws.
    public func userInfo() async throws -> JSON {
        try await engine.requireBinding(of: try await keeper.credential(), with: \.userInfoEndpoint)
        return try await perform { try await engine.provider.userInfo(for: $0, in: engine.context) }
    }

    /// Verifies an ID Token of this provider for this client, one that came by another way than ``signIn(_:)``: signature
    /// and every claim (OIDC Core section 3.1.3.7).
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

    /// The provider's metadata.
    /// - Throws: ``AuthError``.
    public func metadata() async throws -> ProviderMetadata {
        try await AuthorizationCodeFlow(engine: engine, reporter: reporter()).discover()
    }

    /// What adapters are lent, for what one provider alone can do: its adapter has functions that take it.
    public var providerContext: ProviderContext { engine.context }

    func reporter() -> FlowReporter {
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
    public internal(set) var storageError: AuthError?

    /// Why it could not be shared with the other apps of a group, when that was asked for and failed. The sign-in is good and
    /// stored; the other apps do not know of it.
    public internal(set) var sharingError: AuthError?
}
