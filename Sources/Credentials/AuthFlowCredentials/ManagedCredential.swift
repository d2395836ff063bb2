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
    let client: OAuthClient
    let store: any TokenStore
    let key: RecordKey
    let digest: [UInt8]
    let account: String?
    /// The name to show for it; nil for none, because identifiers of sessions are secret.
    let label: String?
    let unfinished: UnfinishedWork
    let revocations: UnfinishedWork
    let outage: SharedOutage
    /// Obtains a credential without a user; nil where one has to sign in.
    let renewal: CredentialManager.Renewal?
    let onEnd: (@Sendable (RecordKey, Credential) async -> Void)?
    let reporter: @Sendable () -> FlowReporter
    let state: Mutex<State>
    let freshnessMargin: Duration

    struct State {
        var machine: CredentialMachine
        /// The read in progress that decides whether what is cached is still stored.
        var check: SharedTask<Void>?
        /// The refreshes in progress, by the UTF-8 of the subject they are for: no normalization makes one of two users.
        var running: [[UInt8]?: SharedTask<Credential>] = [:]
        /// The callers that work with it.
        var users = 0
        /// The lease under which a write has failed. Its store may accept the same write under it once more.
        var unwrittenLease: Lease?
        /// Whether a task tries to write the unsaved credentials.
        var isRepeating = false
        var observers: [UInt64: AsyncStream<CredentialState>.Continuation] = [:]
        var lastObserver: UInt64 = 0
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
        outage: SharedOutage,
        renewal: CredentialManager.Renewal?,
        onEnd: (@Sendable (RecordKey, Credential) async -> Void)?,
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
        self.outage = outage
        self.renewal = renewal
        self.onEnd = onEnd
        self.reporter = reporter
        self.state = Mutex(State(machine: CredentialMachine(account: account)))
    }

    var random: UInt8 { client.host.randomBytes(1).first ?? 0 }

    private var now: Double { client.host.now().timeIntervalSinceReferenceDate }

    /// Whether it has something that is nowhere else: work under way, tokens that could not be written, a back-off that still
    /// counts, readers.
    var isNeeded: Bool {
        let now = client.host.now()
        return state.withLock {
            !$0.running.isEmpty || $0.users > 0 || !$0.observers.isEmpty || $0.machine.isNeeded(at: now)
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
    package func fresh() -> CachedTokens? {
        let now = now
        return state.withLock { $0.machine.fresh(at: now) }
    }

    /// Begins to refresh tokens that are still fresh, for the callers to come. This one does not wait.
    func refreshAhead(_ cached: CachedTokens) {
        guard cached.isDue(at: now) else { return }
        // A failure is no caller's: the next one finds the tokens expired, and tries again.
        _ = sharedRefresh(account, freshnessMargin, cached.credential.tokens.accessToken)
    }

    /// The credential in memory, whether or not its own access token is fresh, when the store was read a moment ago.
    func freshCredential() -> Credential? {
        let now = now
        return state.withLock { $0.machine.checked(at: now) }
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
                guard rejected == nil, account.isIdentical(to: self.account),
                    let credential = try await unexpired(isStoreThere: error.code == .leaseBusy)
                else { throw error }
                return credential
            }
        }
        let stored = try signedIn(in: try await accounts(), account)
        guard !stored.isExpired(at: client.host.now()), stored.tokens.accessToken != rejected else { throw Lease.lost }
        return stored
    }

    private static let storeCodes: Set<AuthError.Code> = [.storageFailed, .leaseBusy]

    /// Tokens that have not expired, for a caller whose refresh has failed: they are better than none.
    /// - Parameter isStoreThere: Whether the store can be read, so that only the lease could not be had. A user who has signed out
    ///   meanwhile is then known.
    private func unexpired(isStoreThere: Bool) async throws -> Credential? {
        let (epoch, cached) = state.withLock { ($0.machine.epoch, $0.machine.cached) }
        var known = cached?.credential
        if isStoreThere, let accounts = try? await accounts() {
            guard isCurrent(epoch) else { return nil }
            // Without a user there was no sign-out: the holder of the lease may be about to store the first credential.
            known = renewal == nil ? try signedIn(in: accounts, account) : accounts.entry(account)?.credential
        }
        let now = client.host.now()
        return known.flatMap { !$0.isExpired(at: now) && now >= $0.notBefore ? $0 : nil }
    }

    /// The cached or stored tokens, when they are fresh and the store has them.
    /// - Throws: ``AuthError`` with `storage_failed` or `credential_unusable` where nothing is cached; `CancellationError`: whether the
    ///   store still has the tokens is then not known.
    private func known(_ margin: Duration) async throws -> Credential? {
        let now = now
        let (answer, check) = state.withLock { state -> (CredentialMachine.Answer, SharedTask<Void>?) in
            let answer = state.machine.asked(at: now) { isFresh($0, margin) }
            switch answer {
            case .cached, .stale: return (answer, nil)
            case .unread, .unchecked: break
            }
            // One read is enough for all callers. None is served from memory meanwhile: the user may have signed out elsewhere.
            let check =
                state.check
                ?? SharedTask { [self] in
                    defer { self.state.withLock { $0.check = nil } }
                    _ = try await accounts()
                }
            state.check = check
            return (answer, check)
        }
        do {
            try await check?.value()
        } catch {
            try Task.checkCancellation()
            // A store that cannot be read says nothing about the tokens.
            guard let credential = stillCached(answer) else { throw error }
            return credential
        }
        if case .cached(let credential) = answer { return credential }
        guard check != nil else { return nil }
        let present = self.now
        if case .cached(let credential) = state.withLock({ $0.machine.asked(at: present) { isFresh($0, margin) } }) {
            return credential
        }
        // The read may have taken longer than its result counts for.
        return stillCached(answer)
    }

    /// The tokens of an answer, unless others have replaced them in memory, or the user has signed out.
    private func stillCached(_ answer: CredentialMachine.Answer) -> Credential? {
        guard case .unchecked(let cached) = answer else { return nil }
        return state.withLock { $0.machine.cached === cached } ? cached.credential : nil
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
            let epoch = state.machine.epoch
            let task = unfinished.begin { [self] in
                defer { self.state.withLock { $0.running[place] = nil } }
                let credential = try await underLease { lease in
                    try await refreshUnderLease(lease, of: account, margin, rejected, epoch)
                }
                // The user who was signed in when this began may not be any more.
                guard isCurrent(epoch) else { throw Outdated() }
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
        let random = random
        state.withLock { $0.machine.adopt(credential, epoch, margin: freshnessMargin, random: random) }
        return credential
    }

    /// Whether an epoch is still the present one.
    func isCurrent(_ epoch: Int) -> Bool { state.withLock { $0.machine.epoch == epoch } }

    /// Forgets what is cached and what is under way, so that the next call reads the store. What could not be written is kept:
    /// it is the only copy.
    /// - Returns: The new epoch.
    @discardableResult
    package func beginEpoch() -> Int { state.withLock { $0.machine.beginEpoch() } }

    /// Makes the next call read the store, which may have something else. What is under way goes on.
    func invalidate() { state.withLock { $0.machine.invalidate() } }

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
        let observers = state.withLock { state in other.map { state.machine.keeps($0) } ?? true ? state.observers : [:]
        }
        for observer in observers.values { observer.yield(new) }
    }
}
