import AuthFlowEssentials
package import AuthFlowOAuth
import AuthFlowStorage
import Synchronization

extension ManagedCredential {
    /// The stored accounts, updated with unsaved credentials. Cached tokens that are no longer stored are dropped.
    /// - Throws: ``AuthError`` with `storage_failed` or `credential_unusable`.
    package func accounts() async throws -> StoredAccounts { try await read().known }

    /// - Returns: The stored accounts, the same accounts with the unsaved credentials, and the basis of an operation that changes the latter.
    func read(
        under lease: Lease? = nil
    ) async throws -> (stored: StoredAccounts, known: StoredAccounts, basis: CredentialMachine.Basis) {
        while true {
            // If a write ran during the read, successfully or not, or another process may have changed the store, the read may be outdated.
            if let result = try await readOnce(lease) { return result }
        }
    }

    /// - Returns: The result of ``read(under:)``; nil when a write succeeded or failed, or the store may have changed, in the meantime.
    private func readOnce(
        _ lease: Lease?
    ) async throws -> (stored: StoredAccounts, known: StoredAccounts, basis: CredentialMachine.Basis)? {
        let asked = client.host.now().timeIntervalSinceReferenceDate
        let reading = state.withLock { $0.machine.beginReading(at: asked) }
        let bytes = if let lease { try await store.bytes(under: lease) } else { try await store.bytes(for: key) }
        let stored = try bytes.map { bytes in try StoredAccounts(serialized: bytes) } ?? StoredAccounts()
        let random = random
        let result = state.withLock { state in
            let found = state.machine.finishReading(reading, stored, margin: freshnessMargin, random: random) {
                client.senderConstraintError(of: $0) == nil
            }
            // Reads do not require a lease, so one lock prevents the state of a later change from being published between these two steps.
            if let found, found.hasOtherSession {
                publishState(in: found.known, &state)
            } else if let found, hasRecovered(in: found.known, from: state.expiredToken) {
                state.publish(.refreshed)
            }
            return found
        }
        guard let found = result else { return nil }
        if !found.rejected.isEmpty { revokeRejected(found.rejected, in: found.stored) }
        if !found.dropped.isEmpty { revokeAfterSignOut(found.dropped) }
        return (found.stored, found.known, found.basis)
    }

    /// Whether another process has refreshed the tokens since ``CredentialState/expired`` was published here.
    /// - Parameter expired: The access token at the time of that publication; nil if `expired` is not the last published state.
    private func hasRecovered(in accounts: StoredAccounts, from expired: Secret?) -> Bool {
        guard let expired, let credential = usable(in: accounts) else { return false }
        return credential.tokens.accessToken != expired && !credential.isExpired(at: client.host.now())
    }

    /// Revokes tokens that were received after the session was removed, but only if a sign-out removed it:
    /// after a new sign-in by the same user, the tokens may belong to the same grant.
    ///
    /// A store for one machine does not record the reason for a removal. The user has signed out there, or has been replaced, and no store contains
    /// the tokens.
    private func revokeAfterSignOut(_ credentials: [Credential]) {
        _ = revocations.begin { [self] in
            guard let store = store as? any SessionTokenStore else {
                for credential in credentials {
                    guard try await !hasTokens(of: credential.account) else { continue }
                    await client.revokeRejectedTokens(credential.tokens)
                }
                return
            }
            // If a sign-out is recorded, it removed the session. A claim would leave a record that another process would take for a sign-out, and is not
            // repeated if its connection is lost.
            guard try await store.touch(key.signOut) else { return }
            try await reporter().step(.revocation) { try await client.revoke(credentials) }
        }
    }

    /// Revokes the tokens of sign-ins that the account policy rejects, as the first read of the record since then has shown. Tokens of an account
    /// that is also stored are not revoked, because they may belong to the same grant.
    private func revokeRejected(_ credentials: [Credential], in accounts: StoredAccounts) {
        reporter().report(.storing, .failed(.accountMismatch))
        for credential in credentials where accounts.isUnknown(credential.account, than: account) {
            _ = revocations.begin { [client] in await client.revokeRejectedTokens(credential.tokens) }
        }
    }

