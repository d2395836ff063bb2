import AuthFlow
import AuthFlowEssentials

// MARK: - The sessions of a user

extension SessionServer {
    /// Returns the sessions of a session's user, newest first.
    /// - Throws: ``/AuthFlow/AuthError`` with `storage_failed`.
    public func sessions(ofUserOf session: Session) async throws -> [SessionSummary] {
        guard let identity = session.identity else {
            return [
                SessionSummary(
                    name: session.name,
                    signedInAt: session.signedInAt,
                    lastUse: session.signedInAt,
                    isCurrent: true
                )
            ]
        }
        let provider = try self.sessions(of: session)
        return try await sessions(ofUser: identity.subject, identity.issuer, at: provider).compactMap { found in
            found.credential.map {
                SessionSummary(
                    name: found.key.name,
                    signedInAt: $0.signedInAt,
                    lastUse: found.lastUse,
                    isCurrent: found.key.name == session.name
                )
            }
        }.sorted { $0.signedInAt > $1.signedInAt }
    }

    /// Ends all or some of a user's sessions, in every process, and revokes their tokens. The operation completes even if the task is cancelled; an
    /// event reports its failure.
    /// - Parameters:
    ///   - session: The session of the requesting user. Sessions of other users are not ended.
    ///   - names: The names of the sessions to end; nil for all sessions of the user, including this one ("sign out
    ///     everywhere").
    /// - Throws: ``/AuthFlow/AuthError`` with `storage_failed`.
    public func endSessions(ofUserOf session: Session, named names: [String]? = nil) async throws {
        let provider = try self.sessions(of: session)
        // The lookups are not cancelled, either: the user has requested the end of the sessions.
        try await complete(at: provider) { [self] in
            let own = provider.recordKey(session.identifier)
            var targets: [RecordKey: Credential?] = [:]
            if let stored = try await provider.credentials.stored(own) { targets[own] = .some(stored.credential) }
            if let identity = session.identity {
                for found in try await sessionsToEnd(ofUser: identity.subject, identity.issuer, at: provider) {
                    targets[found.key] = .some(found.credential)
                }
            }
            if let names { targets = targets.filter { names.contains($0.key.name) } }
            try await end(targets, at: provider, .signedOut, last: own)
        }
    }

    /// Ends sessions in every process, and revokes their tokens. The operation completes even if the task is cancelled, because a user who signs
    /// out and closes the page must be signed out.
    /// - Parameters:
    ///   - targets: The sessions, with their credentials if this process can read them.
    ///   - last: The session to end last, so that the user can retry with it.
    ///   - isRevoked: Whether to revoke the tokens of a credential.
    func end(
        _ targets: [RecordKey: Credential?],
        at provider: ProviderSessions,
        _ reason: SessionEnd.Reason,
        last: RecordKey? = nil,
        revoking isRevoked: @escaping @Sendable (Credential) -> Bool = { _ in true }
    ) async throws {
        let keys = targets.keys.filter { $0 != last } + (last.map { targets.keys.contains($0) ? [$0] : [] } ?? [])
        try await provider.credentials.unfinished.begin { [self] in
            // A session that this process cannot read may have a refresh in progress in another process.
            try await provider.credentials.revokeLateTokens(of: keys.filter { targets[$0]?.map(isRevoked) ?? true })
            var ended = targets
            // The tokens are revoked even if the database's response was lost or only some sessions were removed, because
            // the caller requested the end of all of them.
            defer { revoke(ended.values.compactMap { $0 }.filter(isRevoked), at: provider) }
            // A refresh may have changed the credentials after they were read.
            let removed = try await provider.credentials.remove(keys)
            for removed in removed where removed.credential != nil { ended[removed.key] = .some(removed.credential) }
            reportEnds(removed, at: provider, reason)
        }.value()
    }

    /// Removes sessions that were replaced or exceed the limit, even if the task is cancelled, and reports their ends.
    /// - Parameter isRevoked: Whether to revoke the tokens of a credential.
    /// - Returns: The removed sessions.
    @discardableResult
    func remove(
        _ keys: [RecordKey],
        at provider: ProviderSessions,
        _ reason: SessionEnd.Reason,
        revoking isRevoked: @escaping @Sendable (Credential) -> Bool = { _ in false }
    ) async throws -> [TaggedCredential] {
        try await provider.credentials.unfinished.begin { [self] in
            let removed = try await provider.credentials.remove(keys)
            revoke(removed.compactMap(\.credential).filter(isRevoked), at: provider)
            reportEnds(removed, at: provider, reason)
            return removed
        }.value()
    }

    /// Ends sessions that were found by a tag.
    func end(
        _ found: [TaggedCredential],
        at provider: ProviderSessions,
        _ reason: SessionEnd.Reason,
        revoking isRevoked: @escaping @Sendable (Credential) -> Bool
    ) async throws {
        let targets = Dictionary(found.map { ($0.key, $0.credential) }) { first, _ in first }
        try await end(targets, at: provider, reason, revoking: isRevoked)
    }

