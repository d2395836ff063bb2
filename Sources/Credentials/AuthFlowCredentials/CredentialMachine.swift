import AuthFlowEssentials
package import AuthFlowOAuth
import AuthFlowStorage
import Synchronization

/// The state of one credential in one process, and the decisions that follow from it: which tokens are returned from
/// memory, how the result of a store read is interpreted, which credentials are unsaved, and when requests to the
/// provider are suspended. It never waits, and has neither a clock nor a lock: ``ManagedCredential`` passes it each
/// event, with its time, and performs the resulting actions.
///
/// | event | nothing cached | cached, checked in the last 10 s | cached, unchecked | unsaved tokens |
/// |---|---|---|---|---|
/// | tokens requested | one read for all callers | return | one read for all callers | as for cached |
/// | read: the same tokens | adopt | checked | checked | the store still has the entry that they replace: written again |
/// | read: the same tokens, and different application data | adopt | adopt | adopt | written again, with that data |
/// | read: other tokens | adopt | adopt | adopt | drop, adopt, unless the entry continues a session that a sign-in replaces |
/// | read: another account, sign-in or end of a session | publish | publish | publish | publish |
/// | read: no tokens | signed out | drop, publish | drop, publish | dropped, and revoked after a sign-out |
/// | read: another account than at the unsaved sign-in is current | as above | as above | as above | written, but not as the current account |
/// | first read after a sign-in without a read | as above | as above | as above | rejected by the policy: dropped, published, revoked |
/// | read that overlaps with a write | read again | read again | read again | read again |
/// | written | unchanged | unchecked | unchanged | none left, except those that became unsaved after the read |
/// | written, and another process has changed the session, which no read has reported | publish | publish | publish | publish |
/// | refreshed and written | adopt | adopt | adopt | as for written |
/// | refreshed, but not written | adopt | adopt | adopt | kept in memory, and retried under the same lease |
/// | refreshed under a lost lease | adopt | adopt | adopt | kept in memory until the read under the next lease; callers wait for it |
/// | signed in, signed out, another account | new epoch | drop, new epoch | drop, new epoch | tokens of an older epoch are replaced |
/// | notified that the store has changed | unchanged | unchecked | unchanged | as for cached |
/// | the provider ended the session | unchanged | drop | drop | dropped |
/// | a request failed | back off | back off | back off | back off |
/// | a request succeeded | end the backoff | end the backoff | end the backoff | end the backoff |
/// | an operation of an earlier epoch completes | return nothing | return nothing | return nothing | stored, unless a newer one exists |
///
/// An epoch is the period between two changes of the signed-in user. "Written" means written under the lease;
/// docs/models/lease.pml models the transitions `end_take`, `read`, `send`, `respond`, `write` and `release` of the
/// lease itself.
struct CredentialMachine {
    /// The interval, in seconds, after which the store is read again before cached tokens are returned, because the
    /// user may have signed out in another process.
    static let checkInterval: TimeInterval = 10

    /// The name of the account (``AccountID/isNamed(_:)``); nil for the current one.
    let account: String?

    private(set) var cached: CachedTokens?
    /// The time at which the store was last known to contain the cached tokens.
    private var checkedAt = -Double.infinity
    /// The time of the last read or write that established the contents of the store.
    private var requestedAt = -Double.infinity
    /// The current account, according to the last read or write of the store.
    private var current: AccountID?
    /// The session of the account according to the last read or write of the store; nil before the first one.
    private var session: Session?
    private(set) var epoch = 0
    /// The number of writes, successful or failed, and of notifications of a change, to detect a read that overlaps with one and is outdated.
    private var version = 0
    private var backoffs = Backoffs()
    /// The number of operations that may have removed the record, to detect a read whose result may be outdated.
    private var removals = 0
    private var unsaved = UnsavedCredentials()
    /// The credentials whose lease was lost before they were written. The write can be retried immediately under the
    /// next lease.
    private var lostLeases: [Lease: Credential] = [:]

    init(account: String?) { self.account = account }

    /// The properties of an entry that change only when a user signs in or out, another account becomes current, or the session ends.
    private struct Session: Equatable {
        /// The account; nil if no user is signed in.
        let account: AccountID?
        let isEnded: Bool
        /// The stored time of the sign-in; nil without an identified user, because a renewal of client credentials changes the time.
        let signedInAt: TimeInterval?

        init(_ entry: StoredAccounts.Entry?) {
            self.account = entry?.account
            self.isEnded = entry != nil && entry?.credential == nil
            self.signedInAt = entry?.credential.flatMap {
                $0.account.subject == nil ? nil : $0.signedInAt.timeIntervalSince1970
            }
        }
    }
}