    /// The stored accounts, updated with unsaved credentials, which are written if possible.
    /// - Parameter epoch: The epoch at the start of the operation; default: the epoch before the read. If a user signs in or out after that, the
    ///   result of the operation is not returned.
    /// - Returns: The accounts, and the basis of an operation that changes them.
    /// - Throws: ``AuthError``; ``Outdated`` when the lease is lost.
    func latestAccounts(
        _ lease: Lease,
        since epoch: Int? = nil
    ) async throws -> (known: StoredAccounts, basis: CredentialMachine.Basis) {
        let epoch = epoch ?? state.withLock { $0.machine.epoch }
        let (stored, known, basis): (StoredAccounts, StoredAccounts, CredentialMachine.Basis)
        do {
            (stored, known, basis) = try await read(under: lease)
        } catch let error as AuthError where error.code == .leaseLost {
            throw Outdated()
        }
        if known != stored { try? await reporter().step(.storing) { try await write(known, lease, basis) } }
        return (known, CredentialMachine.Basis(epoch: epoch, version: basis.version))
    }

    /// Runs an operation again if its lease was lost: another process has changed or removed the record in the meantime, or this process has done so
    /// and the response was lost.
    func retryingAfterLostLease<Return: Sendable>(_ body: () async throws -> Return) async throws -> Return {
        var attempts = 3
        while true {
            attempts -= 1
            do {
                return try await body()
            } catch let error as AuthError where error.indicatesLostLease && attempts > 0 {
                continue
            }
        }
    }

    /// Makes an account the current one under an exclusive lease.
    /// - Parameter name: The name of the account (``AccountID/isNamed(_:)``).
    /// - Throws: ``AuthError`` with `login_required`, or `invalid_configuration` when several accounts have the name; any error thrown by the store.
    package func select(_ name: String) async throws {
        try await retryingAfterLostLease {
            try await store.withLease(on: key) { lease in
                var (stored, accounts, basis) = try await read(under: lease)
                guard let entry = accounts.entry(name) else {
                    try accounts.requireUnambiguous(name)
                    throw AuthError(
                        .loginRequired,
                        "The account \"\(DisplayText.sanitized(name, limit: 80))\" is not signed in."
                    )
                }
                accounts.select(entry.account)
                if accounts != stored { try await write(accounts, lease, basis, changesSession: true) }
                beginEpoch()
                // An object that is limited to one account has no other current account.
                if account == nil { state.withLock { publishState(in: accounts, &$0) } }
            }
        }
    }

    /// Writes the known accounts, including the credentials that were unsaved at the time of the read.
    /// - Parameters:
    ///   - attributes: The new expiry and tags of the record; nil to leave them unchanged.
    ///   - changesSession: Whether the operation changes the session, in which case its caller publishes the state. Otherwise, this method publishes
    ///     the state of a session that another process has changed, and whose read has not published it.
    func write(
        _ accounts: StoredAccounts,
        _ lease: Lease,
        _ basis: CredentialMachine.Basis,
        attributes: RecordAttributes? = nil,
        changesSession: Bool = false
    ) async throws {
        let requestedAt = client.host.now().timeIntervalSinceReferenceDate
        if let attributes {
            try await store.sessions.write(try accounts.serialized(), attributes, under: lease)
        } else {
            try await store.write(accounts.entries.isEmpty ? nil : try accounts.serialized(), under: lease)
        }
        state.withLock { state in
            let hasOtherSession = state.machine.writeSucceeded(
                accounts,
                basis,
                requestedAt: requestedAt,
                changesSession: changesSession
            )
            if hasOtherSession { publishState(in: accounts, &state) }
        }
    }

