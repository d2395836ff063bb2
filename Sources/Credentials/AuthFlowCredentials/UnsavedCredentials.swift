import AuthFlowEssentials
import AuthFlowOAuth

/// The credentials that a process could not write, at most one for each account, and the rules that decide which of them are newer than the
/// entries that other processes have stored in the meantime.
struct UnsavedCredentials {
    private var entries: [Entry] = []

    /// The store's entry for an account.
    enum StoredEntry: Equatable {
        /// Unknown until the next read.
        case unknown
        /// The entry that this process has just written, and that the next read returns.
        case written
        case entry(StoredAccounts.Entry?)

        /// Whether the next read determines the entry.
        var needsRead: Bool { if case .entry = self { false } else { true } }

        /// Whether an entry has the same tokens. The application data and the number of rejected refreshes may differ.
        func hasSameTokens(as other: StoredAccounts.Entry?) -> Bool {
            guard case .entry(let entry) = self else { return false }
            return entry?.tokensOnly == other?.tokensOnly
        }
    }

    /// An unsaved credential.
    struct Entry {
        let credential: Credential
        /// The stored entry that it replaces. Any other entry in the store is newer, unless it continues a session that a sign-in replaces.
        var replaces: StoredEntry
        /// The entry that was refreshed, or that the sign-in replaces. If it was unsaved, too, another write may store it in the meantime.
        let follows: StoredEntry
        /// The other account's entry that the sign-in replaces.
        var removes: StoredAccounts.Entry?
        /// Whether it is the result of a sign-in, and therefore belongs to the current account.
        var isSignIn: Bool
        /// The policy of a sign-in, if the record could not be read to apply it.
        var policy: AccountPolicy?
        /// The account that was current in the store at the time of a sign-in, or nil if the store has no accounts; unknown until the next read if
        /// the record could not be read.
        var storedCurrent: AccountID??
        /// The epoch in which it was created. Operations of an earlier epoch do not replace it.
        let epoch: Int
        /// The version in which it became unsaved. A write that is based on an earlier read does not contain it.
        let version: Int

        var account: AccountID { credential.account }

        /// Whether the store's present entry for the account is newer, or already contains this credential.
        func isOutdated(by entry: StoredAccounts.Entry?) -> Bool {
            let own = StoredAccounts.Entry.signedIn(credential)
            if let stored = entry?.credential, entry?.tokensOnly == own.tokensOnly {
                // Only the number of rejected refreshes may be unsaved.
                return stored.rejectedRefreshes >= credential.rejectedRefreshes
            }
            if replaces.hasSameTokens(as: entry) || follows.hasSameTokens(as: entry) { return false }
            guard isSignIn, let entry else { return true }
            // Another process may only now have been able to store an earlier sign-in.
            if let stored = entry.credential, stored.signedInAt < credential.signedInAt { return false }
            // A sign-in is newer than the session that it replaces, whose tokens another process may have refreshed since. If the sign-in's write
            // was executed although it was reported as failed, the store already has the new session, or a later one.
            guard case .entry(let replaced?) = replaces, replaced.credential?.signedInAt != credential.signedInAt
            else { return true }
            return !entry.continues(replaced)
        }

        /// Whether its account becomes the current one: it is the result of a sign-in, and no other process has selected an account or signed a user
        /// in since. If the account that was current has been removed, the store may have replaced it without a selection.
        func becomesCurrent(in stored: StoredAccounts) -> Bool {
            guard isSignIn, let storedCurrent, stored.current != storedCurrent else { return isSignIn }
            return storedCurrent.map { stored.entry(of: $0) == nil } ?? false
        }

        /// Whether an entry contains tokens that were obtained with this credential's tokens, or by a later sign-in.
        func isFollowed(by entry: StoredAccounts.Entry?) -> Bool {
            guard case .signedIn(let stored)? = entry, stored.signedInAt >= credential.signedInAt,
                stored.tokens != credential.tokens
            else { return false }
            if stored.signedInAt > credential.signedInAt { return true }
            // The first tokens of a sign-in precede its other tokens, unless another sign-in to the account took place within the same
            // second. Later tokens are ordered by time, as far as the clocks agree.
            return credential.obtainedAt == credential.signedInAt || stored.obtainedAt > credential.obtainedAt
        }
    }

