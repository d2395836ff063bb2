import AuthFlowEssentials
package import AuthFlowOAuth
package import AuthFlowStorage
import Synchronization

extension ManagedCredential {
    /// Stores the credential from a sign-in.
    /// - Throws: ``AuthError`` with `account_mismatch` when the policy or the client does not allow this account; any error thrown by the store.
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
                var (_, accounts, basis) = try await read(under: lease)
                if let other = try accounts.accountToReplace(by: credential, policy, account) { accounts.remove(other) }
                accounts.set(.signedIn(credential), isCurrent: true)
                try await reporter.step(.storing) { [accounts] in
                    try await write(accounts, lease, basis, attributes: attributes, changesSession: true)
                }
                let (new, isSameEpoch) = state.withLock {
                    $0.machine.signedIn(current: accounts.current, since: basis.epoch)
                }
                // A credential that another task in this process is removing is not returned from memory.
                if isSameEpoch { adopt(credential, new) }
                publish(.signedIn(credential.identity), of: credential.account)
            }
        }
        do {
            try await save()
        } catch let error as AuthError where error.code == .leaseLost {
            // The process was paused, and nothing was written.
            try await save()
        }
    }

    /// Rejects a sign-in whose tokens could not be stored, because its user cannot be distinguished from the signed-in user.
    /// - Throws: ``AuthError`` with `account_mismatch`.
    package func requireNoUnknownUser() async throws {
        let accounts = try await accounts()
        guard let known = accounts.entry(account), known.account.subject == nil, known.credential != nil else { return }
        throw StoredAccounts.unknownUserError
    }

    /// Whether an account is known to differ from the signed-in account. A sign-in with the policy
    /// ``AccountPolicy/sameAccount`` rejects such an account.
    package func isOtherAccount(_ signedIn: AccountID) async throws -> Bool {
        try await accounts().isOther(signedIn, than: account)
    }

    /// Like ``isOtherAccount(_:)``, but false if tokens of the account, which may belong to the same grant, are stored.
    package func isUnknownAccount(_ signedIn: AccountID) async throws -> Bool {
        try await accounts().isUnknown(signedIn, than: account)
    }

    /// Whether tokens of an account are stored, or are in memory because they could not be stored.
    package func hasTokens(of account: AccountID) async throws -> Bool {
        try await accounts().entry(of: account)?.credential != nil
    }

    /// Retains the credential from a sign-in in memory until it can be stored. If the store cannot be read, the next read applies the policy.
    /// - Throws: ``AuthError`` with `account_mismatch` when the store can be read and the policy does not allow this account.
    package func retainInMemory(_ credential: Credential, _ policy: AccountPolicy) async throws(AuthError) {
        let found = try? await read()
        var removed: StoredAccounts.Entry?
        if let found, let account = try found.known.accountToReplace(by: credential, policy, account) {
            removed = found.known.entry(of: account)
        }
        let epoch = beginEpoch()
        let replaced =
            (found?.stored).map { UnsavedCredentials.StoredEntry.entry($0.entry(of: credential.account)) } ?? .unknown
        state.withLock { state in
            state.machine.writeFailed(
                credential,
                replacing: replaced,
                removing: removed,
                isSignIn: true,
                policy: found == nil ? policy : nil,
                storedCurrent: found.map { $0.stored.current },
                lostLease: nil,
                epoch
            )
            // No lease is held, so one lock prevents the state of a later change from being published between these two steps.
            if state.machine.manages(credential.account) { state.publish(.signedIn(credential.identity)) }
        }
        if account.map(credential.account.isNamed) ?? true { adopt(credential, epoch) }
        retryWrites()
    }
}
