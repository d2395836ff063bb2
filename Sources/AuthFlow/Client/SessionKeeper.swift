import Foundation
import Synchronization

/// Keeps the tokens of one client fresh: across tasks, processes, crashes and rotations.
///
/// One refresh runs at a time: the tasks of this process wait for the same one, and processes take turns at the store. Who
/// has the turn reads the store again, takes over what somebody else has refreshed meanwhile, and otherwise refreshes and
/// writes the new tokens down before anybody gets to see them.
final class SessionKeeper: Sendable {
    let engine: Engine
    let store: any TokenStore
    let key: TokenKey
    private let account: String?
    private let reporter: @Sendable () -> FlowReporter
    private let state = Mutex(State())

    private struct State {
        var cached: Cached?
        var running: SharedTask<Credential>?
        var backoff: Backoff?
        var unsaved: Unsaved?
    }

    /// Tokens at hand, and when they are good.
    final class Cached: Sendable {
        let credential: Credential
        let notBefore: Double
        let freshUntil: Double

        fileprivate init(_ credential: Credential, margin: Duration) {
            self.credential = credential
            self.notBefore = credential.notBefore.timeIntervalSinceReferenceDate
            self.freshUntil = credential.freshUntil(margin: margin).timeIntervalSinceReferenceDate
        }
    }

    /// A credential that could not be written: the stored one is older than it.
    private struct Unsaved {
        let credential: Credential
        let replaces: Secret?
    }

    /// - Parameter account: The subject of the account to keep; nil for the current one.
    init(
        engine: Engine,
        store: any TokenStore,
        key: TokenKey,
        account: String?,
        reporter: @escaping @Sendable () -> FlowReporter
    ) {
        self.engine = engine
        self.store = store
        self.key = key
        self.account = account
        self.reporter = reporter
    }

    // MARK: The store

    /// What is stored.
    /// - Throws: ``AuthError`` with `storage_failed`.
    func book() async throws -> AccountBook {
        guard let bytes = try await store.bytes(for: key) else { return AccountBook() }
        return try AccountBook(serialized: bytes)
    }

    /// Changes what is stored, alone with it.
    func change<Return: Sendable>(_ body: (inout AccountBook) async throws -> Return) async throws -> Return {
        try await store.withExclusiveAccess(to: key) {
            var book = try await book()
            let before = book
            let result = try await body(&book)
            if book != before { try await write(book) }
            return result
        }
    }

    private func write(_ book: AccountBook) async throws {
        try await store.set(book.entries.isEmpty ? nil : try book.serialized(), for: key)
    }

    /// Finds out whether the store can be used at all, before a person is asked to sign in for nothing.
    func probe() async throws {
        try await store.withExclusiveAccess(to: key) { _ = try await book() }
    }

    /// Keeps what a sign-in has brought.
    /// - Throws: ``AuthError`` with `account_mismatch` when it is another account than the policy allows.
    func keep(_ credential: Credential, _ policy: AuthClient.AccountPolicy) async throws {
        try await change { book in
            let known = account ?? book.entry(nil)?.identity.subject
            let isOther = known.map { $0 != credential.identity.subject } ?? false
            if isOther, policy == .sameAccount {
                throw AuthError(
                    .accountMismatch,
                    "\(credential.identity.displayName) has signed in, and somebody else is signed in already. Sign out first, or ask to add or replace the account."
                )
            }
            if isOther, policy == .replaceAccount, let known { book.remove(known) }
            book.set(.signedIn(credential), isCurrent: true)
        }
        state.withLock {
            $0.backoff = nil
            $0.unsaved = nil
        }
        _ = adopt(credential)
    }

    /// Keeps what a sign-in has brought, and could not be stored, for as long as this process runs.
    func keepInMemory(_ credential: Credential) async {
        let stored = try? await book().entry(account)
        var replaces: Secret?
        if case .signedIn(let old)? = stored { replaces = old.tokens.refreshToken }
        state.withLock { [replaces] in $0.unsaved = Unsaved(credential: credential, replaces: replaces) }
        _ = adopt(credential)
    }

