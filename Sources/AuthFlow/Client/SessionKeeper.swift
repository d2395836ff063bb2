import AuthFlowJSON
import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Keeps the tokens of one client fresh: across tasks, processes, crashes and rotations.
///
/// One refresh runs at a time: the tasks of this process wait for the same one, and processes take turns at the store. The
/// holder of the turn reads the store again, takes over what another has refreshed meanwhile, and otherwise refreshes and
/// writes the new tokens down before anything is handed out.
///
/// Whatever changes who is signed in (a sign-in, a sign-out, another account) begins a new epoch. Work that was begun in an
/// earlier one is finished and written, and nothing of it is handed out: its callers look at the store again.
final class SessionKeeper: Sendable {
    /// How long tokens at hand are handed out before the store is looked at again: another process may have signed out, in seconds.
    static let checkInterval: TimeInterval = 10

    /// How often a provider may refuse a refresh without saying why before the user is asked to sign in again.
    static let toleratedRefusals: Int64 = 2

    let engine: Engine
    let store: any TokenStore
    let key: TokenKey
    private let account: String?
    private let reporter: @Sendable () -> FlowReporter
    private let state = Mutex(State())

    private struct State {
        var cached: Cached?
        /// When the store was last seen to have what is cached.
        var checkedAt = -Double.infinity
        var epoch = 0
        var running: SharedTask<Credential>?
        var backoff: Backoff?
        /// At most one for each account.
        var unsaved: [Unsaved] = []
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

        fileprivate func isFresh(at now: Double) -> Bool { now < freshUntil && now >= notBefore }
    }

    /// A credential that could not be written: the stored one is older than it.
    private struct Unsaved {
        let credential: Credential
        /// What the store has in its place. When the store has something else, that is newer.
        var replaces: Replaced
        /// Whether it comes of a sign-in, and is the current account.
        let isSignIn: Bool
        /// When it was made: work of an earlier epoch neither replaces nor removes it.
        let epoch: Int

        var account: AccountID { credential.identity.account }
    }

    /// What a store has for an account.
    private enum Replaced: Equatable {
        /// What is read next.
        case unknown
        case entry(AccountBook.Entry?)
    }

    /// Thrown when another user was signed in, or none, before work had come to its end.
    private struct Outdated: Error {}

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

    /// What is stored, with what could not be stored in its place. What is at hand and stands there no longer is dropped.
    /// - Throws: ``AuthError`` with `storage_failed` or `credential_unusable`.
    func book() async throws -> AccountBook { try await read().known }

    /// - Returns: What is stored, the same with what could not be stored, and the epoch of that.
    private func read() async throws -> (stored: AccountBook, known: AccountBook, epoch: Int) {
        let (epoch, seen) = state.withLock { ($0.epoch, $0.cached) }
        let stored =
            try await store.bytes(for: key).map { bytes in try AccountBook(serialized: bytes) } ?? AccountBook()
        return state.withLock { state in
            var known = stored
            for index in state.unsaved.indices where state.unsaved[index].replaces == .unknown {
                state.unsaved[index].replaces = .entry(stored.entry(of: state.unsaved[index].account))
            }
            // What another process has stored since is newer than what could not be stored here.
            state.unsaved.removeAll { $0.replaces != .entry(stored.entry(of: $0.account)) }
            for unsaved in state.unsaved { known.set(.signedIn(unsaved.credential), isCurrent: unsaved.isSignIn) }
            if state.epoch == epoch, let cached = state.cached, cached === seen {
                let tokens = known.entry(account)?.credential?.tokens
                if tokens?.accessToken == cached.credential.tokens.accessToken,
                    tokens?.expiresAt == cached.credential.tokens.expiresAt
                {
                    state.checkedAt = engine.host.now().timeIntervalSinceReferenceDate
                } else {
                    state.cached = nil
                }
            }
            return (stored, known, state.epoch)
        }
    }

    /// The credential that was good last: what is stored, or what could not be stored.
    /// - Throws: ``AuthError`` with `login_required` and the reason.
    func lastCredential() async throws -> Credential { try signedIn(in: try await book()) }

    /// Changes what is stored, alone with it.
    func change<Return: Sendable>(_ body: (inout AccountBook) async throws -> Return) async throws -> Return {
        try await store.withExclusiveAccess(to: key) {
            var (stored, book, epoch) = try await read()
            let result = try await body(&book)
            if book != stored { try await write(book, epoch) }
            return result
        }
    }