    /// Notifies the application of the end of sessions, without delaying the response.
    func reportEnds(_ removed: [TaggedCredential], at provider: ProviderSessions, _ reason: SessionEnd.Reason) {
        // If a session has no credential, its end was already reported; if the store did not confirm the removal,
        // another process may have removed it.
        let removed = removed.filter { $0.credential != nil && $0.isRemovalConfirmed }
        guard !removed.isEmpty else { return }
        provider.credentials.beginCleanup { [hooks = options.hooks] in
            for removed in removed {
                let session = KnownSession(name: removed.key.name, provider: provider.name, removed.credential)
                await hooks.onEnd(SessionEnd(session: session, reason: reason))
            }
        }
    }

    /// The tags that index a session by its user and by its session at the provider.
    func tags(of credential: Credential, at provider: ProviderSessions) -> [RecordTag] {
        guard let identity = credential.identity else { return [] }
        let sessionID = credential.authentication?.sessionID
        return [userTag(identity.issuer, identity.subject, at: provider).written]
            + (sessionID.map { [providerSessionTag(identity.issuer, $0, at: provider).written] } ?? [])
    }

    private func userTag(_ issuer: String, _ subject: String, at provider: ProviderSessions) -> HashedTag {
        HashedTag(["sub", provider.client.registration.clientID, issuer, subject], keys: options.tagKeys)
    }

    /// OpenID Connect Back-Channel Logout section 2.4: a `sid` is unique within its issuer.
    private func providerSessionTag(_ issuer: String, _ sessionID: String, at provider: ProviderSessions) -> HashedTag {
        HashedTag(["sid", provider.client.registration.clientID, issuer, sessionID], keys: options.tagKeys)
    }

    /// Finds the sessions of a user.
    func sessions(
        ofUser subject: String,
        _ issuer: String,
        at provider: ProviderSessions
    ) async throws -> [TaggedCredential] {
        try await sessions(tagged: userTag(issuer, subject, at: provider), at: provider)
    }

    /// Finds the sessions of a user, to end them. A session that another process has already ended is not in the store, but is still in this
    /// process's memory if the message about its end was lost, so it is removed from memory before its end is confirmed.
    func sessionsToEnd(
        ofUser subject: String,
        _ issuer: String,
        at provider: ProviderSessions
    ) async throws -> [TaggedCredential] {
        let found = try await sessions(ofUser: subject, issuer, at: provider)
        provider.credentials.evict(except: found) {
            $0.isIssued(by: issuer) && $0.identity?.subject.isIdentical(to: subject) == true
        }
        return found
    }

    /// Finds the sessions that belong to a session at the provider.
    func sessions(
        ofProviderSession name: String,
        _ issuer: String,
        at provider: ProviderSessions
    ) async throws -> [TaggedCredential] {
        try await sessions(tagged: providerSessionTag(issuer, name, at: provider), at: provider)
    }

    /// Finds the sessions to end when a session at the provider ends, like ``sessionsToEnd(ofUser:_:at:)``.
    func sessionsToEnd(
        ofProviderSession name: String,
        _ issuer: String,
        at provider: ProviderSessions
    ) async throws -> [TaggedCredential] {
        let found = try await sessions(ofProviderSession: name, issuer, at: provider)
        provider.credentials.evict(except: found) {
            $0.isIssued(by: issuer) && $0.authentication?.sessionID?.isIdentical(to: name) == true
        }
        return found
    }

    private func sessions(tagged tag: HashedTag, at provider: ProviderSessions) async throws -> [TaggedCredential] {
        var found: [TaggedCredential] = []
        for tag in tag.all { found += try await provider.credentials.credentials(tagged: tag) }
        return found
    }

    /// The maximum number of sessions whose tokens are revoked concurrently.
    private static let concurrentRevocations = 16

    /// Revokes tokens without delaying the response, because the end of the session does not depend on the revocation.
    func revoke(_ removed: [Credential], at provider: ProviderSessions) {
        guard !removed.isEmpty else { return }
        provider.credentials.beginCleanup { [self] in
            await withTaskGroup(of: Bool.self) { group in
                for (number, credential) in removed.enumerated() {
                    // If the provider does not respond, each of the remaining revocations would also time out.
                    if number >= Self.concurrentRevocations, await group.next() == false { return }
                    group.addTask { [self] in await revokeTokens(credential, at: provider) }
                }
            }
        }
    }

    /// Revokes the tokens of one session.
    /// - Returns: Whether the provider responded.
    private func revokeTokens(_ credential: Credential, at provider: ProviderSessions) async -> Bool {
        do {
            try await FlowReporter(host: host, observer: observer).step(.revocation) {
                try await provider.client.revoke(credential)
            }
            return true
        } catch let error as AuthError {
            return !error.hasNoResponse
        } catch {
            return true
        }
    }
}

extension Credential {
    /// Whether the issuer is that of the user. At a multi-tenant server, users and sessions of different tenants may have the same identifier.
    fileprivate func isIssued(by issuer: String) -> Bool { identity?.issuer.isIdentical(to: issuer) == true }
}

// MARK: - Routes

