import AuthFlowEssentials
package import AuthFlowOAuth
import AuthFlowStorage
import Synchronization

extension Credential {
    /// A copy of this credential with the stored token for one resource of the grant; nil if there is no such token.
    func tokens(for resource: String, _ scopes: [String]?) -> Credential? {
        resourceTokens.first { $0.matches(resource, scopes) }.map(using)
    }

    /// Whether the main token is the only token for a resource: the resource is the grant's only resource, and there is no
    /// refresh token to exchange.
    func isOnlyToken(for resource: String, _ scopes: [String]?) -> Bool {
        tokens.refreshToken == nil && scopes == nil && resources.count == 1 && resources[0].isIdentical(to: resource)
    }

    /// A copy of this credential with the token for one resource and without the refresh token.
    func using(_ token: ResourceToken) -> Credential {
        var tokens = TokenSet(
            accessToken: token.accessToken,
            tokenType: token.tokenType,
            expiresAt: token.expiresAt,
            scopes: token.scopes
        )
        tokens.dpopKey = self.tokens.dpopKey
        return Credential(tokens: tokens, identity: identity, signedInAt: signedInAt, obtainedAt: token.obtainedAt)
    }

    /// Replaces the token for one resource, and removes expired tokens.
    mutating func setResourceToken(_ token: ResourceToken, at now: Date) {
        resourceTokens.removeAll { $0.expiresAt.map { $0 <= now } ?? false }
        resourceTokens.removeAll { $0.matches(token.resource, token.requestedScopes) }
        resourceTokens.append(token)
        if resourceTokens.count > ResourceToken.limit {
            resourceTokens.removeFirst(resourceTokens.count - ResourceToken.limit)
        }
    }
}

extension ManagedCredential {
    /// Tokens for one resource of the grant, with a fresh access token: the stored tokens, or the result of exchanging the grant's
    /// refresh token. The grant's main access token does not change.
    /// - Parameters:
    ///   - resource: One of the resources that were requested at sign-in.
    ///   - scopes: A subset of the granted scopes; nil for all granted scopes.
    ///   - rejected: An access token that the resource has rejected.
    ///   - margin: The remaining lifetime below which the access token is treated as expired; at least the manager's margin, which is the default.
    package func tokens(
        for resource: String,
        scopes: [String]?,
        rejected: Secret? = nil,
        margin: Duration? = nil
    ) async throws -> TokenSet {
        for _ in 0..<3 {
            do {
                return try await currentTokens(for: resource, scopes: scopes, rejected: rejected, margin: margin)
            } catch is Outdated {
                // Another user has signed in, or another process has taken over the lease, so the store is
                // read again.
                continue
            }
        }
        throw Lease.lost
    }

    private func currentTokens(
        for resource: String,
        scopes: [String]?,
        rejected: Secret?,
        margin: Duration?
    ) async throws -> TokenSet {
        let margin = max(margin ?? .zero, freshnessMargin)
        @Sendable func fresh(_ credential: Credential) -> TokenSet? {
            let now = client.host.now()
            let stored = credential.tokens(for: resource, scopes).flatMap {
                $0.isFresh(at: now, margin: margin) ? $0 : nil
            }
            // The token cannot be replaced, so it is used until it expires.
            let only =
                credential.isOnlyToken(for: resource, scopes) && !credential.isExpired(at: now) ? credential : nil
            guard let tokens = (stored ?? only)?.tokens, tokens.accessToken != rejected else { return nil }
            return tokens
        }
        /// A token that is no longer fresh but has not expired, for a caller whose request has failed.
        @Sendable func unexpired(_ credential: Credential) -> TokenSet? {
            guard let token = credential.tokens(for: resource, scopes),
                token.isFresh(at: client.host.now(), margin: .zero), token.tokens.accessToken != rejected
            else { return nil }
            return token.tokens
        }
        if let known = checkedCredential(), let tokens = fresh(known) { return tokens }
        let stored: StoredAccounts
        do {
            stored = try await self.accounts()
        } catch {
            try Task.checkCancellation()
            // As for the main token, a failed read does not mean that the tokens were removed.
            guard let known = cachedCredential, let tokens = fresh(known) ?? unexpired(known) else { throw error }
            return tokens
        }
        if let tokens = fresh(try signedIn(in: stored)) { return tokens }
        do {
            return try await unfinished.finish { [self] in
                // This object must remain in memory even if the caller is cancelled.
                beginUse()
                return try await withUse {
                    try await withRefreshLease { lease in
                        var (accounts, basis) = try await latestAccounts(lease)
                        let credential = try signedIn(in: accounts)
                        // Another task or process may have obtained the token in the meantime.
                        if let tokens = fresh(credential) { return tokens }
                        do {
                            return try await exchange(credential, for: resource, scopes, in: &accounts, lease, basis)
                        } catch let error as AuthError where error.isTransient || error.code == .storageFailed {
                            // As for the main token, a token that has not expired is used during an outage.
                            guard let tokens = unexpired(credential) else { throw error }
                            return tokens
                        }
                    }
                }
            }
        } catch let error as AuthError where [.leaseBusy, .storageFailed].contains(error.code) {
            // Likewise if another process holds the lease, for example because the provider does not respond to that process, or if the store
            // cannot be written.
            let known =
                error.code == .leaseBusy
                ? try await lastCredential() : try signedIn(in: (try? await accounts()) ?? stored)
            guard let tokens = unexpired(known) else { throw error }
            return tokens
        }
    }

