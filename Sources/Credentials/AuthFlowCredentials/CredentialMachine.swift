import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowOAuth
import AuthFlowStorage

/// One process's knowledge of one credential, and the decisions that follow from it: what is handed out from memory, what a read of the store
/// means, what is still unwritten, and when the provider is left alone. It waits for nothing, and has neither a clock nor a lock: ``ManagedCredential``
/// tells it each event, with its time, and does what follows.
///
/// | event | nothing cached | cached, checked in the last 10 s | cached, unchecked | unsaved tokens |
/// |---|---|---|---|---|
/// | asked | one read for all callers | hand out | one read for all callers | as cached |
/// | read: has the same tokens | adopt | checked | checked | replaced entry: written again |
/// | read: has the same tokens, and other data of the application | adopt | adopt | adopt | written again, with that data |
/// | read: has others | adopt | adopt | adopt | newer: dropped, and adopt |
/// | read: has none | signed out | forget, publish | forget, publish | dropped, and revoked after a sign-out |
/// | read while something was written | read again | read again | read again | read again |
/// | written | as it was | unchecked | as it was | nothing is left |
/// | refreshed and written | adopt | adopt | adopt | nothing is left |
/// | refreshed, and not written | adopt | adopt | adopt | remember, and repeat under the same lease |
/// | refreshed under a lost lease | adopt | adopt | adopt | remember; the next lease's read decides |
/// | signed in, signed out, another account | new epoch | forget, new epoch | forget, new epoch | an older epoch's are replaced |
/// | told that the store has changed | as it was | unchecked | as it was | as cached |
/// | the provider ended the session, and that is stored | as it was | forget | forget | dropped |
/// | a request failed | leave the provider alone for a while | as it was | as it was | as it was |
/// | a request succeeded | ask the provider again | as it was | as it was | as it was |
/// | work of an earlier epoch ends | hand nothing out | hand nothing out | hand nothing out | stored, if nothing newer is |
///
/// An epoch is the time between two changes of the user. "Write" stands for a write under the lease; docs/models/lease.pml has the
/// transitions `end_take`, `read`, `send`, `respond`, `write` and `release` of the lease itself.
struct CredentialMachine {
    /// How long cached tokens are handed out before the store is read again: another process may have signed out, in seconds.
    static let checkInterval: TimeInterval = 10

    /// The subject of the account; nil for the current one.
    let account: String?

    private(set) var cached: CachedTokens?
    /// When the store was last asked for what is cached, and had it.
    private var checkedAt = -Double.infinity
    /// When the store was last asked, or told, what it has now.
    private var askedAt = -Double.infinity
    /// The current account, as the store was last seen to have it.
    private var current: AccountID?
    private(set) var epoch = 0
    /// Counts the writes and the failed ones: a read in progress meanwhile is out of date.
    private var version = 0
    /// The accounts that a refresh failed for: one user's failure says little about another's.
    private var backoffs: [AccountID: Backoff] = [:]
    /// At most one for each account.
    private var unsaved: [Unsaved] = []
    /// The credentials whose lease was lost before they were written: another try is possible at once, under the next lease.
    private var lostLeases: [Lease: Credential] = [:]

    init(account: String?) { self.account = account }

    /// An unsaved credential: the stored one is older than it.
    private struct Unsaved {
        let credential: Credential
        /// The stored entry that this one replaces. Any other entry in the store is newer.
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

        /// Whether an entry has the same tokens: a change of the application's data alone makes none newer.
        func isTokens(of other: StoredAccounts.Entry?) -> Bool {
            guard case .entry(let entry) = self else { return false }
            return entry?.withoutApplicationData == other?.withoutApplicationData
        }
    }
}

// MARK: - Cached tokens

extension CredentialMachine {
    /// The answer to a caller that asks for fresh tokens.
    enum Answer {
        /// Nothing is in memory: read the store.
        case unread
        /// What is in memory is not fresh: take the lease.
        case stale
        /// Hand these out.
        case cached(Credential)
        /// Read the store first: it may not have them any more.
        case unchecked(CachedTokens)
    }

    private func isChecked(at now: Double) -> Bool { now < checkedAt + Self.checkInterval && now >= checkedAt }

    /// The cached tokens that can be handed out without a read. No allocation.
    func fresh(at now: Double) -> CachedTokens? {
        guard let cached, cached.isFresh(at: now), isChecked(at: now) else { return nil }
        return cached
    }

