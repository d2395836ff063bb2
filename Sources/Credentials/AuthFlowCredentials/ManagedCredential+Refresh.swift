import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowJSON
import AuthFlowOAuth
import AuthFlowStorage
import Synchronization

extension ManagedCredential {
    /// The number of unexplained rejections of a refresh after which the user is asked to sign in again.
    static let toleratedRefusals: Int64 = 2

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
        var accounts = try await latestAccounts(lease)
        if let renewal, account == nil, usable(in: accounts) == nil {
            return try await renew(nil, renewal, in: &accounts, lease, epoch)
        }
        let credential = try signedIn(in: accounts, account)
        // The read has already cached this credential.
        if credential.isFresh(at: client.host.now(), margin: margin), credential.tokens.accessToken != rejected {
            return credential
        }
        return try await refresh(credential, in: &accounts, rejected: rejected, lease, epoch)
    }

    /// Obtains a credential that belongs to no user, to replace one that has expired.
    private func renew(
        _ old: Credential?,
        _ renewal: CredentialManager.Renewal,
        in accounts: inout StoredAccounts,
        _ lease: Lease,
        _ epoch: Int
    ) async throws -> Credential {
        // Without a user, there is exactly one account.
        let account = old?.account ?? AccountID(issuer: client.server.issuer, subject: nil)
        if let wait = wait(for: account) { throw wait }
        do {
            let credential = try await reporter().step(.grantWithoutUser) { try await renewal(client, key.resource) }
            guard key.resource == nil || credential.resources == [key.resource] else {
                throw AuthError(
                    .invalidConfiguration,
                    "The credential was obtained for \(credential.resources.joined(separator: ", ")), but the key names \(key.resource ?? "")."
                )
            }
            state.withLock { $0.machine.succeeded(account) }
            await save(credential, in: &accounts, lease, epoch)
            publish(.refreshed, of: credential.account)
            return adopt(credential, epoch)
        } catch let error as AuthError {
            // No backoff for local failures: a missing key or assertion may be available at the next call.
            if !Self.localCodes.contains(error.code) { backOff(error, account) }
            throw error
        }
    }

    private static let localCodes: Set<AuthError.Code> = [
        .loginRequired, .assertionUnusable, .keyUnavailable, .invalidConfiguration,
    ]

    private func refresh(
        _ credential: Credential,
        in accounts: inout StoredAccounts,
        rejected: Secret?,
        _ lease: Lease,
        _ epoch: Int
    ) async throws -> Credential {
        if let renewal, credential.identity == nil, credential.tokens.refreshToken == nil {
            do {
                return try await renew(credential, renewal, in: &accounts, lease, epoch)
            } catch {
                return try unexpired(credential, rejected, after: error)
            }
        }
        guard credential.tokens.refreshToken != nil else {
            let error = AuthError(
                .loginRequired,
                """
                The access token of \(credential.displayName) has expired, and the provider issued no refresh token. \
                Sign in again; many providers issue one for the scope "offline_access".
                """
            )
            do {
                return adopt(try unexpired(credential, rejected, after: error), epoch)
            } catch {
                publish(.expired, of: credential.account)
                throw error
            }
        }
        if let wait = waitToRefresh(credential.account) {
            return try unexpired(credential, rejected, after: wait)
        }
        try unfinished.beginSending()
        defer { unfinished.endSending() }
        let outcome: RefreshOutcome
        do {
            let resources = key.resource.map { [$0] } ?? credential.resources
            outcome = try await reporter().step(.refresh) {
                let names = client.registration.namesResourcesOnRefresh
                return try await refresh(credential, resources: names ? resources : [], lease)
            }
        } catch let error as AuthError where error.code != .loginRequired {
            if isEnd(error) {
                // RFC 6749 section 5.2: the refresh token is "invalid, expired, revoked". The store has just been read
                // under the lease, so this is the stored token, and no newer token is lost.
                throw try await endSession(of: credential, error, in: &accounts, lease, epoch)
            }
            backOff(error, credential.account)
            if let refusal = await repeatedRefusal(of: credential, error, in: &accounts, lease, epoch) { throw refusal }
            return try unexpired(credential, rejected, after: error)
        }
        switch outcome {
        case .refreshed(let refreshed):
            state.withLock { $0.machine.succeeded(credential.account) }
            reportOtherAuthentication(in: refreshed)
            await save(refreshed, in: &accounts, lease, epoch)
            publish(.refreshed, of: credential.account)
            return adopt(refreshed, epoch)
        case .unchecked(let kept, let error):
            await save(kept, in: &accounts, lease, epoch)
            backOff(error, credential.account)
            return adopt(try unexpired(kept, rejected, after: error), epoch)
        case .refused(let kept, let error):
            state.withLock { $0.machine.forget(epoch) }
            await save(kept, in: &accounts, lease, epoch)
            backOff(error, credential.account)
            throw AuthError(
                error.code,
                "The refreshed tokens were not used, but the session continues. \(error.message)",
                providerError: error.providerError,
                status: error.status,
                retryAfter: error.retryAfter,
                underlyingError: error
            )
        }
    }

    /// The credential that could not be replaced, if its access token has not expired: better than no token.
    /// - Throws: The error, if the token cannot be used.
    private func unexpired(
        _ credential: Credential,
        _ rejected: Secret?,
        after error: any Error
    ) throws -> Credential {
        guard !credential.isExpired(at: client.host.now()), credential.tokens.accessToken != rejected,
            !(error is CancellationError)
        else { throw error }
        return credential
    }

    /// Sends a refresh token if the lease is still held at the time of sending. A process that was paused, or whose
    /// request was delayed, must not send a refresh token that another process has used in the meantime.
    /// - Throws: ``Outdated`` when the lease has expired: the caller must read the store again.
    func refresh(
        _ credential: Credential,
        scopes: [String]? = nil,
        resources: [String],
        _ lease: Lease
    ) async throws -> RefreshOutcome {
        do {
            // Also checked here, because some transports do not call the closure below before sending.
            try lease.requireTime()
            return try await asking(for: credential.account) {
                try await client.refresh(credential, scopes: scopes, resources: resources) {
                    [unfinished] () throws(AuthError) in
                    try lease.requireTime()
                    try unfinished.requireOpen()
                }
            }
        } catch let error as AuthError where error.code == .closing {
            throw CancellationError()
        } catch let error as AuthError where error.code == .leaseLost {
            throw Outdated()
        }
    }

    /// Reports that the `auth_time` of a refreshed ID Token differs from that of the session. The session's
    /// `auth_time` does not change.
    private func reportOtherAuthentication(in refreshed: Credential) {
        guard let time = refreshed.authentication?.time,
            let named = refreshed.tokens.verifiedIDToken?.claims["auth_time"]?.number,
            named != time.timeIntervalSince1970
        else { return }
        reporter().report(.refresh, details: ["auth_time": "of another sign-in"])
    }

    /// Reports that a refresh token was sent under a lease that another holder has taken over, so both may have sent
    /// it.
    func reportLostLease() { reporter().report(.refresh, details: ["lease": "lost"]) }

    /// Whether the provider has ended the session, or has issued another user's tokens for it.
    func isEnd(_ error: AuthError) -> Bool {
        let isInvalidGrant =
            error.code == .providerRejected && client.adapter.standardName(of: error.providerError) == "invalid_grant"
        return isInvalidGrant || error.isOfAnotherUser
    }

    func backOff(_ error: AuthError, _ account: AccountID) {
        let (now, random) = (client.host.now(), client.host.randomBytes(1).first ?? 0)
        state.withLock { $0.machine.failed(account, error, at: now, random: random) }
    }

    /// Sends a refresh, and records whether the provider has responded.
    private func asking<Return: Sendable>(
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
            // Several sessions of one user count as one.
            let user = account.subject.map { Array($0.utf8) } ?? digest
            outage.use { $0.failed(user, error, since: began, at: now, random: random) }
            throw error
        }
    }

    /// The error to throw to a caller during the backoff.
    func wait(for account: AccountID) -> AuthError? {
        let now = client.host.now()
        return state.withLock { $0.machine.wait(for: account, at: now) }
    }

    /// Like ``wait(for:)``, but also takes an outage of the provider into account.
    func waitToRefresh(_ account: AccountID) -> AuthError? {
        let now = client.host.now()
        return wait(for: account) ?? outage.use { $0.ask(at: now) }
    }

    /// Counts rejections other than `invalid_grant`: some providers end a session with an empty 400 response. If the
    /// access token has expired and the rejection is repeated, the user must sign in again. The credential remains
    /// stored, because it is not known to be invalid.
    private func repeatedRefusal(
        of credential: Credential,
        _ error: AuthError,
        in accounts: inout StoredAccounts,
        _ lease: Lease,
        _ epoch: Int
    ) async -> AuthError? {
        // RFC 6749 section 5.2: these are errors of the client or the request, which a new sign-in does not fix.
        let faults = [
            "invalid_client", "invalid_request", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
            "invalid_dpop_proof", "use_dpop_nonce",
        ]
        let name = client.adapter.standardName(of: error.providerError) ?? ""
        let isFault = error.code == .providerRejected && faults.contains(name)
        guard error.status == 400 || error.status == 401, !isFault, credential.isExpired(at: client.host.now()) else {
            return nil
        }
        var counted = credential
        counted.refusedRefreshes = min(credential.refusedRefreshes + 1, Self.toleratedRefusals)
        if counted != credential { await save(counted, in: &accounts, lease, epoch) }
        guard counted.refusedRefreshes >= Self.toleratedRefusals else { return nil }
        publish(.expired, of: credential.account)
        return AuthError(
            .loginRequired,
            "The access token of \(credential.displayName) has expired, and the provider rejects its refresh (status \(error.status ?? 0)) without giving a reason. Sign in again.",
            providerError: error.providerError,
            status: error.status,
            underlyingError: error
        )
    }

    /// Replaces the credential with a record of the session's end and its reason.
    func endSession(
        of credential: Credential,
        _ error: AuthError,
        in accounts: inout StoredAccounts,
        _ lease: Lease,
        _ epoch: Int
    ) async throws -> AuthError {
        let words =
            error.isOfAnotherUser
            ? "it issued tokens of another user" : error.providerError.map { "\($0)" } ?? "invalid_grant"
        let reason = await (client.adapter as? any SharedSignIn)?
            .reasonForEnd(of: credential, in: client.providerContext)
        let session = EndedSession(
            identity: credential.identity,
            reason: reason.map { "\($0); \(words)" } ?? words,
            endedAt: client.host.wholeSecond,
            isAfterUnfinishedRefresh: lease.isAfterUnfinished,
            account: credential.account
        )
        accounts.set(.ended(session), isCurrent: false)
        let reporter = reporter()
        do {
            try await reporter.step(.storing) { [accounts] in try await write(accounts, lease, epoch) }
        } catch let error as AuthError where error.isOfLostLease {
            // Another holder has taken over while this process was paused, and may have refreshed: its credential takes precedence.
            reportLostLease()
            throw Outdated()
        } catch {
            // The next process will send the refresh again and get the same response.
        }
        state.withLock { $0.machine.ended(credential.account, epoch) }
        publish(.ended(session), of: credential.account)
        let circumstance = session.isAfterUnfinishedRefresh ? ["after": "unfinished refresh"] : [:]
        let code = error.isOfAnotherUser ? "another_user" : error.providerError?.publicCode ?? "invalid_grant"
        reporter.report(.sessionEnd, details: ["reason": code].merging(circumstance) { $1 })
        // In the background, because the lease is still held here. Tokens of another user do not show that the provider
        // has ended this user's grant, whose tokens are no longer stored. An adapter's revocation could end other grants.
        if error.isOfAnotherUser {
            _ = revocations.begin { [client] in
                try await reporter.step(.revocation) {
                    try await client.revoke(credential.revocableTokens(at: client.host.now()))
                }
            }
        }
        if let onEnd { _ = revocations.begin { [key] in await onEnd(key, credential) } }
        return session.error(after: error)
    }
}

extension EndedSession {
    /// The error for a caller that requests the tokens of the session.
    var error: AuthError { error(after: nil) }

    fileprivate func error(after cause: AuthError?) -> AuthError {
        AuthError(
            .loginRequired,
            "The session of \(identity?.displayName ?? "an unknown user") was ended by the provider (\(DisplayText.sanitized(reason))). Sign in again.",
            providerError: cause?.providerError,
            underlyingError: cause
        )
    }
}
