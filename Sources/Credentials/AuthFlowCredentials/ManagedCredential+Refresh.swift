import AuthFlowEssentials
package import AuthFlowOAuth
import AuthFlowStorage
import Synchronization

extension ManagedCredential {
    /// Reads the store again, and refreshes unless the store contains fresh tokens. The lease prevents other writes
    /// in the meantime.
    func refreshUnderLease(
        _ lease: Lease,
        of account: String?,
        _ margin: Duration,
        _ rejected: Secret?,
        _ epoch: Int
    ) async throws -> Credential {
        guard isCurrent(epoch) else { throw Outdated() }
        var (accounts, basis) = try await latestAccounts(lease, since: epoch)
        let refresh = decisions(for: account, margin, rejected)
        let stored = Result { () throws(AuthError) in try signedIn(in: accounts, account) }
        switch try refresh.action(for: stored, at: client.host.now()) {
        case .answer(let credential):
            // The read has already cached this credential.
            return credential
        case .renew(let old):
            do {
                return try await renew(old, in: &accounts, lease, basis)
            } catch {
                let isUsable = old.map { refresh.isUsable($0, at: client.host.now()) } ?? false
                guard let old, isUsable, !(error is CancellationError) else { throw error }
                return old
            }
        case .send(let credential): return try await send(refresh, credential, in: &accounts, lease, basis)
        case .expire(let credential, let error):
            publish(.expired, of: credential.account, expiredToken: credential.tokens.accessToken)
            throw error
        }
    }

    /// The decisions of one refresh by this client.
    func decisions(for account: String?, _ margin: Duration, _ rejected: Secret?) -> CredentialRefresh {
        CredentialRefresh(
            account: account,
            margin: margin,
            rejected: rejected,
            isRenewable: renewal != nil,
            requestsOfflineAccess: client.registration.scopes.contains("offline_access")
        )
    }

    /// Obtains a credential without a user, and replaces the stored credential, if any.
    private func renew(
        _ old: Credential?,
        in accounts: inout StoredAccounts,
        _ lease: Lease,
        _ basis: CredentialMachine.Basis
    ) async throws -> Credential {
        guard let renewal else { preconditionFailure("the credential is renewable, but there is no renewal closure") }
        // Without a user, there is exactly one account.
        let account = old?.account ?? AccountID(issuer: client.server.issuer, subject: nil)
        let subject = Backoffs.Subject(account)
        if let backoffError = backoffError(for: subject) { throw backoffError }
        do {
            let credential = try await reporter().step(.machineToMachineGrant) {
                try await renewal(client, key.resource)
            }
            guard key.resource == nil || credential.resources == [key.resource] else {
                throw AuthError(
                    .invalidConfiguration,
                    "The credential was obtained for \(credential.resources.isEmpty ? "no specific resource" : credential.resources.joined(separator: ", ")), but the credential key specifies \(key.resource ?? "")."
                )
            }
            state.withLock { $0.machine.succeeded(subject) }
            await save(credential, in: &accounts, lease, basis, changesSession: true)
            publish(.refreshed)
            return adopt(credential, basis.epoch)
        } catch let error as AuthError {
            // No backoff for local failures: a missing key or assertion may be available at the next call.
            if !Self.localCodes.contains(error.code) { backOff(error, subject) }
            throw error
        }
    }

    private static let localCodes: Set<AuthError.Code> = [
        .loginRequired, .assertionUnusable, .keyUnavailable, .invalidConfiguration,
    ]

    /// Sends the refresh token, unless requests are suspended, and applies the consequences.
    func send(
        _ refresh: CredentialRefresh,
        _ credential: Credential,
        in accounts: inout StoredAccounts,
        _ lease: Lease,
        _ basis: CredentialMachine.Basis
    ) async throws -> Credential {
        let subject = Backoffs.Subject(credential)
        if let backoffError = refreshBackoffError(subject) {
            return try refresh.answer(credential, after: backoffError, at: client.host.now()).get()
        }
        do {
            try await reserveSpace(for: accounts, lease)
        } catch {
            // There is no backoff, because no request was sent.
            outage.use { $0.notSent(at: client.host.now()) }
            guard let error = error as? AuthError, error.code == .storageFailed else { throw error }
            return try refresh.answer(credential, after: error, at: client.host.now()).get()
        }
        try unfinished.beginSending()
        defer { unfinished.endSending() }
        let consequence: CredentialRefresh.Consequence
        do {
            let resources = key.resource.map { [$0] } ?? credential.resources
            let outcome = try await reporter().step(.refresh) {
                let names = client.registration.sendsResourcesOnRefresh
                return try await self.refresh(
                    credential,
                    resources: names ? resources : [],
                    in: &accounts,
                    lease,
                    basis
                )
            }
            if case .refreshed(let refreshed) = outcome { reportOtherAuthentication(in: refreshed) }
            consequence = refresh.consequence(of: outcome, at: client.host.now())
        } catch let error as AuthError where error.code != .loginRequired {
            if isEnd(error) { throw try await endSession(of: credential, error, in: &accounts, lease, basis) }
            let name = client.adapter.standardName(of: error.providerError)
            consequence = refresh.consequence(of: error, named: name, for: credential, at: client.host.now())
        }
        if let stored = consequence.stored { share(stored, replacing: credential) }
        return try await perform(consequence, for: subject, in: &accounts, lease, basis)
    }