    /// Writes what was known in an epoch, so that nothing of it is left that could not be stored.
    private func write(_ book: AccountBook, _ epoch: Int) async throws {
        try await store.set(book.entries.isEmpty ? nil : try book.serialized(), for: key)
        state.withLock { state in
            state.unsaved.removeAll { $0.epoch <= epoch }
            // What is newer takes the place of what has been written now, whatever that reads as.
            for index in state.unsaved.indices { state.unsaved[index].replaces = .unknown }
        }
    }

    /// Finds out whether the store can be used at all and has room, before a user is asked to sign in for nothing.
    func probe() async throws {
        try await store.withExclusiveAccess(to: key) { try await book().requireRoom() }
    }

    /// Keeps what a sign-in has brought.
    /// - Throws: ``AuthError`` with `account_mismatch` when it is another account than the policy allows.
    func keep(_ credential: Credential, _ policy: AuthClient.AccountPolicy, _ reporter: FlowReporter) async throws {
        try await store.withExclusiveAccess(to: key) {
            var (_, book, epoch) = try await read()
            let other = otherAccount(than: credential.identity.account, in: book)
            if other != nil, policy == .sameAccount {
                throw AuthError(
                    .accountMismatch,
                    "\(credential.identity.displayName) has signed in, and another user is signed in already. Sign out first, or ask to add or replace the account."
                )
            }
            if let other, policy == .replaceAccount { book.remove(other) }
            book.set(.signedIn(credential), isCurrent: true)
            try await reporter.step(.storing) { [book] in try await write(book, epoch) }
            beginEpoch()
            // A client that is made for one account keeps what it signs in for another, and does not use it.
            if book.entry(account)?.identity.account == credential.identity.account { _ = adopt(credential) }
        }
    }

    /// The account that is meant here, when it is another one.
    private func otherAccount(than signedIn: AccountID, in book: AccountBook) -> AccountID? {
        let known = book.entry(account)?.identity.account
        if let account, known == nil {
            return account.isIdentical(to: signedIn.subject)
                ? nil : AccountID(issuer: signedIn.issuer, subject: account)
        }
        return known == signedIn ? nil : known
    }

    /// Keeps what a sign-in has brought, and could not be stored, for as long as this process runs.
    func keepInMemory(_ credential: Credential) async {
        let stored = try? await read().stored
        let epoch = beginEpoch()
        let replaced = stored.map { Replaced.entry($0.entry(of: credential.identity.account)) } ?? .unknown
        remember(credential, replacing: replaced, isSignIn: true, epoch)
        if account.map(credential.identity.subject.isIdentical) ?? true { _ = adopt(credential) }
    }

    /// Keeps in memory what could not be written.
    private func remember(_ credential: Credential, replacing old: Replaced, isSignIn: Bool, _ epoch: Int) {
        let account = credential.identity.account
        state.withLock { state in
            let earlier = state.unsaved.first { $0.account == account }
            // A sign-in that came meanwhile is newer.
            if let earlier, earlier.epoch > epoch { return }
            state.unsaved.removeAll { $0.account == account }
            state.unsaved.append(
                Unsaved(
                    credential: credential,
                    // The store still has what the earlier one would have replaced.
                    replaces: earlier.map(\.replaces) ?? old,
                    isSignIn: isSignIn || earlier?.isSignIn == true,
                    epoch: epoch
                )
            )
        }
    }

    /// Takes an account out, alone with the store: what comes out is what was good last, whichever process has refreshed it.
    /// - Returns: What the account had; the credential is nil when its session had ended.
    func remove() async throws -> AccountBook.Entry? {
        beginEpoch()
        return try await store.withExclusiveAccess(to: key) {
            var (stored, book, epoch) = try await read()
            guard let entry = book.entry(account) else { return nil }
            book.remove(entry.identity.account)
            if book != stored { try await write(book, epoch) }
            let account = entry.identity.account
            state.withLock { state in state.unsaved.removeAll { $0.account == account } }
            beginEpoch()
            return entry
        }
    }

    /// Removes everything, whether or not it can be read.
    func clear() async throws -> Bool {
        beginEpoch()
        return try await store.withExclusiveAccess(to: key) {
            // What cannot be read is there all the same.
            let existed: Bool
            do { existed = try await store.bytes(for: key) != nil } catch { existed = true }
            try await store.set(nil, for: key)
            defer { beginEpoch() }
            return state.withLock { state in
                defer { state.unsaved = [] }
                return existed || !state.unsaved.isEmpty
            }
        }
    }