// MARK: - Cached tokens

extension CredentialMachine {
    /// The response to a caller that requests fresh tokens.
    enum CacheLookup {
        /// No tokens are cached: read the store.
        case notCached
        /// The cached tokens are not fresh: acquire the lease.
        case stale
        /// Return these tokens.
        case cached(Credential)
        /// Read the store first, because it may no longer contain these tokens.
        case unchecked(CachedTokens)
    }

    private func isChecked(at now: Double) -> Bool { now < checkedAt + Self.checkInterval && now >= checkedAt }

    /// The cached tokens that can be returned without a read. This method does not allocate memory.
    func freshTokens(at now: Double) -> CachedTokens? {
        guard let cached, cached.isFresh(at: now), isChecked(at: now) else { return nil }
        return cached
    }

    /// The cached credential, even if its access token is not fresh; nil if the store was not read recently.
    func checked(at now: Double) -> Credential? { isChecked(at: now) ? cached?.credential : nil }

    /// A caller requests tokens that remain fresh for at least the margin.
    func lookUp(at now: Double, margin: Duration) -> CacheLookup {
        guard let cached else { return .notCached }
        let date = Date(timeIntervalSinceReferenceDate: now)
        guard cached.credential.isFresh(at: date, margin: margin) else { return .stale }
        return isChecked(at: now) ? .cached(cached.credential) : .unchecked(cached)
    }

    /// New tokens were obtained, so return them from now on, unless a new epoch has started.
    /// - Parameter epoch: The epoch at the start of the operation that obtained the tokens; nil for the current epoch.
    mutating func adopt(_ credential: Credential, _ epoch: Int?, margin: Duration, random: UInt8) {
        guard epoch == nil || epoch == self.epoch, manages(credential.account) else { return }
        cached = CachedTokens(credential, margin: margin, random: random)
        // The time at which the store operation started, not the current time, because the store may have responded slowly.
        checkedAt = requestedAt
    }

    /// The refreshed tokens failed a check, so the cached tokens are no longer returned.
    mutating func discardCache(_ epoch: Int) {
        if self.epoch == epoch { cached = nil }
    }

    /// The store may have changed, so it must be read before any tokens are returned. A read in progress is repeated.
    mutating func invalidate() {
        checkedAt = -.infinity
        version += 1
    }

    /// The record may have been removed during a read in progress, so its result is not cached. Operations in progress continue.
    mutating func discardPendingReads() { removals += 1 }

    /// Whether to publish a state of an account. The state of another account is not published, and neither is the state of a session that,
    /// according to the last read or write of the store, another process has removed or ended.
    func isPublished(_ new: CredentialState, of account: AccountID) -> Bool {
        guard manages(account) else { return false }
        guard let session else { return true }
        if case .ended = new { return session.account == account }
        return session.account == account && !session.isEnded
    }

    /// Whether the accounts that were read contain the session that the last read or write of the store established. A read that overlaps with a
    /// removal may be outdated.
    func isLatestSession(in accounts: StoredAccounts) -> Bool {
        session.map { $0 == Session(accounts.entry(account)) } ?? true
    }

    /// Whether this credential is for the given account: the account that ``account`` names or, if it is nil, the current account (any account if
    /// none is current).
    func manages(_ other: AccountID) -> Bool {
        guard let account else { return current.map { $0 == other } ?? true }
        return other.isNamed(account)
    }
}

// MARK: - Users

extension CredentialMachine {
    /// The signed-in user changes, so neither cached tokens nor the results of operations in progress are returned.
    /// Unsaved credentials remain in memory, because they are the only copies.
    /// - Returns: The new epoch.
    @discardableResult
    mutating func beginEpoch() -> Int {
        epoch += 1
        cached = nil
        backoffs = Backoffs()
        return epoch
    }

    /// A user has signed in to an account, which is now the current account.
    /// - Parameter epoch: The epoch in which the store was read.
    /// - Returns: The new epoch, and whether no other epoch had started since the store was read, so that the new
    ///   tokens can be returned.
    mutating func signedIn(current: AccountID?, since epoch: Int) -> (epoch: Int, isSameEpoch: Bool) {
        let isSameEpoch = self.epoch == epoch
        let new = beginEpoch()
        self.current = current
        return (new, isSameEpoch)
    }

    /// An account was removed from the store, or from memory if it was not stored. Tokens that became unsaved after the removal's read were not among
    /// the removed ones, so the next read reports them.
    /// - Parameter accounts: The remaining accounts.
    mutating func removed(_ account: AccountID, leaving accounts: StoredAccounts, _ basis: Basis) {
        unsaved.removeAll { $0.account == account && $0.version <= basis.version }
        session = Session(accounts.entry(self.account))
        beginEpoch()
    }