    /// Shares a new device secret, obtained by a refresh, with the vendor's other apps. The refresh does not wait for this, because
    /// another process may hold the lock of the shared store.
    func share(_ credential: Credential, replacing previous: Credential) {
        guard credential.tokens.deviceSecret != previous.tokens.deviceSecret,
            let provider = client.adapter as? any SharedSignIn
        else { return }
        let reporter = reporter()
        state.withLock { state in
            // A share replaces the device secret of the previous one. If it overtook that one, the older secret would remain shared.
            let previousShare = state.sharing
            state.sharing = unfinished.begin { [client] in
                _ = try? await previousShare?.value()
                do {
                    try await provider.share(credential, replacing: previous, in: client.providerContext)
                } catch {
                    reporter.report(.sharing, .failed((error as? AuthError)?.code ?? .storageFailed))
                }
            }
        }
    }

    /// - Returns: The result for the callers.
    func perform(
        _ consequence: CredentialRefresh.Consequence,
        for subject: Backoffs.Subject,
        in accounts: inout StoredAccounts,
        _ lease: Lease,
        _ basis: CredentialMachine.Basis
    ) async throws -> Credential {
        if let error = consequence.backoff {
            backOff(error, consequence.isResourceSpecific ? subject : subject.allRequests)
        } else {
            state.withLock { $0.machine.succeeded(subject) }
        }
        if consequence.invalidatesCache { state.withLock { $0.machine.discardCache(basis.epoch) } }
        if let stored = consequence.stored { await save(stored, in: &accounts, lease, basis) }
        if let state = consequence.state {
            let token = accounts.entry(of: subject.account)?.credential?.tokens.accessToken
            publish(state, of: subject.account, expiredToken: state == .expired ? token : nil)
        }
        let answer = try consequence.answer.get()
        return consequence.stored == nil ? answer : adopt(answer, basis.epoch)
    }

    /// Sends a refresh token if the lease is still held at the time of sending. A process that was paused, or whose
    /// request was delayed, must not send a refresh token that another process has used in the meantime.
    /// - Throws: ``Outdated`` when the lease has expired, in which case the caller must read the store again.
    func refresh(
        _ credential: Credential,
        scopes: [String]? = nil,
        resources: [String],
        in accounts: inout StoredAccounts,
        _ lease: Lease,
        _ basis: CredentialMachine.Basis
    ) async throws -> RefreshOutcome {
        let rotated = Mutex<Credential?>(nil)
        let storeRotated: @Sendable (Credential) async -> Void = { [self, accounts] credential in
            var accounts = accounts
            accounts.set(.signedIn(credential), isCurrent: false)
            // If this write fails, the tokens are written once the user is known.
            guard (try? await write(accounts, lease, basis)) != nil else { return }
            rotated.withLock { $0 = credential }
            try? await reserveSpace(for: accounts, lease)
        }
        defer { if let stored = rotated.withLock({ $0 }) { accounts.set(.signedIn(stored), isCurrent: false) } }
        do {
            return try await sendRefreshRequest(for: credential.account) {
                // The lease is also checked here, because some transports do not call the closure below before sending.
                try lease.requireRemainingTime()
                return try await client.refresh(
                    credential,
                    scopes: scopes,
                    resources: resources,
                    checkBeforeSending: { [unfinished] () throws(AuthError) in
                        try lease.requireRemainingTime()
                        try unfinished.willSend()
                    },
                    storingRotatedToken: storeRotated
                )
            }
        } catch let error as AuthError where error.code == .closing {
            throw CancellationError()
        } catch let error as AuthError where error.code == .leaseLost {
            throw Outdated()
        }
    }

    /// Reports that the `auth_time` of a refreshed ID Token differs from the session's. The session's
    /// `auth_time` does not change.
    private func reportOtherAuthentication(in refreshed: Credential) {
        guard let time = refreshed.authentication?.time,
            let named = refreshed.tokens.verifiedIDToken?.claims["auth_time"]?.number,
            named != time.timeIntervalSince1970
        else { return }
        reporter().report(.refresh, details: ["auth_time": "of another sign-in"])
    }