    /// Takes an account out, and returns what it had.
    func remove() async throws -> Credential? {
        forget()
        return try await change { book in
            guard let entry = book.entry(account) else { return nil }
            book.remove(entry.identity.subject)
            if case .signedIn(let credential) = entry { return credential }
            return nil
        }
    }

    /// Removes everything, whether or not it can be read.
    func clear() async throws -> Bool {
        forget()
        return try await store.withExclusiveAccess(to: key) {
            let existed = try await store.bytes(for: key) != nil
            try await store.set(nil, for: key)
            return existed
        }
    }

    /// Forgets what is at hand, so that the next call looks at the store.
    func forget() {
        state.withLock {
            $0.cached = nil
            $0.backoff = nil
            $0.unsaved = nil
        }
    }

    // MARK: Fresh tokens

    /// The tokens at hand, when they are fresh. No waiting, no input or output, no memory.
    func fresh() -> Cached? {
        let now = engine.host.now().timeIntervalSinceReferenceDate
        guard let cached = state.withLock({ $0.cached }), now < cached.freshUntil, now >= cached.notBefore else {
            return nil
        }
        return cached
    }

    /// A credential whose access token is fresh, refreshed when need be.
    /// - Parameter rejected: An access token that an API has refused, fresh as it may look.
    /// - Throws: ``AuthError`` with `login_required` when nobody is signed in or the session has ended; what refreshing
    ///   throws, when the old token has ended too; `CancellationError`, which cancels nobody else's refresh.
    func credential(rejected: Secret? = nil) async throws -> Credential {
        if let fresh = fresh()?.credential, fresh.tokens.accessToken != rejected { return fresh }
        // A refresh under way may end with the very token that was refused, and then another one is begun, once.
        var credential = try await sharedRefresh(rejected).value()
        if let rejected, credential.tokens.accessToken == rejected {
            credential = try await sharedRefresh(rejected).value()
        }
        return credential
    }

    private func sharedRefresh(_ rejected: Secret?) -> SharedTask<Credential> {
        state.withLock { state in
            if let running = state.running { return running }
            let task = SharedTask { [self] in
                defer { self.state.withLock { $0.running = nil } }
                return try await store.withExclusiveAccess(to: key) { try await refreshedAlone(rejected) }
            }
            state.running = task
            return task
        }
    }

    /// Runs while nobody else has access to the store.
    private func refreshedAlone(_ rejected: Secret?) async throws -> Credential {
        var book = try await book()
        let credential = try await latest(in: &book)
        let now = engine.host.now()
        let isFresh =
            now < credential.freshUntil(margin: engine.settings.freshnessMargin) && now >= credential.notBefore
        if isFresh, credential.tokens.accessToken != rejected { return adopt(credential) }
        return try await refreshed(credential, in: &book, rejected: rejected)
    }

    /// The account's credential: what is stored, or what could not be stored last time.
    private func latest(in book: inout AccountBook) async throws -> Credential {
        let unsaved = state.withLock { $0.unsaved }
        guard let unsaved, unsaved.replaces == book.refreshToken(account) else { return try signedIn(in: book) }
        // The store still has what was replaced; perhaps it can be written to now.
        await save(unsaved.credential, in: &book, replacing: unsaved.replaces)
        return unsaved.credential
    }

    /// Replaces the tokens, alone with the store.
    func replace(_ body: (TokenSet) async throws -> TokenSet) async throws -> Credential {
        try await store.withExclusiveAccess(to: key) {
            var book = try await book()
            var credential = try await latest(in: &book)
            try await engine.requireIssuer(of: credential)
            let replaced = credential.tokens.refreshToken
            credential.tokens = try await body(credential.tokens)
            credential.obtainedAt = engine.host.wholeSecond
            await save(credential, in: &book, replacing: replaced)
            return adopt(credential)
        }
    }