extension SessionServer {
    /// POST /logout: ends this session, or all sessions of the user with `everywhere=1`, and sends the browser to the
    /// provider's end session endpoint, if any.
    func signOut(_ query: String, _ body: [UInt8], _ request: HTTPRequest) async -> TransportResponse {
        guard isFromOwnForm(request) || isFromOwnPage(request) else { return ServerResponse.plain(.forbidden) }
        let cookie = sessionCookie("").removal
        guard let (identifier, provider) = sessionIdentifier(of: request) else {
            return ServerResponse.redirect(to: options.startPath).setting(cookie)
        }
        do {
            // The user may close the page before the store has been read.
            return try await complete(at: provider) { [self] in
                try await signOut(of: identifier, at: provider, query, body, request)
            }
        } catch {
            return options.pages.page(
                .signOutFailed,
                .serviceUnavailable,
                to: request,
                links: { [($0.startLink, options.startPath)] }
            )
        }
    }

    /// Ends sessions even if the current task is cancelled. A failure is reported by the operation itself: if the browser or the provider has closed
    /// its connection, no response indicates that the sessions continue.
    func complete<Value: Sendable>(
        at provider: ProviderSessions,
        _ work: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        try await provider.credentials.unfinished.begin { [self] in
            do {
                return try await work()
            } catch {
                report(.endSession, error)
                throw error
            }
        }.value()
    }

    private func signOut(
        of identifier: Secret,
        at provider: ProviderSessions,
        _ query: String,
        _ body: [UInt8],
        _ request: HTTPRequest
    ) async throws -> TransportResponse {
        let cookie = sessionCookie("").removal
        let key = provider.recordKey(identifier)
        let parameters = [query, String(decoding: body, as: UTF8.self)].map {
            FormURLEncoding.decode($0) ?? FormParameters()
        }
        let isEverywhere = parameters.contains { $0["everywhere"] == "1" }
        // The session is read before anything is written, so that a forged cookie cannot cause writes.
        let stored = try await provider.credentials.stored(key)
        guard let own = stored, own.credential != nil || !isEverywhere else {
            guard isEverywhere else { return ServerResponse.redirect(to: options.startPath).setting(cookie) }
            // A session that this process cannot read may be usable in another process.
            if stored != nil { try await end([key: nil], at: provider, .signedOut, last: key) }
            return options.pages.page(
                .signOutNeedsSession,
                .unauthorized,
                to: request,
                links: failureLinks()
            ).setting(cookie)
        }
        var targets: [RecordKey: Credential?] = [:]
        // The sessions are looked up before any of them is removed, so that the user can retry with this session
        // after a failure.
        if isEverywhere, let identity = own.credential?.identity {
            for found in try await sessionsToEnd(ofUser: identity.subject, identity.issuer, at: provider) {
                targets[found.key] = .some(found.credential)
            }
        }
        targets[key] = .some(own.credential)
        if let credential = own.credential {
            let session = Session(identifier, credential, of: provider)
            // The hook cannot prevent the sign-out.
            try? await options.hooks.run(clock: host.clock) { [hooks = options.hooks] in
                await hooks.onSignOut(session)
            }
        }
        try await self.end(targets, at: provider, .signedOut, last: key)
        var end: EndSessionRequest?
        if let credential = own.credential { end = await endSessionRequest(for: credential, at: provider) }
        return ServerResponse.redirect(to: end?.url ?? options.startPath).setting(cookie)
    }

    /// The request that ends the user's session at the provider; nil if the provider or the client does not support it, or the provider's metadata
    /// is not available.
    private func endSessionRequest(
        for credential: Credential,
        at provider: ProviderSessions
    ) async -> EndSessionRequest? {
        do {
            return try await provider.client.endSessionRequest(for: credential)
        } catch let error as AuthError where error.code == .unsupported {
            return nil
        } catch {
            // The user remains signed in at the provider.
            report(.endSession, error)
            return nil
        }
    }

    /// GET /session: returns information about the signed-in user to a page's script (RFC 10017 section 6.1.2.1).
    func describeSession(_ request: HTTPRequest) async -> TransportResponse {
        guard isFromOwnPage(request) else { return ServerResponse.plain(.forbidden) }
        do {
            // Polling does not count as user activity. The cookie is not removed, because a late response would remove
            // the cookie of a new session.
            guard let session = try await session(of: request, isUse: false) else {
                return ServerResponse.json(.unauthorized, ["signed_in": false])
            }
            var json: [String: JSON] = [
                "signed_in": true, "signed_in_at": .integer(Int64(session.signedInAt.timeIntervalSince1970)),
            ]
            json["sub"] = session.identity.map { .string($0.subject) }
            json["name"] = session.identity.map { .string($0.displayName) }
            json["provider"] = session.provider.isEmpty ? nil : .string(session.provider)
            var claims: [String: JSON] = [:]
            for name in options.sessionClaims { claims[name] = session.identity?.claims[name] }
            if !claims.isEmpty { json["claims"] = .object(claims) }
            return ServerResponse.json(.ok, .object(json))
        } catch {
            report(.storing, error)
            return ServerResponse.json(.serviceUnavailable, ["error": "temporarily_unavailable"])
        }
    }
}