    private func exchange(
        _ credential: Credential,
        for resource: String,
        _ scopes: [String]?,
        in accounts: inout StoredAccounts,
        _ lease: Lease,
        _ basis: CredentialMachine.Basis
    ) async throws -> TokenSet {
        guard credential.resources.contains(where: { $0.isIdentical(to: resource) }) else {
            throw AuthError(
                .invalidConfiguration,
                "The resource \(Redaction.url(resource)) was not requested at sign-in. Add it to \"resources\" if it is missing there, and sign in again."
            )
        }
        let request = ResourceRequest(resource: resource, scopes: scopes.map(Set.init))
        let subject = Backoffs.Subject(credential, request)
        if let backoffError = refreshBackoffError(subject) { throw backoffError }
        do {
            try await reserveSpace(for: accounts, lease)
        } catch {
            outage.use { $0.notSent(at: client.host.now()) }
            throw error
        }
        try unfinished.beginSending()
        defer { unfinished.endSending() }
        var decisions = decisions(for: credential.account.subject, freshnessMargin, nil)
        decisions.resource = request
        let outcome: RefreshOutcome
        do {
            outcome = try await reporter().step(.refresh) {
                try await refresh(credential, scopes: scopes, resources: [resource], in: &accounts, lease, basis)
            }
        } catch let error as AuthError where error.code != .loginRequired {
            if isEnd(error) { throw try await endSession(of: credential, error, in: &accounts, lease, basis) }
            let name = client.adapter.standardName(of: error.providerError)
            if decisions.mayIndicateSessionEnd(error, named: name, for: credential, at: client.host.now()) {
                var main = self.decisions(for: credential.account.subject, freshnessMargin, nil)
                main.isConfirmation = true
                // The backoff starts first, so that the rejected request is not retried even if the next request fails.
                backOff(error, subject)
                _ = try await send(main, credential, in: &accounts, lease, basis)
                throw error
            }
            let consequence = decisions.consequence(of: error, named: name, for: credential, at: client.host.now())
            _ = try await perform(consequence, for: subject, in: &accounts, lease, basis)
            throw error
        }
        var updated = credential
        updated.hasUncheckedUser = outcome.credential.hasUncheckedUser
        updated.tokens.refreshToken = outcome.credential.tokens.refreshToken
        updated.tokens.deviceSecret = outcome.credential.tokens.deviceSecret
        share(updated, replacing: credential)
        let refreshed: Credential
        switch outcome {
        case .refreshed(let credential): refreshed = credential
        case .unchecked(_, let error), .rejected(_, let error):
            // A failed check affects only this resource; a failure to fetch the keys affects every resource.
            backOff(error, error.isTransient ? subject.allRequests : subject)
            await save(updated, in: &accounts, lease, basis)
            throw error
        }
        state.withLock { $0.machine.succeeded(subject) }
        updated.rejectedRefreshes = 0
        let token = ResourceToken(refreshed, resource: resource, requestedScopes: scopes)
        updated.setResourceToken(token, at: client.host.now())
        // The refresh token takes precedence: access tokens that do not fit in the record are dropped and requested
        // again later.
        while !updated.hasStorableSize, !updated.resourceTokens.isEmpty { updated.resourceTokens.removeFirst() }
        await save(updated, in: &accounts, lease, basis)
        adopt(updated, basis.epoch)
        guard isCurrent(basis.epoch) else { throw Outdated() }
        return updated.using(token).tokens
    }
}
