import AuthFlowEssentials
package import AuthFlowOAuth
package import AuthFlowStorage
import Synchronization

extension ManagedCredential {
    /// The stored accounts, updated with unsaved credentials. Cached tokens that are no longer stored are dropped.
    /// - Throws: ``AuthError`` with `storage_failed` or `credential_unusable`.
    package func accounts() async throws -> StoredAccounts { try await read().known }

    /// - Returns: The stored accounts, the same accounts with the unsaved credentials, and the epoch of the latter.
    private func read(
        under lease: Lease? = nil
    ) async throws -> (stored: StoredAccounts, known: StoredAccounts, epoch: Int) {
        while true {
            // If a write ran during the read, successfully or not, the read may be outdated.
            if let result = try await readOnce(lease) { return result }
        }
    }

    /// - Returns: The result of ``read(under:)``; nil when a write succeeded or failed in the meantime.
    private func readOnce(
        _ lease: Lease?
    ) async throws -> (stored: StoredAccounts, known: StoredAccounts, epoch: Int)? {
        let asked = client.host.now().timeIntervalSinceReferenceDate
        let reading = state.withLock { $0.machine.beginReading(at: asked) }
        let bytes = if let lease { try await store.bytes(under: lease) } else { try await store.bytes(for: key) }
        let stored = try bytes.map { bytes in try StoredAccounts(serialized: bytes) } ?? StoredAccounts()
        let random = random
        let result = state.withLock {
            $0.machine.finishReading(reading, stored, margin: freshnessMargin, random: random) {
                client.senderConstraintError(of: $0) == nil
            }
        }
        guard let found = result else { return nil }
        // Another process has signed out, or has detected the end of the session.
        switch found.lost {
        case .some(.some(.ended(let session))): publish(.ended(session))
        case .some(.none): publish(.signedOut)
        default: break
        }
        if !found.dropped.isEmpty { revokeAfterSignOut(found.dropped) }
        return (found.stored, found.known, found.epoch)
    }

    /// Revokes tokens that were received after the session was removed, but only if a sign-out removed it:
    /// after a new sign-in by the same user, the tokens may belong to the same grant.
    private func revokeAfterSignOut(_ credentials: [Credential]) {
        guard let store = store as? any SessionTokenStore else { return }
        _ = revocations.begin { [self] in
            // If the key has already been claimed, a sign-out removed the session.
            guard try await !store.claim(key.signOut, for: .seconds(1)) else { return }
            try await reporter().step(.revocation) { try await client.revoke(credentials) }
        }
    }

    /// The stored accounts, updated with unsaved credentials, which are written if possible.
    /// - Throws: ``AuthError``; ``Outdated`` when the lease is lost.
    func latestAccounts(_ lease: Lease) async throws -> StoredAccounts {
        let (stored, known, epoch): (StoredAccounts, StoredAccounts, Int)
        do {
            (stored, known, epoch) = try await read(under: lease)
        } catch let error as AuthError where error.code == .leaseLost {
            throw Outdated()
        }
        if known != stored { try? await reporter().step(.storing) { try await write(known, lease, epoch) } }
        return known
    }

    /// Runs an operation that may refresh tokens under an exclusive lease. If the lease is lost in the meantime, the
    /// tokens are written under a new lease, whether or not the operation succeeds.
    /// - Throws: Any error thrown by `body`; ``Outdated`` when the tokens were not written, because another holder has
    ///   changed the record since.
    func withRefreshLease<Return: Sendable>(_ body: (Lease) async throws -> Return) async throws -> Return {
        let result: Result<Return, any Error>
        var held: Lease?
        do {
            result = .success(
                try await store.withLease(on: key) { lease in
                    held = lease
                    return try await body(lease)
                }
            )
        } catch {
            result = .failure(error)
        }
        let isStored = if let held { await writeAfterLostLease(held) } else { true }
        let value = try result.get()
        guard isStored else { throw Outdated() }
        return value
    }

    /// Writes tokens that were refreshed under a lease that has been lost, unless another holder has refreshed or removed them.
    /// - Returns: false if another holder has refreshed or removed them.
    private func writeAfterLostLease(_ lease: Lease) async -> Bool {
        let lost = state.withLock { $0.machine.takeLostCredential(of: lease) }
        guard let lost else { return true }
        let accounts = try? await store.withLease(on: key) { lease in try await latestAccounts(lease) }
        if state.withLock({ $0.machine.hasUnsaved }) { retryWrites() }
        guard let accounts else { return true }
        return accounts.entry(of: lost.account)?.credential?.tokens.accessToken == lost.tokens.accessToken
    }

