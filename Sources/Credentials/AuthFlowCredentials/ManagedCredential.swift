import AuthFlowEssentials
package import AuthFlowHTTP
import AuthFlowJSON
package import AuthFlowOAuth
import AuthFlowStorage
import Synchronization

/// One credential that is kept fresh: across tasks, processes, crashes and rotations.
///
/// One refresh runs at a time: the tasks of this process wait for the same one, and processes wait for the lease. The holder of
/// the lease reads the store again, takes over what another has refreshed meanwhile, and otherwise refreshes and writes the new
/// tokens before anything is handed out.
///
/// Every change of the user who is signed in (a sign-in, a sign-out, another account) begins a new epoch. Work that was begun in
/// an earlier one is finished and written, and nothing of it is handed out: its callers read the store again.
package final class ManagedCredential: Sendable {
    /// How long cached tokens are handed out before the store is read again: another process may have signed out, in seconds.
    static let checkInterval: TimeInterval = 10

    let client: OAuthClient
    let store: any TokenStore
    let key: RecordKey
    let digest: [UInt8]
    let account: String?
    /// The name to show for it; nil for none, because identifiers of sessions are secret.
    let label: String?
    let unfinished: UnfinishedWork
    let revocations: UnfinishedWork
    /// Obtains a credential without a user; nil where one has to sign in.
    let renewal: CredentialManager.Renewal?
    let reporter: @Sendable () -> FlowReporter
    let state = Mutex(State())
    let freshnessMargin: Duration

    struct State {
        var cached: Cached?
        /// When the store was last asked for what is cached, and had it.
        var checkedAt = -Double.infinity
        /// When the store was last asked, or told, what it has now.
        var askedAt = -Double.infinity
        /// The read in progress that decides whether what is cached is still stored.
        var check: SharedTask<Void>?
        /// The current account, as the store was last seen to have it.
        var current: AccountID?
        var epoch = 0
        /// Counts what was written and what could not be: a read that was under way meanwhile is out of date.
        var version = 0
        /// The refreshes under way, by the UTF-8 of the subject they are for: no normalization makes one of two users.
        var running: [[UInt8]?: SharedTask<Credential>] = [:]
        /// The callers that work with it.
        var users = 0
        /// The accounts that a refresh failed for: one user's failure says little about another's.
        var backoffs: [AccountID: Backoff] = [:]
        /// At most one for each account.
        var unsaved: [Unsaved] = []
        /// The credentials whose write failed because the lease was lost: it can be tried again at once, under another.
        var lost: [Credential] = []
        /// The lease under which a write has failed. Its store may accept the same write under it once more.
        var unwrittenLease: Lease?
        /// Whether a task tries to write what could not be written.
        var isRepeating = false
        var observers: [UInt64: AsyncStream<CredentialState>.Continuation] = [:]
        var lastObserver: UInt64 = 0
    }

    /// Tokens in memory, and the time in which they are fresh.
    package final class Cached: Sendable {
        package let credential: Credential
        let notBefore: Double
        let freshUntil: Double
        /// When a use of the tokens begins to refresh them.
        let refreshAt: Double
        private let isRefreshed = Atomic(false)

        /// - Parameters:
        ///   - credential: The credential.
        ///   - margin: How long before its expiry the access token counts as expired.
        ///   - random: Spreads the refreshes of tokens that came at the same time.
        init(_ credential: Credential, margin: Duration, random: UInt8) {
            self.credential = credential
            self.notBefore = credential.notBefore.timeIntervalSinceReferenceDate
            let end = credential.freshUntil(margin: margin).timeIntervalSinceReferenceDate
            self.freshUntil = end
            // At most half a minute, and a fifth of the time in which they are fresh.
            let most = min(30, max(0, end - credential.obtainedAt.timeIntervalSinceReferenceDate) / 5)
            self.refreshAt = end - most * (0.25 + 0.75 * Double(random) / 255)
        }

        /// Whether it is time to refresh, for the first caller that asks.
        func isDue(at now: Double) -> Bool {
            now >= refreshAt && credential.tokens.refreshToken != nil
                && !isRefreshed.exchange(true, ordering: .relaxed)
        }

        fileprivate func isFresh(at now: Double) -> Bool { now < freshUntil && now >= notBefore }
    }

    /// A credential that could not be written: the stored one is older than it.
    struct Unsaved {
        let credential: Credential
        /// What the store has in its place. When the store has something else, that is newer.
        var replaces: Replaced
        /// Whether it is the result of a sign-in, and the current account.
        let isSignIn: Bool
        /// The epoch it was made in: work of an earlier one neither replaces nor removes it.
        let epoch: Int

        var account: AccountID { credential.account }
    }

    /// The entry that a store has for an account.
    enum Replaced: Equatable {
        /// The one that is read next.
        case unknown
        case entry(StoredAccounts.Entry?)
    }

    /// Thrown when another user was signed in, or none, before work had come to its end.
    struct Outdated: Error {}

    /// - Parameter account: The subject of the account to keep; nil for the current one.
    init(
        client: OAuthClient,
        store: any TokenStore,
        key: RecordKey,
        account: String?,
        label: String?,
        freshnessMargin: Duration,
        unfinished: UnfinishedWork,
        revocations: UnfinishedWork,
        renewal: CredentialManager.Renewal?,
        reporter: @escaping @Sendable () -> FlowReporter
    ) {
        self.client = client
        self.store = store
        self.key = key
        self.digest = key.digest
        self.account = account
        self.label = label
        self.freshnessMargin = freshnessMargin
        self.unfinished = unfinished
        self.revocations = revocations
        self.renewal = renewal
        self.reporter = reporter
    }

    /// Whether it has something that is nowhere else: work under way, tokens that could not be written, a back-off that still
    /// counts, readers.
    var isNeeded: Bool {
        let now = client.host.now()
        return state.withLock {
            !$0.running.isEmpty || $0.users > 0 || !$0.unsaved.isEmpty || !$0.observers.isEmpty
                || $0.backoffs.values.contains { $0.counts(at: now) }
        }
    }

    /// Runs a call of the manager's, which keeps this object in memory meanwhile.
    func used<Return: Sendable>(_ body: () async throws -> Return) async throws -> Return {
        defer { state.withLock { $0.users -= 1 } }
        return try await body()
    }

    /// Counts a call that ``used(_:)`` runs.
    func willBeUsed() { state.withLock { $0.users += 1 } }

    // MARK: Fresh tokens

    /// The cached tokens, when they are fresh and the store was read a moment ago. No waiting, no input or output, no
    /// allocation.
    package func fresh() -> Cached? {
        let now = client.host.now().timeIntervalSinceReferenceDate
        return state.withLock { state in
            guard let cached = state.cached, cached.isFresh(at: now), Self.isChecked(state, now) else { return nil }
            return cached
        }
    }

    /// Begins to refresh tokens that are still fresh, for the callers to come. This one does not wait.
    func refreshAhead(_ cached: Cached) {
        guard cached.isDue(at: client.host.now().timeIntervalSinceReferenceDate) else { return }
        // A failure is no caller's: the next one finds the tokens expired, and tries again.
        _ = sharedRefresh(account, freshnessMargin, cached.credential.tokens.accessToken)
    }

    /// The credential in memory, whether or not its own access token is fresh, when the store was read a moment ago.
    func freshCredential() -> Credential? {
        let now = client.host.now().timeIntervalSinceReferenceDate
        return state.withLock { state in Self.isChecked(state, now) ? state.cached?.credential : nil }
    }

    private static func isChecked(_ state: State, _ now: Double) -> Bool {
        now < state.checkedAt + checkInterval && now >= state.checkedAt
    }

    /// A credential whose access token is fresh, refreshed when necessary.
    /// - Parameters:
    ///   - account: The subject of an account; default: the one that is kept. Another one is not cached.
    ///   - margin: How long before its expiry the access token counts as expired; default: the manager's. More than a
    ///     quarter of a token's life is not asked for.
    ///   - rejected: An access token that an API has refused, fresh as it may look.
    /// - Throws: ``AuthError`` with `login_required` when no user is signed in or the session has ended; what refreshing
    ///   throws, when the old token has expired too; `CancellationError`, which cancels no other caller's refresh.
    package func credential(
        of account: String? = nil,
        margin: Duration? = nil,
        rejected: Secret? = nil
    ) async throws -> Credential {
        let margin = max(margin ?? .zero, freshnessMargin)
        let account = account ?? self.account
        if rejected == nil, account.isIdentical(to: self.account) {
            if let known = try await known(margin) { return known }
        } else if rejected == nil {
            let stored = try signedIn(in: try await accounts(), account)
            if isFresh(stored, margin) { return stored }
        }
        // A refresh that was under way already may end with the very token that was refused, last less long than is wanted here,
        // or belong to a user who has signed out meanwhile. Then another one is begun, once.
        try Task.checkCancellation()
        for attempt in 0..<4 {
            let (task, isOwn) = sharedRefresh(account, margin, rejected)
            do {
                let credential = try await task.value()
                let isWanted = credential.tokens.accessToken != rejected && isFresh(credential, margin)
                if isWanted || isOwn || attempt > 0 { return credential }
            } catch is Outdated {
                continue
            } catch  where !isOwn && attempt == 0 && !Task.isCancelled {
                // The error of a refresh that another caller wanted, such as one ahead of time: this caller's tokens may not have expired.
                continue
            } catch let error as AuthError where Self.storeCodes.contains(error.code) {
                // Without its store, a token that has not expired is better than none.
                guard rejected == nil, account.isIdentical(to: self.account), let cached = unexpired() else {
                    throw error
                }
                return cached
            }
        }
        return try signedIn(in: try await accounts(), account)
    }

    private static let storeCodes: Set<AuthError.Code> = [.storageFailed, .leaseBusy]

    private func unexpired() -> Credential? {
        let now = client.host.now()
        return state.withLock { $0.cached?.credential }.flatMap {
            !$0.isExpired(at: now) && now >= $0.notBefore ? $0 : nil
        }
    }

    /// The cached tokens, when they are fresh and the store still has them.
    /// - Throws: `CancellationError`: whether the store still has them is then not known.
    private func known(_ margin: Duration) async throws -> Credential? {
        let now = client.host.now().timeIntervalSinceReferenceDate
        let (cached, check) = state.withLock { state -> (Cached?, SharedTask<Void>?) in
            guard let cached = state.cached, cached.isFresh(at: now), isFresh(cached.credential, margin) else {
                return (nil, nil)
            }
            guard !Self.isChecked(state, now) else { return (cached, nil) }
            // One read is enough for all callers. None is served from memory meanwhile: the user may have signed out elsewhere.
            let check =
                state.check
                ?? SharedTask { [self] in
                    defer { self.state.withLock { $0.check = nil } }
                    _ = try await accounts()
                }
            state.check = check
            return (cached, check)
        }
        guard let cached, let check else { return cached?.credential }
        // A store that cannot be read says nothing about the tokens.
        guard (try? await check.value()) != nil else {
            try Task.checkCancellation()
            return cached.credential
        }
        return state.withLock { $0.cached === cached ? cached.credential : nil }
    }

    func isFresh(_ credential: Credential, _ margin: Duration) -> Bool {
        let now = client.host.now()
        return now < credential.freshUntil(margin: margin) && now >= credential.notBefore
    }

    /// - Returns: The refresh to wait for, and whether it was begun by this call.
    private func sharedRefresh(
        _ account: String?,
        _ margin: Duration,
        _ rejected: Secret?
    ) -> (SharedTask<Credential>, isOwn: Bool) {
        let place = account.map { Array($0.utf8) }
        return state.withLock { state in
            if let running = state.running[place] { return (running, false) }
            let epoch = state.epoch
            let task = unfinished.begin { [self] in
                defer { self.state.withLock { $0.running[place] = nil } }
                let credential = try await underLease { lease in
                    try await refreshUnderLease(lease, of: account, margin, rejected, epoch)
                }
                // The user who was signed in when this began may not be any more.
                guard self.state.withLock({ $0.epoch == epoch }) else { throw Outdated() }
                return credential
            }
            state.running[place] = task
            return (task, true)
        }
    }

    /// Hands tokens out from memory from now on, unless something newer has begun.
    /// - Parameter epoch: The epoch in which the work began that they are the result of; nil for this one.
    @discardableResult
    func adopt(_ credential: Credential, _ epoch: Int? = nil) -> Credential {
        state.withLock { state in
            guard epoch == nil || epoch == state.epoch, keeps(credential.account, state) else { return }
            state.cached = Cached(credential, margin: freshnessMargin, random: client.host.randomBytes(1).first ?? 0)
            // Not the present: the answer may have been a long time on its way.
            state.checkedAt = state.askedAt
        }
        return credential
    }

    /// Whether an account is the one that is kept: the one with the name, or the current one.
    private func keeps(_ other: AccountID, _ state: State) -> Bool {
        guard let account else { return state.current.map { $0 == other } ?? true }
        return other.isNamed(account)
    }

    /// Forgets what is cached and what is under way, so that the next call reads the store. What could not be written is kept:
    /// it is the only copy.
    /// - Returns: The new epoch.
    @discardableResult
    package func beginEpoch() -> Int {
        state.withLock {
            $0.epoch += 1
            $0.cached = nil
            $0.backoffs = [:]
            return $0.epoch
        }
    }

    /// Makes the next call read the store, which may have something else. What is under way goes on.
    func doubt() { state.withLock { $0.checkedAt = -.infinity } }

    // MARK: States

    /// The states from now on, beginning with the present one.
    package func states() async throws -> AsyncStream<CredentialState> {
        let (stream, continuation) = AsyncStream<CredentialState>.makeStream(bufferingPolicy: .bufferingNewest(100))
        let number = state.withLock { state in
            state.lastObserver += 1
            state.observers[state.lastObserver] = continuation
            return state.lastObserver
        }
        continuation.onTermination = { [self] _ in state.withLock { $0.observers[number] = nil } }
        continuation.yield(presentState(in: try await accounts()))
        return stream
    }

    /// The state of the account that is kept.
    func presentState(in accounts: StoredAccounts) -> CredentialState {
        switch accounts.entry(account) {
        case .signedIn(let credential)?:
            let isLast = credential.tokens.refreshToken == nil && renewal == nil
            let isOver = isLast && credential.isExpired(at: client.host.now())
            return isOver ? .expired : .signedIn(credential.identity)
        case .ended(let session)?: return .ended(session)
        case nil: return .signedOut
        }
    }

    /// Publishes a state, unless it is that of another account than the one that is kept.
    func publish(_ new: CredentialState, of other: AccountID? = nil) {
        let observers = state.withLock { state in other.map { keeps($0, state) } ?? true ? state.observers : [:] }
        for observer in observers.values { observer.yield(new) }
    }
}