    /// Changes the application's data in the session under an exclusive lease.
    /// - Parameter body: Changes the data. This closure may be called more than once.
    /// - Throws: ``AuthError`` with `login_required`; `session_data_unusable` when the data is too large; any error thrown by the store or by `body`.
    func changeApplicationData(_ body: (Secret?) throws -> Secret?) async throws -> Credential {
        try await store.withLease(on: key) { lease in
            var (_, accounts, basis) = try await read(under: lease)
            var credential = try signedIn(in: accounts)
            let data = try body(credential.applicationData)
            guard data != credential.applicationData else { return credential }
            credential.applicationData = data
            guard credential.hasStorableSize else {
                throw AuthError(
                    .sessionDataUnusable,
                    "The session cannot be stored with this data: it would be too large."
                )
            }
            accounts.set(.signedIn(credential), isCurrent: false)
            try await write(accounts, lease, basis)
            return adopt(credential, basis.epoch)
        }
    }

    /// Reserves space in the store before a request whose response must not be lost.
    /// - Throws: ``AuthError`` with `storage_failed`; ``Outdated`` when the lease is lost.
    func reserveSpace(for accounts: StoredAccounts, _ lease: Lease) async throws {
        // New tokens may be larger.
        let size = 2 * (try accounts.serialized().count) + 32 * 1024
        do {
            try await store.reserve(min(size, RecordKey.maximumRecordSize), under: lease)
        } catch let error as AuthError where error.code == .storageFailed {
            throw error.withMessage(
                "No tokens were requested from the provider, because they could not be stored. \(error.message)",
                because: error
            )
        } catch let error as AuthError where error.code == .leaseLost {
            throw Outdated()
        }
    }

    /// Checks that the store is usable and has space for another sign-in, before a user is asked to sign in.
    /// - Parameter writing: Whether to also rewrite the record, because not every store can reserve space; default: no.
    /// - Returns: Whether the record was written.
    package func probe(writing: Bool = false) async throws -> Bool {
        try await retryingAfterLostLease {
            try await store.withLease(on: key) { lease in
                let accounts = try await accounts()
                try accounts.requireSpace()
                do { try await reserveSpace(for: accounts, lease) } catch is Outdated { throw Lease.lost }
                guard writing, let bytes = try await store.bytes(for: key) else { return false }
                try await store.write(bytes, under: lease)
                return true
            }
        }
    }

    /// The last valid credential: the unsaved one, if any, or else the stored one.
    /// - Throws: ``AuthError`` with `login_required` and the reason.
    package func lastCredential() async throws -> Credential { try signedIn(in: try await accounts()) }

    /// The credential of this object's account.
    /// - Throws: ``AuthError`` with `login_required` and the reason.
    func signedIn(in accounts: StoredAccounts) throws(AuthError) -> Credential { try signedIn(in: accounts, account) }

    /// The credential of an account; nil for the current one.
    func signedIn(in accounts: StoredAccounts, _ account: String?) throws(AuthError) -> Credential {
        switch accounts.entry(account) {
        case .signedIn(let credential)?:
            if let error = client.senderConstraintError(of: credential) { throw error }
            return credential
        case .ended(let session)?: throw session.error
        case nil:
            try accounts.requireUnambiguous(account)
            let named = account.map { "The account \"\(DisplayText.sanitized($0, limit: 80))\" is not signed in" }
            let profile = label.map { " with the profile \"\(DisplayText.sanitized($0, limit: 60))\"" } ?? ""
            throw AuthError(.loginRequired, "\(named ?? "No user is signed in\(profile)"). Sign in first.")
        }
    }

    /// The credential of this object's account; nil when there is none that the client may use.
    func usable(in accounts: StoredAccounts) -> Credential? {
        accounts.entry(account)?.credential.flatMap { client.senderConstraintError(of: $0) == nil ? $0 : nil }
    }
}