    /// The last valid credential: the unsaved one, if any, or else the stored one.
    /// - Throws: ``AuthError`` with `login_required` and the reason.
    package func lastCredential() async throws -> Credential { try signedIn(in: try await accounts()) }

    /// Changes the stored accounts under an exclusive lease.
    package func change<Return: Sendable>(_ body: (inout StoredAccounts) async throws -> Return) async throws -> Return
    {
        try await store.withLease(on: key) { lease in
            var (stored, accounts, epoch) = try await read(under: lease)
            let result = try await body(&accounts)
            if accounts != stored { try await write(accounts, lease, epoch) }
            return result
        }
    }

    /// Changes the application's data in the session under an exclusive lease.
    /// - Parameter body: Changes the data. This closure may be called more than once.
    /// - Throws: ``AuthError`` with `login_required`, or any error thrown by the store or by `body`.
    func changeApplicationData(_ body: (Secret?) throws -> Secret?) async throws -> Credential {
        try await store.withLease(on: key) { lease in
            var (_, accounts, epoch) = try await read(under: lease)
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
            try await write(accounts, lease, epoch)
            return adopt(credential, epoch)
        }
    }

    /// Writes the known accounts of an epoch, so that none of the epoch's credentials remain unsaved.
    /// - Parameter attributes: The new expiry and tags of the record; nil to leave them unchanged.
    func write(
        _ accounts: StoredAccounts,
        _ lease: Lease,
        _ epoch: Int,
        attributes: RecordAttributes? = nil
    ) async throws {
        let requestedAt = client.host.now().timeIntervalSinceReferenceDate
        if let attributes {
            guard let store = store as? any SessionTokenStore else {
                throw AuthError(
                    .invalidConfiguration,
                    "The store does not support sessions: its records have no expiry and no tags."
                )
            }
            try await store.write(try accounts.serialized(), attributes, under: lease)
        } else {
            try await store.write(accounts.entries.isEmpty ? nil : try accounts.serialized(), under: lease)
        }
        state.withLock { $0.machine.writeSucceeded(epoch, requestedAt: requestedAt) }
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
        try await store.withLease(on: key) { lease in
            let accounts = try await accounts()
            try accounts.requireSpace()
            do { try await reserveSpace(for: accounts, lease) } catch is Outdated { throw Lease.lost }
            guard writing, let bytes = try await store.bytes(for: key) else { return false }
            try await store.write(bytes, under: lease)
            return true
        }
    }

    /// Stores the credential from a sign-in.
    /// - Throws: ``AuthError`` with `account_mismatch` when the policy does not allow this account.
    package func save(
        _ credential: Credential,
        _ policy: AccountPolicy,
        _ reporter: FlowReporter,
        attributes: RecordAttributes? = nil
    ) async throws {
        // A client for one account rejects every other account, whatever the policy.
        if let account, !credential.account.isNamed(account) {
            throw AuthError(
                .accountMismatch,
                "\(credential.displayName) has signed in, but the account \(DisplayText.sanitized(account, limit: 200)) was requested. Sign in as that user."
            )
        }
        // OpenID Connect Core section 5.7: another tenant may have a user with the same subject.
        if let account, !AccountID.containsIssuer(account), credential.isFromTenant {
            throw AuthError(
                .accountMismatch,
                "The server serves users of several tenants, so the subject \(DisplayText.sanitized(account, limit: 80)) alone does not identify the user. Name the account by its issuer and subject, separated by a space: \(DisplayText.sanitized("\(credential.account.issuer) \(account)", limit: 600))"
            )
        }
        func save() async throws {
            try await store.withLease(on: key) { lease in
                var (_, accounts, epoch) = try await read(under: lease)
                if let other = try accountToReplace(by: credential, in: accounts, policy) { accounts.remove(other) }
                accounts.set(.signedIn(credential), isCurrent: true)
                try await reporter.step(.storing) { [accounts] in
                    try await write(accounts, lease, epoch, attributes: attributes)
                }
                let (new, isSameEpoch) = state.withLock { $0.machine.signedIn(current: accounts.current, since: epoch) }
                // A credential that another task in this process is removing is not returned from memory.
                if isSameEpoch { adopt(credential, new) }
            }
        }
        do {
            try await save()
        } catch let error as AuthError where error.code == .leaseLost {
            // The process was paused, and nothing was written.
            try await save()
        }
        publish(.signedIn(credential.identity), of: credential.account)
    }

