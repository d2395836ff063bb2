import AuthFlowOAuth
import AuthFlowStorage
import Synchronization

extension ManagedCredential {
    /// Removes an account under an exclusive lease, so that the latest credential is removed, whichever process has
    /// refreshed it.
    /// - Returns: The removed entry; its credential is nil if the session had already ended.
    package func remove(
        _ willRemove: (StoredAccounts.Entry) -> Void = { _ in }
    ) async throws -> StoredAccounts.Entry? {
        beginEpoch()
        var found: StoredAccounts.Entry?
        var attempts = 3
        while true {
            attempts -= 1
            do {
                let removed = try await removeUnderLease { entry in
                    found = entry
                    willRemove(entry)
                }
                return removed ?? found
            } catch let error as AuthError where error.indicatesLostLease && attempts > 0 {
                // Another process has changed or removed the record in the meantime, or this process has done so and
                // the response was lost.
            }
        }
    }

    /// - Parameter willRemove: Receives the entry before it is removed.
    private func removeUnderLease(
        _ willRemove: (StoredAccounts.Entry) -> Void
    ) async throws -> StoredAccounts.Entry? {
        let (removed, newState) = try await store.withLease(on: key) {
            lease -> (StoredAccounts.Entry?, CredentialState) in
            var (stored, accounts, basis) = try await read(under: lease)
            guard let entry = accounts.entry(account) else {
                try accounts.requireUnambiguous(account)
                // Another process has removed the account, and a read that started earlier may not have returned yet.
                beginEpoch()
                return (nil, .signedOut)
            }
            willRemove(entry)
            accounts.remove(entry.account)
            if accounts != stored { try await write(accounts, lease, basis) }
            state.withLock { $0.machine.removed(entry.account) }
            // Another account may be the current one now.
            return (entry, currentState(in: accounts))
        }
        if removed != nil { publish(newState) }
        return removed
    }

    /// Removes this object's account. Removes the entire record, readable or not, if this object is not limited to one account.
    /// - Parameter discardingUnreadable: Whether to also remove the entire record if it cannot be read, and its accounts therefore cannot be separated.
    package func clear(discardingUnreadable: Bool) async throws -> Bool {
        if account != nil {
            do {
                return try await remove() != nil
            } catch {
                // A readable record is not removed, even if it cannot be written.
                guard discardingUnreadable, !(error is CancellationError), (try? await accounts()) == nil else {
                    throw error
                }
            }
        }
        beginEpoch()
        let existed = try await store.withLease(on: key) { lease in
            // A record that cannot be read still exists.
            let existed: Bool
            do { existed = try await store.bytes(for: key) != nil } catch { existed = true }
            try await store.write(nil, under: lease)
            return state.withLock { $0.machine.cleared() } || existed
        }
        if existed { publish(.signedOut) }
        return existed
    }
}
