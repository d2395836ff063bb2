import AuthFlowEssentials
package import AuthFlowOAuth
import AuthFlowStorage
import Synchronization

/// A credential that is kept fresh across tasks, processes, crashes and refresh token rotation.
///
/// One refresh runs at a time: the tasks of this process share one refresh, and processes wait for the lease. The
/// holder of the lease reads the store again, and either adopts tokens that another process has refreshed in the
/// meantime, or refreshes and writes the tokens before any are returned.
///
/// Every change of the signed-in user (a sign-in, a sign-out, another account) starts a new epoch. An operation that
/// started in an earlier epoch completes and its result is written, but not returned; its callers read the store
/// again.
package final class ManagedCredential: Sendable {
    let client: OAuthClient
    let store: any TokenStore
    let key: RecordKey
    let digest: [UInt8]
    let account: String?
    /// The client's name, for error messages; nil to omit it, as for sessions, whose identifiers are secret.
    let label: String?
    let unfinished: UnfinishedWork
    let revocations: UnfinishedWork
    let outage: SharedOutage
    /// Obtains a credential without a user; nil if a user must sign in.
    let renewal: CredentialManager.Renewal?
    let onEnd: (@Sendable (RecordKey, Credential) async -> Void)?
    let reporter: @Sendable () -> FlowReporter
    let state: Mutex<State>
    let freshnessMargin: Duration

    struct State {
        var machine: CredentialMachine
        /// The read in progress that determines whether the cached tokens are still stored.
        var check: SharedTask<Void>?
        /// The refreshes in progress, keyed by the UTF-8 bytes of the account's name, so that normalization cannot merge two users.
        var running: [[UInt8]?: SharedTask<Credential>] = [:]
        /// The last share of a device secret with the vendor's other apps.
        var sharing: SharedTask<Void>?
        /// The number of callers that use this object.
        var users = 0
        /// The lease under which a write has failed. The store may still accept the write under this lease.
        var unwrittenLease: Lease?
        /// Whether a task is retrying to write the unsaved credentials.
        var isRetrying = false
        var observers: [UInt64: AsyncStream<CredentialState>.Continuation] = [:]
        var lastObserver: UInt64 = 0
        /// The number of states that were published.
        var publications: UInt64 = 0
        /// The access token of the last published state, if that state is ``CredentialState/expired``.
        var expiredToken: Secret?

        /// Publishes a state to all observers.
        /// - Parameter expiredToken: For ``CredentialState/expired``, the access token.
        mutating func publish(_ new: CredentialState, expiredToken: Secret? = nil) {
            publications += 1
            self.expiredToken = expiredToken
            for observer in observers.values { observer.yield(new) }
        }
    }

    /// Thrown when another user signed in, the user signed out, or the lease was lost before the operation completed.
    struct Outdated: Error {}

    /// - Parameter account: The name of the account (``AccountID/isNamed(_:)``); nil for the current one.
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

    /// Whether this object has state that exists nowhere else: operations in progress, unsaved tokens, an active
    /// backoff series, or observers.
    var isNeeded: Bool {
        let now = client.host.now()
        return state.withLock {
            !$0.running.isEmpty || $0.users > 0 || !$0.observers.isEmpty || $0.machine.isNeeded(at: now)
        }
    }

    /// Runs a call from the manager, and keeps this object in memory during the call.
    func withUse<Return: Sendable>(_ body: () async throws -> Return) async throws -> Return {
        defer { state.withLock { $0.users -= 1 } }
        return try await body()
    }

    /// Counts a call to ``withUse(_:)``.
    func beginUse() { state.withLock { $0.users += 1 } }

    // MARK: Fresh tokens

    /// The cached tokens, if they are fresh and the store was read recently. This method does not wait, perform I/O
    /// or allocate memory.
    package func cachedTokens() -> CachedTokens? {
        let now = now
        return state.withLock { $0.machine.freshTokens(at: now) }
    }

    /// Starts a refresh of tokens that are still fresh, for later callers. This call does not wait.
    func refreshAhead(_ cached: CachedTokens) {
        guard cached.isDue(at: now) else { return }
        // A failure does not affect any caller: the next caller after the tokens have expired starts another refresh.
        _ = sharedRefresh(account, freshnessMargin, cached.credential.tokens.accessToken)
    }

    /// The cached credential, even if the store may no longer contain it.
    var cachedCredential: Credential? { state.withLock { $0.machine.cached?.credential } }

    /// The cached credential, even if its access token is not fresh; nil if the store was not read recently.
    func checkedCredential() -> Credential? {
        let now = now
        return state.withLock { $0.machine.checked(at: now) }
    }

    /// A credential whose access token is fresh, after a refresh if necessary.
    /// - Parameters:
    ///   - account: The name of an account (``AccountID/isNamed(_:)``); default: the account of this object. The credential of another account is not cached.
    ///   - margin: The remaining lifetime below which the access token is treated as expired; at least the manager's margin, the default. The
    ///     margin is limited to a quarter of the token's lifetime.
    ///   - rejected: An access token that an API has rejected, even if it appears to be fresh.
    /// - Throws: ``AuthError`` with `login_required` when no user is signed in or the session has ended; any error from the refresh,
    ///   if the old token has expired or was rejected; `CancellationError` if cancelled (the refresh continues for other callers).
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
            if stored.isFresh(at: client.host.now(), margin: margin) { return stored }
        }
        // A refresh that was already in progress may return the same token that was rejected, a token with a shorter lifetime than requested
        // here, or a token of a user who has signed out in the meantime. In these cases, one more refresh is started.
        try Task.checkCancellation()
        for attempt in 0..<4 {
            let (task, isOwn) = sharedRefresh(account, margin, rejected)
            do {
                let credential = try await task.value()
                let isRejected = credential.tokens.accessToken == rejected
                let isWanted = !isRejected && credential.isFresh(at: client.host.now(), margin: margin)
                // During an outage, other callers' refreshes may all return the rejected token, which has not expired.
                if isWanted || isOwn || attempt > 0 && !isRejected { return credential }
            } catch is Outdated {
                continue
            } catch  where !isOwn && attempt == 0 && !Task.isCancelled {
                // Another caller started the failed refresh, possibly ahead of expiry, so this caller's tokens may
                // not have expired.
                continue
            } catch let error as AuthError where Self.storeCodes.contains(error.code) {
                guard rejected == nil, account.isIdentical(to: self.account),
                    let credential = try await unexpired(isStoreReadable: error.code == .leaseBusy)
                else { throw error }
                return credential
            }
        }
        let stored = try signedIn(in: try await accounts(), account)
        guard !stored.isExpired(at: client.host.now()), stored.tokens.accessToken != rejected else { throw Lease.lost }
        return stored
    }

    private static let storeCodes: Set<AuthError.Code> = [.storageFailed, .leaseBusy]

    /// Tokens that are no longer fresh but have not expired, for a caller whose refresh has failed.
    /// - Parameter isStoreReadable: Whether the store is readable, and only the lease is unavailable. In this case, a
    ///   sign-out in the meantime is detected.
    private func unexpired(isStoreReadable: Bool) async throws -> Credential? {
        let (epoch, cached) = state.withLock { ($0.machine.epoch, $0.machine.cached) }
        var known = cached?.credential
        if isStoreReadable, let accounts = try? await accounts() {
            guard isCurrent(epoch) else { return nil }
            // With a renewal, a missing credential does not imply a sign-out, because the lease holder may be about to
            // store the first credential.
            known = renewal == nil ? try signedIn(in: accounts, account) : usable(in: accounts)
        }
        let now = client.host.now()
        return known.flatMap { !$0.isExpired(at: now) && now >= $0.notBefore ? $0 : nil }
    }

    /// The cached or stored tokens, if they are fresh and the store contains them.
    /// - Throws: ``AuthError`` with `storage_failed` or `credential_unusable` if no tokens are cached; `CancellationError`, in which case it
    ///   is unknown whether the store still contains the tokens.
    private func known(_ margin: Duration) async throws -> Credential? {
        let now = now
        let (lookup, check) = state.withLock { state -> (CredentialMachine.CacheLookup, SharedTask<Void>?) in
            let lookup = state.machine.lookUp(at: now, margin: margin)
            switch lookup {
            case .cached, .stale: return (lookup, nil)
            case .notCached, .unchecked: break
            }
            // One read serves all callers. None of them receives cached tokens before it completes, because the user
            // may have signed out elsewhere.
            let check =
                state.check
                ?? SharedTask { [self] in
                    defer { self.state.withLock { $0.check = nil } }
                    _ = try await accounts()
                }
            state.check = check
            return (lookup, check)
        }
        do {
            try await check?.value()
        } catch {
            try Task.checkCancellation()
            // A failed read does not mean that the tokens were removed.
            guard let credential = stillCached(lookup) else { throw error }
            return credential
        }
        if case .cached(let credential) = lookup { return credential }
        guard check != nil else { return nil }
        let present = self.now
        if case .cached(let credential) = state.withLock({ $0.machine.lookUp(at: present, margin: margin) }) {
            return credential
        }
        // The read may have taken so long that its result is no longer recent enough.
        return stillCached(lookup)
    }

    /// The unchecked tokens from a lookup, unless other tokens have replaced them in memory or the user has signed out.
    private func stillCached(_ lookup: CredentialMachine.CacheLookup) -> Credential? {
        guard case .unchecked(let cached) = lookup else { return nil }
        return state.withLock { $0.machine.cached === cached } ? cached.credential : nil
    }

    /// - Returns: The refresh to wait for, and whether this call started it.
    private func sharedRefresh(
        _ account: String?,
        _ margin: Duration,
        _ rejected: Secret?
    ) -> (SharedTask<Credential>, isOwn: Bool) {
        let accountKey = account.map { Array($0.utf8) }
        return state.withLock { state in
            if let running = state.running[accountKey] { return (running, false) }
            let epoch = state.machine.epoch
            let task = unfinished.begin { [self] in
                defer { self.state.withLock { $0.running[accountKey] = nil } }
                let credential = try await withRefreshLease { lease in
                    try await refreshUnderLease(lease, of: account, margin, rejected, epoch)
                }
                // The user who was signed in at the start may no longer be signed in.
                guard isCurrent(epoch) else { throw Outdated() }
                return credential
            }
            state.running[accountKey] = task
            return (task, true)
        }
    }

    /// Caches the tokens, so that they are returned from memory from now on, unless a new epoch has started.
    /// - Parameter epoch: The epoch at the start of the operation that obtained the tokens; nil for the current epoch.
    @discardableResult
    func adopt(_ credential: Credential, _ epoch: Int? = nil) -> Credential {
        let random = random
        state.withLock { $0.machine.adopt(credential, epoch, margin: freshnessMargin, random: random) }
        return credential
    }

    /// Whether an epoch is still the current one.
    func isCurrent(_ epoch: Int) -> Bool { state.withLock { $0.machine.epoch == epoch } }

    /// Drops the cached tokens and the results of operations in progress, so that the next call reads the store.
    /// Unsaved credentials remain in memory, because they are the only copies.
    /// - Returns: The new epoch.
    @discardableResult
    package func beginEpoch() -> Int { state.withLock { $0.machine.beginEpoch() } }

    /// Forces the next call to read the store, which may have changed. Operations in progress continue.
    func invalidate() { state.withLock { $0.machine.invalidate() } }

    /// Prevents the result of a read in progress from being cached.
    func discardPendingReads() { state.withLock { $0.machine.discardPendingReads() } }

    // MARK: States

    /// The current state, followed by each later state.
    package func states() async throws -> AsyncStream<CredentialState> {
        let (stream, continuation) = AsyncStream<CredentialState>.makeStream(bufferingPolicy: .bufferingNewest(100))
        while true {
            let publications = state.withLock { $0.publications }
            let accounts = try await accounts()
            let current = (
                state: currentState(in: accounts), token: accounts.entry(account)?.credential?.tokens.accessToken
            )
            let number = state.withLock { state -> UInt64? in
                // If a state was published during the read, the result of the read may be outdated.
                guard state.publications == publications, state.machine.isLatestSession(in: accounts) else {
                    return nil
                }
                continuation.yield(current.state)
                if current.state == .expired { state.expiredToken = current.token }
                state.lastObserver += 1
                state.observers[state.lastObserver] = continuation
                return state.lastObserver
            }
            guard let number else { continue }
            continuation.onTermination = { [self] _ in state.withLock { $0.observers[number] = nil } }
            return stream
        }
    }

    /// The state of this object's account.
    func currentState(in accounts: StoredAccounts) -> CredentialState {
        switch accounts.entry(account) {
        case .signedIn(let credential)?:
            let isLast = credential.tokens.refreshToken == nil && renewal == nil
            let isOver =
                isLast && credential.isExpired(at: client.host.now())
                || client.senderConstraintError(of: credential) != nil
            return isOver ? .expired : .signedIn(credential.identity)
        case .ended(let session)?: return .ended(session)
        case nil: return .signedOut
        }
    }

    /// Publishes the state of this object's account. If that is ``CredentialState/expired``, a later read detects that another process has obtained
    /// other tokens.
    func publishState(in accounts: StoredAccounts, _ state: inout State) {
        let current = currentState(in: accounts)
        let token = accounts.entry(account)?.credential?.tokens.accessToken
        state.publish(current, expiredToken: current == .expired ? token : nil)
    }

    /// Publishes a state, unless ``CredentialMachine/isPublished(_:of:)`` is false for its account. Call this method before the lease of the change
    /// is released, so that the state of a later change is not published first. Without a lease, change the state machine and publish the state
    /// under one lock instead.
    /// - Parameter expiredToken: For ``CredentialState/expired``, the access token.
    func publish(_ new: CredentialState, of other: AccountID? = nil, expiredToken: Secret? = nil) {
        state.withLock { state in
            guard other.map({ state.machine.isPublished(new, of: $0) }) ?? true else { return }
            state.publish(new, expiredToken: expiredToken)
        }
    }
}