    /// The account that a sign-in replaces; nil for none.
    /// - Throws: ``AuthError`` with `account_mismatch` when the policy does not allow the sign-in.
    private func accountToReplace(
        by credential: Credential,
        in accounts: StoredAccounts,
        _ policy: AccountPolicy
    ) throws(AuthError) -> AccountID? {
        guard let other = otherAccount(than: credential.account, in: accounts) else { return nil }
        if policy == .replaceAccount { return other }
        if other == credential.account {
            throw AuthError(
                .accountMismatch,
                "A user is already signed in, and the provider does not indicate whether this is the same user. Sign out first, or choose to replace the account."
            )
        }
        guard policy == .addAccount else {
            throw AuthError(
                .accountMismatch,
                "\(credential.displayName) has signed in, but another user is already signed in. Sign out first, or choose to add or replace the account."
            )
        }
        return nil
    }

    /// This credential's account, if it differs from the account that signed in.
    private func otherAccount(than signedIn: AccountID, in accounts: StoredAccounts) -> AccountID? {
        let known = accounts.entry(account)?.account
        // Unknown users cannot be distinguished, so a signed-in unknown user counts as another user.
        if let known, known.subject == nil, accounts.entry(of: known)?.credential != nil { return known }
        if let account, known == nil {
            return signedIn.isNamed(account) ? nil : AccountID(issuer: signedIn.issuer, subject: account)
        }
        return known == signedIn ? nil : known
    }

    /// Whether an account is known to differ from the signed-in account. A sign-in with the policy
    /// ``AccountPolicy/sameAccount`` rejects such an account.
    package func isOtherAccount(_ signedIn: AccountID) async throws -> Bool {
        isOtherAccount(signedIn, in: try await accounts())
    }

    /// Like ``isOtherAccount(_:)``, but false if tokens of the account, which may belong to the same grant, are stored.
    package func isUnknownAccount(_ signedIn: AccountID) async throws -> Bool {
        let accounts = try await accounts()
        return isOtherAccount(signedIn, in: accounts) && accounts.entry(of: signedIn)?.credential == nil
    }

    /// Whether tokens of an account are stored, or are in memory because they could not be stored.
    package func hasTokens(of account: AccountID) async throws -> Bool {
        try await accounts().entry(of: account)?.credential != nil
    }

    private func isOtherAccount(_ signedIn: AccountID, in accounts: StoredAccounts) -> Bool {
        signedIn.subject != nil && otherAccount(than: signedIn, in: accounts)?.subject != nil
    }

    /// Retains the credential from a sign-in in memory until this process exits, because it could not be stored.
    /// - Throws: ``AuthError`` with `account_mismatch` when the store can be read and the policy does not allow this account.
    package func retainInMemory(_ credential: Credential, _ policy: AccountPolicy) async throws(AuthError) {
        let found = try? await read()
        var removed: StoredAccounts.Entry?
        if let found, let account = try accountToReplace(by: credential, in: found.known, policy) {
            removed = found.known.entry(of: account)
        }
        let epoch = beginEpoch()
        let replaced =
            (found?.stored).map { CredentialMachine.KnownEntry.entry($0.entry(of: credential.account)) } ?? .unknown
        state.withLock {
            $0.machine.writeFailed(
                credential,
                replacing: replaced,
                removing: removed,
                isSignIn: true,
                lostLease: nil,
                epoch
            )
        }
        if account.map(credential.account.isNamed) ?? true { adopt(credential) }
        publish(.signedIn(credential.identity), of: credential.account)
    }

    /// Writes a refreshed credential. If the write fails, the credential is still valid, but only this process has it.
    /// - Parameter epoch: The epoch in which the operation that obtained it started.
    func save(_ credential: Credential, in accounts: inout StoredAccounts, _ lease: Lease, _ epoch: Int) async {
        let old = accounts.entry(of: credential.account)
        accounts.set(.signedIn(credential), isCurrent: false)
        do {
            try await reporter().step(.storing) { [accounts] in try await write(accounts, lease, epoch) }
        } catch {
            let hasLostLease = (error as? AuthError).map { $0.indicatesLostLease } ?? false
            if hasLostLease { reportLostLease() }
            state.withLock {
                $0.machine.writeFailed(
                    credential,
                    replacing: .entry(old),
                    isSignIn: false,
                    lostLease: hasLostLease ? lease : nil,
                    epoch
                )
            }
            // Other processes would send the old refresh token, which has already been used.
            if !hasLostLease {
                state.withLock { $0.unwrittenLease = lease }
                retryWrites()
            }
        }
    }