    /// Reports that a refresh token was sent under a lease that another holder has taken over, so both holders may have
    /// sent it.
    func reportLostLease() { reporter().report(.refresh, details: ["lease": "lost"]) }

    /// Whether an error ends the session.
    func isEnd(_ error: AuthError) -> Bool {
        CredentialRefresh.endsSession(error, named: client.adapter.standardName(of: error.providerError))
    }

    func backOff(_ error: AuthError, _ subject: Backoffs.Subject) {
        let (now, random) = (client.host.now(), client.host.randomBytes(1).first ?? 0)
        state.withLock { $0.machine.failed(subject, error, at: now, random: random) }
    }

    /// Sends a refresh request, and records whether the provider has responded.
    private func sendRefreshRequest<Return: Sendable>(
        for account: AccountID,
        _ request: () async throws -> Return
    ) async throws -> Return {
        let began = client.host.now()
        do {
            let result = try await request()
            outage.use { $0.answered() }
            return result
        } catch let error as AuthError {
            let (now, random) = (client.host.now(), random)
            // Several sessions of one user count as one user.
            let user = account.subject.map { Array($0.utf8) } ?? digest
            outage.use { $0.failed(user, error, since: began, at: now, random: random) }
            throw error
        }
    }

    /// The error to throw to a caller during the backoff.
    private func backoffError(for subject: Backoffs.Subject) -> AuthError? {
        let now = client.host.now()
        return state.withLock { $0.machine.backoffError(for: subject, at: now) }
    }

    /// Like ``backoffError(for:)``, but also takes a provider outage into account.
    func refreshBackoffError(_ subject: Backoffs.Subject) -> AuthError? {
        let now = client.host.now()
        return backoffError(for: subject) ?? outage.use { $0.admitRefresh(at: now) }
    }

    /// Replaces the credential with a record of the session's end and its reason.
    func endSession(
        of credential: Credential,
        _ error: AuthError,
        in accounts: inout StoredAccounts,
        _ lease: Lease,
        _ basis: CredentialMachine.Basis
    ) async throws -> AuthError {
        let providerReason =
            error.isSubjectMismatch
            ? "it issued tokens for another user" : error.providerError.map { "\($0)" } ?? "invalid_grant"
        let reason = await (client.adapter as? any SharedSignIn)?
            .reasonForEnd(of: credential, in: client.providerContext)
        let session = EndedSession(
            identity: credential.identity,
            reason: reason.map { "\($0); \(providerReason)" } ?? providerReason,
            endedAt: client.host.wholeSecond,
            isAfterInterruptedRefresh: lease.isAfterAbandonedLease,
            account: credential.account
        )
        accounts.set(.ended(session), isCurrent: false)
        let reporter = reporter()
        do {
            try await reporter.step(.storing) { [accounts] in
                try await write(accounts, lease, basis, changesSession: true)
            }
        } catch let error as AuthError where error.indicatesLostLease {
            // Another holder took over while this process was paused, and may have refreshed, so its credential takes precedence.
            reportLostLease()
            throw Outdated()
        } catch {
            // The next process will send the refresh request again and get the same response.
        }
        state.withLock { $0.machine.ended(credential.account, basis.epoch) }
        publish(.ended(session), of: credential.account)
        let circumstance = session.isAfterInterruptedRefresh ? ["after": "unfinished refresh"] : [:]
        let code = error.isSubjectMismatch ? "another_user" : error.providerError?.publicCode ?? "invalid_grant"
        reporter.report(.sessionEnd, details: ["reason": code].merging(circumstance) { $1 })
        // The user's grant may still be valid, but its tokens are no longer stored, so they are revoked. The revocation runs in the background,
        // because the lease is still held, and does not use the adapter, whose revocation could end other grants.
        if error.isSubjectMismatch {
            _ = revocations.begin { [client] in
                try await reporter.step(.revocation) {
                    try await client.revoke(credential.revocableTokens(at: client.host.now()))
                }
            }
        }
        if let onEnd { _ = revocations.begin { [key] in await onEnd(key, credential) } }
        return session.error(after: error)
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
            var (accounts, basis) = try await latestAccounts(lease)
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
            await save(credential, in: &accounts, lease, basis)
            return adopt(credential, basis.epoch)
        }
    }
}

extension EndedSession {
    /// The error for a caller that requests the session's tokens.
    var error: AuthError { error(after: nil) }

    fileprivate func error(after cause: AuthError?) -> AuthError {
        AuthError(
            .loginRequired,
            "The session for \(identity?.displayName ?? "an unknown user") was ended by the provider (\(DisplayText.sanitized(reason))). Sign in again.",
            providerError: cause?.providerError,
            underlyingError: cause
        )
    }
}