    /// The cached credential when the store was read a moment ago, whether or not its own access token is fresh.
    func checked(at now: Double) -> Credential? { isChecked(at: now) ? cached?.credential : nil }

    /// A caller asks for tokens that are fresh.
    func asked(at now: Double, isFresh: (Credential) -> Bool) -> Answer {
        guard let cached else { return .unread }
        guard cached.isFresh(at: now), isFresh(cached.credential) else { return .stale }
        return isChecked(at: now) ? .cached(cached.credential) : .unchecked(cached)
    }

    /// Tokens were obtained: hand them out from now on, unless something newer has begun.
    /// - Parameter epoch: The epoch in which the work began that they are the result of; nil for this one.
    mutating func adopt(_ credential: Credential, _ epoch: Int?, margin: Duration, random: UInt8) {
        guard epoch == nil || epoch == self.epoch, keeps(credential.account) else { return }
        cached = CachedTokens(credential, margin: margin, random: random)
        // Not the present: the answer may have been a long time on its way.
        checkedAt = askedAt
    }

    /// The provider has sent tokens of another user: the cached tokens are no longer returned.
    mutating func forget(_ epoch: Int) {
        if self.epoch == epoch { cached = nil }
    }

    /// The store may have something else now: read it before anything is handed out. A read in progress is repeated.
    mutating func invalidate() {
        checkedAt = -.infinity
        version += 1
    }

    /// Whether an account is the one that is meant here: the one with the name, or the current one.
    func keeps(_ other: AccountID) -> Bool {
        guard let account else { return current.map { $0 == other } ?? true }
        return other.isNamed(account)
    }
}

// MARK: - Users

extension CredentialMachine {
    /// The user changes: nothing in memory is handed out, nor a result of work in progress. Unsaved credentials stay: they are the only copies.
    /// - Returns: The new epoch.
    @discardableResult
    mutating func beginEpoch() -> Int {
        epoch += 1
        cached = nil
        backoffs = [:]
        return epoch
    }

    /// An account was signed in, and is the current one.
    /// - Parameter epoch: The epoch in which the store was read.
    /// - Returns: The new epoch; and whether the user was the same all along, so that the new tokens can be handed out.
    mutating func signedIn(current: AccountID?, since epoch: Int) -> (epoch: Int, isUndisturbed: Bool) {
        let isUndisturbed = self.epoch == epoch
        let new = beginEpoch()
        self.current = current
        return (new, isUndisturbed)
    }

    /// An account was removed from the store.
    mutating func removed(_ account: AccountID) {
        unsaved.removeAll { $0.account == account }
        beginEpoch()
    }

    /// The record was removed.
    /// - Returns: Whether there was something unsaved.
    mutating func cleared() -> Bool {
        defer { beginEpoch() }
        defer { unsaved = [] }
        return !unsaved.isEmpty
    }

    /// The provider has ended a session, and the store says so.
    mutating func ended(_ account: AccountID, _ epoch: Int) {
        if self.epoch == epoch { (cached, backoffs[account]) = (nil, nil) }
        unsaved.removeAll { $0.account == account && $0.epoch <= epoch }
    }
}

// MARK: - The store

extension CredentialMachine {
    /// A read of the store in progress.
    struct Reading {
        fileprivate let askedAt: Double
        fileprivate let epoch: Int
        fileprivate let version: Int
        fileprivate let cached: CachedTokens?
    }

    /// The meaning of what was read.
    struct Found {
        /// The stored accounts.
        let stored: StoredAccounts
        /// The same, with the unsaved credentials.
        var known: StoredAccounts
        /// The epoch of that.
        let epoch: Int
        /// The entry instead of tokens that were cached, if they were removed: to be published.
        var lost: StoredAccounts.Entry??
        /// Unsaved credentials whose session was removed.
        var dropped: [Credential] = []
    }

    func beginReading(at now: Double) -> Reading {
        Reading(askedAt: now, epoch: epoch, version: version, cached: cached)
    }