    /// Forgets what is at hand and what is under way, so that the next call looks at the store. What could not be stored is kept:
    /// it is the only copy.
    /// - Returns: The new epoch.
    @discardableResult
    func beginEpoch() -> Int {
        state.withLock {
            $0.epoch += 1
            $0.cached = nil
            $0.backoff = nil
            return $0.epoch
        }
    }

    // MARK: Fresh tokens

    /// The tokens at hand, when they are fresh and the store was looked at a moment ago. No waiting, no input or output, no
    /// memory.
    func fresh() -> Cached? {
        let now = engine.host.now().timeIntervalSinceReferenceDate
        return state.withLock { state in
            guard let cached = state.cached, cached.isFresh(at: now), Self.isChecked(state, now) else { return nil }
            return cached
        }
    }

    private static func isChecked(_ state: State, _ now: Double) -> Bool {
        now < state.checkedAt + checkInterval && now >= state.checkedAt
    }

    /// A credential whose access token is fresh, refreshed when need be.
    /// - Parameters:
    ///   - margin: How long before its end the access token counts as expired; default: what the settings say. More than a
    ///     quarter of a token's life is not asked for.
    ///   - rejected: An access token that an API has refused, fresh as it may look.
    /// - Throws: ``AuthError`` with `login_required` when no user is signed in or the session has ended; what refreshing
    ///   throws, when the old token has expired too; `CancellationError`, which cancels no other caller's refresh.
    func credential(margin: Duration? = nil, rejected: Secret? = nil) async throws -> Credential {
        let margin = max(margin ?? .zero, engine.settings.freshnessMargin)
        if rejected == nil, let known = await known(margin) { return known }
        // A refresh that was under way already may end with the very token that was refused, last less long than is wanted here,
        // or belong to a user who has signed out meanwhile. Then another one is begun, once.
        for attempt in 0..<4 {
            let (task, isOwn) = sharedRefresh(margin, rejected)
            do {
                let credential = try await task.value()
                let isWanted = credential.tokens.accessToken != rejected && isFresh(credential, margin)
                if isWanted || isOwn || attempt > 0 { return credential }
            } catch is Outdated {
                continue
            }
        }
        return try signedIn(in: try await book())
    }

    /// The tokens at hand, when they are fresh and the store still has them.
    private func known(_ margin: Duration) async -> Credential? {
        let now = engine.host.now().timeIntervalSinceReferenceDate
        let (cached, isDue) = state.withLock { state -> (Cached?, Bool) in
            guard let cached = state.cached, cached.isFresh(at: now), isFresh(cached.credential, margin) else {
                return (nil, false)
            }
            let isDue = !Self.isChecked(state, now)
            // The others are served meanwhile: one look is enough.
            if isDue { state.checkedAt = now }
            return (cached, isDue)
        }
        guard let cached, isDue else { return cached?.credential }
        // A store that cannot be read says nothing about the tokens.
        guard (try? await book()) != nil else { return cached.credential }
        return state.withLock { $0.cached === cached ? cached.credential : nil }
    }

    private func isFresh(_ credential: Credential, _ margin: Duration) -> Bool {
        let now = engine.host.now()
        return now < credential.freshUntil(margin: margin) && now >= credential.notBefore
    }

    /// - Returns: The refresh to wait for, and whether it was begun by this call.
    private func sharedRefresh(_ margin: Duration, _ rejected: Secret?) -> (SharedTask<Credential>, isOwn: Bool) {
        state.withLock { state in
            if let running = state.running { return (running, false) }
            let epoch = state.epoch
            let task = engine.unfinished.begin { [self] in
                defer { self.state.withLock { $0.running = nil } }
                let credential = try await store.withExclusiveAccess(to: key) {
                    try await refreshedAlone(margin, rejected, epoch)
                }
                // The user who was signed in when this began may not be any more.
                guard self.state.withLock({ $0.epoch == epoch }) else { throw Outdated() }
                return credential
            }
            state.running = task
            return (task, true)
        }
    }