    /// The record was removed.
    /// - Returns: Whether there were unsaved credentials.
    mutating func cleared() -> Bool {
        defer { beginEpoch() }
        defer { unsaved = UnsavedCredentials() }
        session = Session(nil)
        return !unsaved.isEmpty
    }

    /// Handles the end of a session by the provider. The store contains a record of this, unless the write failed.
    mutating func ended(_ account: AccountID, _ epoch: Int) {
        if self.epoch == epoch {
            cached = nil
            backoffs.ended(account)
        }
        unsaved.removeAll { $0.account == account && $0.epoch <= epoch }
    }
}

// MARK: - The store

extension CredentialMachine {
    /// A store read in progress.
    struct Reading {
        fileprivate let requestedAt: Double
        fileprivate let epoch: Int
        fileprivate let version: Int
        fileprivate let removals: Int
        fileprivate let cached: CachedTokens?
    }

    /// The starting point of an operation on the known accounts.
    struct Basis {
        /// The epoch of the operation.
        let epoch: Int
        /// The version at the end of the read. The known accounts do not contain a credential whose write failed later.
        let version: Int
    }

    /// The basis of an operation that starts now.
    var basis: Basis { Basis(epoch: epoch, version: version) }

    /// The result of a read.
    struct ReadResult {
        /// The stored accounts.
        let stored: StoredAccounts
        /// The stored accounts, merged with the unsaved credentials.
        var known: StoredAccounts
        /// The basis of an operation that changes ``known``.
        let basis: Basis
        /// Whether another process has signed a user in or out, selected another account, or detected the end of the session. The caller publishes
        /// the state.
        var hasOtherSession = false
        /// Unsaved credentials whose session was removed.
        var dropped: [Credential] = []
        /// Unsaved credentials of sign-ins that the account policy rejects.
        var rejected: [Credential] = []
    }

    func beginReading(at now: Double) -> Reading {
        Reading(requestedAt: now, epoch: epoch, version: version, removals: removals, cached: cached)
    }

    /// The store was read. The tokens found are cached, unless the epoch or the cached tokens have changed in the
    /// meantime.
    /// - Parameters:
    ///   - margin: As for ``adopt(_:_:margin:random:)``.
    ///   - random: As for ``adopt(_:_:margin:random:)``.
    ///   - accepts: Whether the client may use a credential. A credential from an earlier configuration might not
    ///     satisfy the client's current requirements.
    /// - Returns: The result; nil when a write succeeded or failed, or the store may have changed, in the meantime; the read must then be repeated.
    mutating func finishReading(
        _ reading: Reading,
        _ stored: StoredAccounts,
        margin: Duration,
        random: UInt8,
        accepts: (Credential) -> Bool = { _ in true }
    ) -> ReadResult? {
        guard version == reading.version else { return nil }
        var found = ReadResult(stored: stored, known: stored, basis: basis)
        (found.dropped, found.rejected) = unsaved.compare(with: stored, account)
        found.known = unsaved.merged(into: stored)
        current = found.known.current
        let entry = found.known.entry(account)
        // The time of a read that finds no tokens must not be used for tokens that a refresh in progress will obtain.
        if epoch == reading.epoch, entry?.credential != nil { requestedAt = reading.requestedAt }
        let known = Session(entry)
        // An observer receives the state of the first read, even if the read is outdated.
        let last = session ?? known
        session = last
        guard epoch == reading.epoch, removals == reading.removals else { return found }
        found.hasOtherSession = last != known
        session = known
        guard cached === reading.cached else { return found }
        guard let credential = entry?.credential, accepts(credential) else {
            cached = nil
            return found
        }
        if cached?.isSame(as: credential) != true {
            cached = CachedTokens(credential, margin: margin, random: random)
        }
        checkedAt = reading.requestedAt
        return found
    }

    /// The known accounts were written.
    /// - Parameter changesSession: Whether the operation changes the session, in which case it publishes the state itself.
    /// - Returns: Whether to publish the state, because another process has changed the session, and no read has reported it.
    @discardableResult
    mutating func writeSucceeded(
        _ accounts: StoredAccounts,
        _ basis: Basis,
        requestedAt: Double,
        changesSession: Bool = false
    ) -> Bool {
        let last = session
        // A response may arrive after a sign-out. In this case, the next read determines the session.
        if changesSession || basis.epoch == epoch { session = Session(accounts.entry(account)) }
        self.requestedAt = requestedAt
        // The write may have replaced the cached tokens.
        checkedAt = -.infinity
        version += 1
        unsaved.writeSucceeded(accounts, basis)
        return !changesSession && last != nil && last != session
    }