    /// The store was read. Its tokens are in memory then, unless something newer has begun meanwhile.
    /// - Parameters:
    ///   - margin: As for ``adopt(_:_:margin:random:)``.
    ///   - random: As for ``adopt(_:_:margin:random:)``.
    /// - Returns: nil when something was written meanwhile, or could not be: it cannot be compared with what was read. Read again.
    mutating func finishReading(
        _ reading: Reading,
        _ stored: StoredAccounts,
        margin: Duration,
        random: UInt8
    ) -> Found? {
        guard version == reading.version else { return nil }
        var found = Found(stored: stored, known: stored, epoch: epoch)
        for index in unsaved.indices where unsaved[index].replaces == .unknown {
            unsaved[index].replaces = .entry(stored.entry(of: unsaved[index].account))
        }
        // What another process has stored since is newer than an unsaved credential.
        unsaved.removeAll { unsaved in
            let entry = stored.entry(of: unsaved.account)
            guard !unsaved.replaces.isTokens(of: entry) else { return false }
            // Nothing is stored instead: the session was removed.
            if entry == nil { found.dropped.append(unsaved.credential) }
            return true
        }
        for unsaved in unsaved {
            var credential = unsaved.credential
            // The application's data is never unsaved, and another process may have changed it since.
            if !unsaved.isSignIn {
                credential.applicationData = stored.entry(of: unsaved.account)?.credential?.applicationData
            }
            found.known.set(.signedIn(credential), isCurrent: unsaved.isSignIn)
        }
        current = found.known.current
        let entry = found.known.entry(account)
        // A read that finds nothing says nothing about tokens that a refresh in progress will bring.
        if epoch == reading.epoch, entry?.credential != nil { askedAt = reading.askedAt }
        guard epoch == reading.epoch, cached === reading.cached else { return found }
        guard let credential = entry?.credential else {
            if cached != nil { found.lost = .some(entry) }
            cached = nil
            return found
        }
        if cached?.isSame(as: credential) != true {
            cached = CachedTokens(credential, margin: margin, random: random)
        }
        checkedAt = reading.askedAt
        return found
    }

    /// The accounts that were known in an epoch were written.
    mutating func wrote(_ epoch: Int, askedAt: Double) {
        self.askedAt = askedAt
        // What is in memory may be what was replaced.
        checkedAt = -.infinity
        version += 1
        unsaved.removeAll { $0.epoch <= epoch }
        // A newer one replaces what has been written now, whatever that reads as.
        for index in unsaved.indices { unsaved[index].replaces = .unknown }
    }

    /// A credential could not be written: it stays in memory, unless a later sign-in has.
    /// - Parameters:
    ///   - old: The entry that the store has instead.
    ///   - isSignIn: Whether it is the result of a sign-in, and so the current account.
    ///   - lease: The lease, if it was lost: the next one's read says whether the credential is still the newest.
    mutating func couldNotWrite(
        _ credential: Credential,
        replacing old: Replaced,
        isSignIn: Bool,
        lostLease lease: Lease?,
        _ epoch: Int
    ) {
        if let lease { lostLeases[lease] = credential }
        if isSignIn { current = credential.account }
        let earlier = unsaved.first { $0.account == credential.account }
        if let earlier, earlier.epoch > epoch { return }
        version += 1
        unsaved.removeAll { $0.account == credential.account }
        unsaved.append(
            Unsaved(
                credential: credential,
                // The store still has what the earlier one would have replaced.
                replaces: earlier.map(\.replaces) ?? old,
                isSignIn: isSignIn || earlier?.isSignIn == true,
                epoch: epoch
            )
        )
    }

    /// Whether something could not be written.
    var hasUnsaved: Bool { !unsaved.isEmpty }

    /// Takes the credential whose lease was lost.
    mutating func takeLost(of lease: Lease) -> Credential? { lostLeases.removeValue(forKey: lease) }
}

// MARK: - The provider

extension CredentialMachine {
    /// The error for a caller during the backoff after a failed request; nil when a request may be sent.
    func wait(for account: AccountID, at now: Date) -> AuthError? { backoffs[account]?.error(at: now) }

    /// A request for an account failed.
    mutating func failed(_ account: AccountID, _ error: AuthError, at now: Date, random: UInt8) {
        backoffs[account] = Backoff(after: backoffs[account], error: error, now: now, random: random)
    }

    /// A request for an account succeeded.
    mutating func succeeded(_ account: AccountID) { backoffs[account] = nil }

    /// Whether it has something that is nowhere else.
    func isNeeded(at now: Date) -> Bool { hasUnsaved || backoffs.values.contains { $0.counts(at: now) } }
}