    /// Runs while no other holder has access to the store.
    private func refreshedAlone(_ margin: Duration, _ rejected: Secret?, _ epoch: Int) async throws -> Credential {
        guard state.withLock({ $0.epoch == epoch }) else { throw Outdated() }
        var book = try await latestBook()
        let credential = try signedIn(in: book)
        if isFresh(credential, margin), credential.tokens.accessToken != rejected { return adopt(credential, epoch) }
        return try await refreshed(credential, in: &book, rejected: rejected, epoch)
    }

    /// What is known. What could not be stored last time is written, if that is possible now.
    private func latestBook() async throws -> AccountBook {
        let (stored, known, epoch) = try await read()
        if known != stored { try? await reporter().step(.storing) { try await write(known, epoch) } }
        return known
    }

    /// Replaces the tokens, alone with the store.
    func replace(_ body: (TokenSet) async throws -> TokenSet) async throws -> Credential {
        try await store.withExclusiveAccess(to: key) {
            let epoch = state.withLock { $0.epoch }
            var book = try await latestBook()
            var credential = try signedIn(in: book)
            try await engine.requireBinding(of: credential)
            credential.tokens = try await body(credential.tokens)
            credential.obtainedAt = engine.host.wholeSecond
            await save(credential, in: &book, epoch)
            return adopt(credential, epoch)
        }
    }

    private func refreshed(
        _ credential: Credential,
        in book: inout AccountBook,
        rejected: Secret?,
        _ epoch: Int
    ) async throws -> Credential {
        // A token that has not expired is better than none.
        func fallback(_ error: any Error, _ credential: Credential) throws -> Credential {
            guard !credential.isExpired(at: engine.host.now()), credential.tokens.accessToken != rejected,
                !(error is CancellationError)
            else { throw error }
            return credential
        }
        guard credential.tokens.refreshToken != nil else {
            let error = AuthError(
                .loginRequired,
                """
                The access token of \(credential.identity.displayName) has expired, and the provider gave no refresh token. Sign \
                in again; many providers give one for the scope "offline_access".
                """
            )
            return adopt(try fallback(error, credential), epoch)
        }
        if let wait = state.withLock({ $0.backoff })?.error(at: engine.host.now()) {
            return try fallback(wait, credential)
        }
        do {
            switch try await reporter().step(.refresh, { try await engine.refreshed(credential) }) {
            case .refreshed(let refreshed):
                state.withLock { $0.backoff = nil }
                await save(refreshed, in: &book, epoch)
                return adopt(refreshed, epoch)
            case .unchecked(let kept, let error):
                await save(kept, in: &book, epoch)
                backOff(error)
                guard let old = try? fallback(error, kept) else { throw RefusedTokens(error: error) }
                return adopt(old, epoch)
            case .refused(let kept, let error):
                state.withLock { if $0.epoch == epoch { $0.cached = nil } }
                await save(kept, in: &book, epoch)
                backOff(error)
                throw RefusedTokens(
                    error: AuthError(
                        error.code,
                        "The refreshed tokens were not used, and the session is kept. \(error.message)",
                        providerError: error.providerError,
                        status: error.status,
                        retryAfter: error.retryAfter,
                        underlyingError: error
                    )
                )
            }
        } catch let refused as RefusedTokens {
            throw refused.error
        } catch let error as AuthError where error.code == .loginRequired {
            throw error
        } catch let error as AuthError
            where error.code == .providerRejected && engine.standardName(of: error.providerError) == "invalid_grant"
        {
            // RFC 6749 section 5.2: the refresh token is "invalid, expired, revoked". Access to the store is exclusive and
            // it was read a moment ago, so this is the token that is stored, and no newer one is lost.
            throw await ended(credential, error, in: &book, epoch)
        } catch let error as AuthError {
            backOff(error)
            if let refusal = await repeatedRefusal(of: credential, error, in: &book, epoch) { throw refusal }
            return try fallback(error, credential)
        }
    }

    /// Tokens that the provider sent and that a check has refused: nothing is handed out in their place.
    private struct RefusedTokens: Error {
        let error: AuthError
    }

    private func backOff(_ error: AuthError) {
        state.withLock { state in
            state.backoff = Backoff(
                after: state.backoff,
                error: error,
                now: engine.host.now(),
                random: engine.host.randomBytes(1).first ?? 0
            )
        }
    }