    /// Retries writing the unsaved credentials until a write succeeds or none are left, for as long as this object is
    /// in use.
    private func retryWrites() {
        // Registered and removed under the lock: otherwise, an attempt that has just saved the last credential could remove the registration
        // of the next one.
        let isFirst = state.withLock { state in
            guard !state.isRetrying else { return false }
            unfinished.registerUnsavedWrite(of: self) { [weak self] in await self?.writeUnsaved() ?? true }
            state.isRetrying = true
            return true
        }
        guard isFirst else { return }
        Task { [weak self, clock = client.host.clock] in
            var pause = Duration.seconds(1)
            while true {
                try? await clock.sleep(for: pause)
                pause = min(pause * 2, .seconds(2))
                guard let self else { return }
                guard await self.writeUnsaved() else { continue }
                return
            }
        }
    }

    /// Tries to write the unsaved credentials.
    /// - Returns: Whether no unsaved credentials are left.
    private func writeUnsaved() async -> Bool {
        _ = try? await unfinished.finish { [self] in
            // First try the lease under which the write failed, which the store may still accept. After its expiry,
            // other processes continue and would send the old refresh token.
            if let lease = state.withLock({ $0.unwrittenLease }) {
                do {
                    let (stored, known, epoch) = try await read(under: lease)
                    if known != stored { try await write(known, lease, epoch) }
                    return state.withLock { $0.unwrittenLease = nil }
                } catch let error as AuthError where error.indicatesLostLease {
                    state.withLock { $0.unwrittenLease = nil }
                }
            }
            try await store.withLease(on: key) { lease in _ = try await latestAccounts(lease) }
        }
        return state.withLock { state in
            guard !state.machine.hasUnsaved else { return false }
            state.isRetrying = false
            unfinished.removeUnsavedWrite(of: self)
            return true
        }
    }

    /// Replaces the tokens under an exclusive lease.
    package func replace(_ body: (TokenSet) async throws -> TokenSet) async throws -> Credential {
        var hasBegun = false
        for _ in 0..<3 where !hasBegun {
            do {
                return try await replaceUnderLease { tokens in
                    hasBegun = true
                    return try await body(tokens)
                }
            } catch is Outdated {
                // The replacement can be retried under another lease only if it has not started.
                continue
            }
        }
        // If the user has signed out, this call throws the appropriate error.
        _ = try await lastCredential()
        throw Lease.lost
    }

    private func replaceUnderLease(_ body: (TokenSet) async throws -> TokenSet) async throws -> Credential {
        try await withRefreshLease { lease in
            let epoch = state.withLock { $0.machine.epoch }
            var accounts = try await latestAccounts(lease)
            var credential = try signedIn(in: accounts)
            try await client.requireBinding(of: credential)
            try await reserveSpace(for: accounts, lease)
            // The replacement may use the old tokens, so another process must not do the same.
            do throws(AuthError) { try lease.requireRemainingTime() } catch { throw Outdated() }
            try unfinished.beginSending()
            defer { unfinished.endSending() }
            do throws(AuthError) { try unfinished.willSend() } catch { throw CancellationError() }
            credential.tokens = try await body(credential.tokens)
            credential.obtainedAt = client.host.wholeSecond
            credential.rejectedRefreshes = 0
            await save(credential, in: &accounts, lease, epoch)
            return adopt(credential, epoch)
        }
    }

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
            var (stored, accounts, epoch) = try await read(under: lease)
            guard let entry = accounts.entry(account) else {
                try accounts.requireUnambiguous(account)
                // Another process has removed the account, and a read that started earlier may not have returned yet.
                beginEpoch()
                return (nil, .signedOut)
            }
            willRemove(entry)
            accounts.remove(entry.account)
            if accounts != stored { try await write(accounts, lease, epoch) }
            state.withLock { $0.machine.removed(entry.account) }
            // Another account may be the current one now.
            return (entry, currentState(in: accounts))
        }
        if removed != nil { publish(newState) }
        return removed
    }

    /// Removes this object's account. Removes the entire record, readable or not, if this object is for no particular account.
    /// - Parameter discardingUnreadable: Whether to also remove the entire record if it cannot be read, and its accounts therefore cannot be separated.
    package func clear(discardingUnreadable: Bool) async throws -> Bool {
        if account != nil {
            do {
                return try await remove() != nil
            } catch {
                // A record that can be read, but not written, is kept.
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

    /// The credential of this object's account.
    /// - Throws: ``AuthError`` with `login_required` and the reason.
    func signedIn(in accounts: StoredAccounts) throws(AuthError) -> Credential { try signedIn(in: accounts, account) }

    /// The credential of this object's account; nil when there is none that the client may use.
    func usable(in accounts: StoredAccounts) -> Credential? {
        accounts.entry(account)?.credential.flatMap { client.senderConstraintError(of: $0) == nil ? $0 : nil }
    }

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
}