    var isEmpty: Bool { entries.isEmpty }

    /// The epoch of an account's unsaved credential; nil if there is none.
    func epoch(of account: AccountID) -> Int? { entries.first { $0.account == account }?.epoch }

    /// Adds a credential, which replaces the account's earlier one.
    mutating func add(_ new: Entry) {
        var new = new
        if let index = entries.firstIndex(where: { $0.account == new.account }) {
            let earlier = entries.remove(at: index)
            // The store still contains the entry that the earlier credential would have replaced.
            new.replaces = earlier.replaces
            new.removes = new.removes ?? earlier.removes
            if !new.isSignIn { (new.isSignIn, new.storedCurrent) = (earlier.isSignIn, earlier.storedCurrent) }
        }
        entries.append(new)
    }

    mutating func removeAll(where isRemoved: (Entry) -> Bool) { entries.removeAll(where: isRemoved) }

    /// Called when the known accounts have been written.
    /// - Parameter basis: The basis of the operation. Credentials that became unsaved later were not written.
    mutating func writeSucceeded(_ accounts: StoredAccounts, _ basis: CredentialMachine.Basis) {
        entries.removeAll { $0.version <= basis.version }
        // A later sign-in replaces the entry that has just been written, whatever the next read returns. A refresh whose lease was lost replaces it
        // only if that entry still contains the tokens that were refreshed.
        for index in entries.indices where entries[index].epoch > basis.epoch {
            entries[index].replaces = .written
            entries[index].storedCurrent = .some(accounts.current)
        }
    }

    /// Removes the credentials that are older than the stored ones, and applies the policies of sign-ins that could not read the record.
    /// - Parameter account: The name of the account that the client is limited to; nil for the current account.
    /// - Returns: The removed credentials whose session was removed, and those that the account policy rejects.
    mutating func compare(
        with stored: StoredAccounts,
        _ account: String?
    ) -> (dropped: [Credential], rejected: [Credential]) {
        var (dropped, rejected): ([Credential], [Credential]) = ([], [])
        // A write that failed may have been executed, and another process may have refreshed its tokens. Or the user may have signed in again there.
        entries.removeAll { $0.replaces == .unknown && $0.isFollowed(by: stored.entry(of: $0.account)) }
        for index in entries.indices where entries[index].replaces.needsRead {
            entries[index].replaces = .entry(stored.entry(of: entries[index].account))
        }
        // An entry that another process has stored in the meantime is usually newer than an unsaved credential.
        entries.removeAll { unsaved in
            let entry = stored.entry(of: unsaved.account)
            guard unsaved.isOutdated(by: entry) else { return false }
            // There is no entry: the session was removed.
            if entry == nil { dropped.append(unsaved.credential) }
            return true
        }
        for index in entries.indices.reversed() {
            guard let policy = entries[index].policy else { continue }
            entries[index].policy = nil
            do throws(AuthError) {
                let other = try stored.accountToReplace(by: entries[index].credential, policy, account)
                entries[index].removes = other.flatMap { stored.entry(of: $0) }
            } catch {
                rejected.append(entries.remove(at: index).credential)
            }
        }
        for index in entries.indices where entries[index].storedCurrent == nil {
            entries[index].storedCurrent = .some(stored.current)
        }
        return (dropped, rejected)
    }

    /// The stored accounts with the unsaved credentials.
    func merged(into stored: StoredAccounts) -> StoredAccounts {
        var known = stored
        for unsaved in entries {
            var credential = unsaved.credential
            // Changes to the application's data are never left unsaved, and another process may have changed the data since.
            if !unsaved.isSignIn {
                credential.applicationData = stored.entry(of: unsaved.account)?.credential?.applicationData
            }
            known.set(.signedIn(credential), isCurrent: unsaved.becomesCurrent(in: stored))
        }
        for unsaved in entries {
            // An unidentified user has the same account ID as the previous user, whose entry has just been replaced.
            guard let other = unsaved.removes, other.account != unsaved.account,
                known.entry(of: other.account)?.continues(other) == true
            else { continue }
            known.remove(other.account)
        }
        return known
    }
}