    /// A credential could not be written. It remains in memory, unless there is an unsaved credential from a later epoch.
    /// - Parameters:
    ///   - old: The entry that is still in the store.
    ///   - other: The entry of another account that the sign-in replaces; default: none.
    ///   - isSignIn: Whether the credential is the result of a sign-in. If so, its account becomes the current account.
    ///   - policy: The policy of the sign-in, which the next read applies; nil if it has been applied.
    ///   - storedCurrent: The account that is current in the store, which may have no accounts; default: unknown.
    ///   - lease: The lease, if it was lost. The read under the next lease determines whether the credential is still
    ///     the newest.
    mutating func writeFailed(
        _ credential: Credential,
        replacing old: UnsavedCredentials.StoredEntry,
        removing other: StoredAccounts.Entry? = nil,
        isSignIn: Bool,
        policy: AccountPolicy? = nil,
        storedCurrent: AccountID?? = nil,
        lostLease lease: Lease?,
        _ epoch: Int
    ) {
        if let lease { lostLeases[lease] = credential }
        if isSignIn {
            current = credential.account
            if manages(credential.account) { session = Session(.signedIn(credential)) }
        }
        if let earlier = unsaved.epoch(of: credential.account), earlier > epoch { return }
        version += 1
        unsaved.add(
            UnsavedCredentials.Entry(
                credential: credential,
                replaces: old,
                follows: old,
                removes: other,
                isSignIn: isSignIn,
                policy: policy,
                storedCurrent: storedCurrent,
                epoch: epoch,
                version: version
            )
        )
    }

    /// Whether there are unsaved credentials.
    var hasUnsaved: Bool { !unsaved.isEmpty }

    /// Removes and returns the credential whose lease was lost.
    mutating func takeLostCredential(of lease: Lease) -> Credential? { lostLeases.removeValue(forKey: lease) }
}

// MARK: - The provider

extension CredentialMachine {
    /// The error to throw to a caller during the backoff after a failed request; nil when a request may be sent.
    func backoffError(for subject: Backoffs.Subject, at now: Date) -> AuthError? {
        backoffs.error(for: subject, at: now)
    }

    /// A request failed.
    mutating func failed(_ subject: Backoffs.Subject, _ error: AuthError, at now: Date, random: UInt8) {
        backoffs.failed(subject, error, at: now, random: random)
    }

    /// A request succeeded.
    mutating func succeeded(_ subject: Backoffs.Subject) { backoffs.succeeded(subject) }

    /// Whether this state machine has state that exists nowhere else.
    func isNeeded(at now: Date) -> Bool { hasUnsaved || backoffs.hasOngoing(at: now) }
}

/// Cached tokens, and the period in which they are fresh.
package final class CachedTokens: Sendable {
    package let credential: Credential
    private let notBefore: Double
    private let freshUntil: Double
    /// The time after which the next use of the tokens starts a refresh ahead of their expiry.
    private let refreshAt: Double
    private let isRefreshed = Atomic(false)

    /// - Parameters:
    ///   - margin: The remaining lifetime below which the access token is treated as expired.
    ///   - random: Random jitter, so that tokens issued at the same time are not all refreshed at the same time.
    init(_ credential: Credential, margin: Duration, random: UInt8) {
        self.credential = credential
        self.notBefore = credential.notBefore.timeIntervalSinceReferenceDate
        let end = credential.freshUntil(margin: margin).timeIntervalSinceReferenceDate
        self.freshUntil = end
        // The refresh starts early by at most 30 seconds, and by at most a fifth of the tokens' freshness period.
        let maximumLead = min(30, max(0, end - credential.obtainedAt.timeIntervalSinceReferenceDate) / 5)
        self.refreshAt = end - maximumLead * (0.25 + 0.75 * Double(random) / 255)
    }

    /// Whether a refresh ahead of expiry is due; true only for the first caller.
    func isDue(at now: Double) -> Bool {
        now >= refreshAt && credential.tokens.refreshToken != nil
            && !isRefreshed.exchange(true, ordering: .relaxed)
    }

    /// Whether another credential has the same access token, the same tokens for resources and the same application data.
    func isSame(as other: Credential) -> Bool {
        credential.tokens.accessToken == other.tokens.accessToken
            && credential.tokens.expiresAt == other.tokens.expiresAt
            && credential.resourceTokens == other.resourceTokens
            && credential.applicationData == other.applicationData
    }

    /// ``Credential/isFresh(at:margin:)`` with the manager's margin, for the hot path of every request.
    func isFresh(at now: Double) -> Bool { now < freshUntil && now >= notBefore }
}