    private func refreshed(
        _ credential: Credential,
        in book: inout AccountBook,
        rejected: Secret?
    ) async throws -> Credential {
        // A token that has not ended is better than none.
        func fallback(_ error: any Error) throws -> Credential {
            let isUsable = credential.tokens.expiresAt.map { engine.host.now() < $0 } ?? true
            guard isUsable, credential.tokens.accessToken != rejected, !(error is CancellationError) else {
                throw error
            }
            return credential
        }
        guard credential.tokens.refreshToken != nil else {
            let error = AuthError(
                .loginRequired,
                """
                The access token of \(credential.identity.displayName) has ended, and the provider gave no refresh token. Sign \
                in again; many providers give one for the scope "offline_access".
                """
            )
            return adopt(try fallback(error))
        }
        if let wait = state.withLock({ $0.backoff })?.error(at: engine.host.now()) { return try fallback(wait) }
        do {
            let refreshed = try await reporter().step(.refresh) { try await engine.refreshed(credential) }
            state.withLock { $0.backoff = nil }
            await save(refreshed, in: &book, replacing: credential.tokens.refreshToken)
            return adopt(refreshed)
        } catch let error as AuthError where error.code == .loginRequired {
            throw error
        } catch let error as AuthError where engine.standardName(of: error.providerError) == "invalid_grant" {
            // RFC 6749 section 5.2: the refresh token is "invalid, expired, revoked". Access to the store is exclusive and
            // it was read a moment ago, so this is the token that is stored, and nobody's newer one is lost.
            throw await ended(credential, error, in: &book)
        } catch let error as AuthError {
            state.withLock { state in
                state.backoff = Backoff(
                    after: state.backoff,
                    error: error,
                    now: engine.host.now(),
                    random: engine.host.randomBytes(1).first ?? 0
                )
            }
            return try fallback(error)
        }
    }

    /// The account's credential.
    /// - Throws: ``AuthError`` with `login_required` and the reason.
    func signedIn(in book: AccountBook) throws(AuthError) -> Credential {
        switch book.entry(account) {
        case .signedIn(let credential)?: return credential
        case .ended(let session)?: throw session.error
        case nil:
            let who = account.map { "The account \"\(DisplayText.sanitized($0, limit: 80))\" is not signed in" }
            throw AuthError(.loginRequired, "\(who ?? "Nobody is signed in").")
        }
    }

    private func adopt(_ credential: Credential) -> Credential {
        state.withLock { $0.cached = Cached(credential, margin: engine.settings.freshnessMargin) }
        return credential
    }

    /// Writes a refreshed credential down. When that fails it is good all the same, and only this process knows of it.
    private func save(_ credential: Credential, in book: inout AccountBook, replacing old: Secret?) async {
        book.set(.signedIn(credential), isCurrent: false)
        do {
            try await reporter().step(.storing) { try await write(book) }
            state.withLock { $0.unsaved = nil }
        } catch {
            state.withLock { $0.unsaved = Unsaved(credential: credential, replaces: old) }
        }
    }

    private func ended(_ credential: Credential, _ error: AuthError, in book: inout AccountBook) async -> AuthError {
        let words = error.providerError.map { "\($0)" } ?? "invalid_grant"
        let reason = await engine.provider.reasonForEnd(of: credential, in: engine.context)
        let session = EndedSession(
            identity: credential.identity,
            reason: reason.map { "\($0); \(words)" } ?? words,
            endedAt: engine.host.wholeSecond
        )
        book.set(.ended(session), isCurrent: false)
        forget()
        let reporter = reporter()
        reporter.report(.sessionEnd, details: ["reason": session.reason])
        // If this cannot be written, the next process will ask the provider once more and be told the same.
        try? await reporter.step(.storing) { try await write(book) }
        return session.error(providerError: error.providerError)
    }
}

extension EndedSession {
    /// What to tell who asks for its tokens.
    var error: AuthError { error(providerError: nil) }

    fileprivate func error(providerError: ProviderError?) -> AuthError {
        AuthError(
            .loginRequired,
            "The session of \(identity.displayName) was ended by the provider (\(DisplayText.sanitized(reason))). Sign in again.",
            providerError: providerError
        )
    }
}
