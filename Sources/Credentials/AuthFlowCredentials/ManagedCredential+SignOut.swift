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
        let removed = try await retryingAfterLostLease {
            try await removeUnderLease { entry in
                found = entry
                willRemove(entry)
            }
        }
        return removed ?? found
    }

    /// Causes the tokens obtained by a refresh in progress in any process to be revoked. Call it before ``remove(_:)``. A store for one machine needs
    /// no such request.
    package func revokeLateTokens() async throws {
        try await (store as? any SessionTokenStore)?.recordSignOut(of: key)
    }

    /// - Parameter willRemove: Receives the entry before it is removed.
    private func removeUnderLease(_ willRemove: (StoredAccounts.Entry) -> Void) async throws -> StoredAccounts.Entry? {
        try await store.withLease(on: key) { lease -> StoredAccounts.Entry? in
            var (stored, accounts, basis) = try await read(under: lease)
            guard let entry = accounts.entry(account) else {
                try accounts.requireUnambiguous(account)
                // Another process has removed the account, and a read that started earlier may not have returned yet.
                beginEpoch()
                return nil
            }
            willRemove(entry)
            accounts.remove(entry.account)
            if accounts != stored { try await write(accounts, lease, basis, changesSession: true) }
            state.withLock { $0.machine.removed(entry.account, leaving: accounts, basis) }
            // Another account may be the current one now.
            state.withLock { publishState(in: accounts, &$0) }
            return entry
        }
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
        var existed = false
        try await retryingAfterLostLease {
            try await store.withLease(on: key) { lease in
                // A record that cannot be read still exists.
                do { if try await store.bytes(for: key) != nil { existed = true } } catch { existed = true }
                try await store.write(nil, under: lease)
                if state.withLock({ $0.machine.cleared() }) { existed = true }
                if existed { publish(.signedOut) }
            }
        }
        return existed
    }
}