    /// Counts refusals that do not say `invalid_grant`: some providers end a session with an empty 400. When the access token has
    /// expired and it happens again, only signing in helps; the credential is kept, because it is not known to be bad.
    private func repeatedRefusal(
        of credential: Credential,
        _ error: AuthError,
        in book: inout AccountBook,
        _ epoch: Int
    ) async -> AuthError? {
        // RFC 6749 section 5.2: these are faults of the client or the request, which signing in again does not mend.
        let faults = [
            "invalid_client", "invalid_request", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
            "invalid_dpop_proof", "use_dpop_nonce",
        ]
        let isFault =
            error.code == .providerRejected && faults.contains(engine.standardName(of: error.providerError) ?? "")
        guard error.status == 400 || error.status == 401, !isFault, credential.isExpired(at: engine.host.now()) else {
            return nil
        }
        var counted = credential
        counted.refusedRefreshes = min(credential.refusedRefreshes + 1, Self.toleratedRefusals)
        if counted != credential { await save(counted, in: &book, epoch) }
        guard counted.refusedRefreshes >= Self.toleratedRefusals else { return nil }
        return AuthError(
            .loginRequired,
            "The access token of \(credential.identity.displayName) has expired, and the provider refuses to refresh it (status \(error.status ?? 0)) without saying why. Sign in again.",
            providerError: error.providerError,
            status: error.status,
            underlyingError: error
        )
    }

    /// The account's credential.
    /// - Throws: ``AuthError`` with `login_required` and the reason.
    func signedIn(in book: AccountBook) throws(AuthError) -> Credential {
        switch book.entry(account) {
        case .signedIn(let credential)?: return credential
        case .ended(let session)?: throw session.error
        case nil:
            let who = account.map { "The account \"\(DisplayText.sanitized($0, limit: 80))\" is not signed in" }
            throw AuthError(
                .loginRequired,
                "\(who ?? "No user is signed in with the profile \"\(DisplayText.sanitized(key.name, limit: 60))\""). Sign in first."
            )
        }
    }

    /// Hands tokens out from memory from now on, unless something newer has begun.
    /// - Parameter epoch: When the work began that they come of; nil for now.
    private func adopt(_ credential: Credential, _ epoch: Int? = nil) -> Credential {
        let now = engine.host.now().timeIntervalSinceReferenceDate
        state.withLock { state in
            guard epoch == nil || epoch == state.epoch else { return }
            state.cached = Cached(credential, margin: engine.settings.freshnessMargin)
            state.checkedAt = now
        }
        return credential
    }

    /// Writes a refreshed credential down. When that fails it is good all the same, and only this process knows of it.
    /// - Parameter epoch: When the work began that it comes of.
    private func save(_ credential: Credential, in book: inout AccountBook, _ epoch: Int) async {
        let old = book.entry(of: credential.identity.account)
        book.set(.signedIn(credential), isCurrent: false)
        do {
            try await reporter().step(.storing) { [book] in try await write(book, epoch) }
        } catch {
            remember(credential, replacing: .entry(old), isSignIn: false, epoch)
        }
    }

    private func ended(
        _ credential: Credential,
        _ error: AuthError,
        in book: inout AccountBook,
        _ epoch: Int
    ) async -> AuthError {
        let words = error.providerError.map { "\($0)" } ?? "invalid_grant"
        let reason = await engine.provider.reasonForEnd(of: credential, in: engine.context)
        let session = EndedSession(
            identity: credential.identity,
            reason: reason.map { "\($0); \(words)" } ?? words,
            endedAt: engine.host.wholeSecond
        )
        book.set(.ended(session), isCurrent: false)
        state.withLock { state in
            if state.epoch == epoch { (state.cached, state.backoff) = (nil, nil) }
            state.unsaved.removeAll { $0.account == credential.identity.account && $0.epoch <= epoch }
        }
        let reporter = reporter()
        reporter.report(.sessionEnd, details: ["reason": session.reason])
        // If this cannot be written, the next process will ask the provider once more and be told the same.
        try? await reporter.step(.storing) { [book] in try await write(book, epoch) }
        return session.error(providerError: error.providerError)
    }
}

extension EndedSession {
    /// What a caller that asks for its tokens is told.
    var error: AuthError { error(providerError: nil) }

    fileprivate func error(providerError: ProviderError?) -> AuthError {
        AuthError(
            .loginRequired,
            "The session of \(identity.displayName) was ended by the provider (\(DisplayText.sanitized(reason))). Sign in again.",
            providerError: providerError
        )
    }
}
