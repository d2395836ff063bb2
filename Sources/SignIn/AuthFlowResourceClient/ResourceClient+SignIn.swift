import AuthFlowCredentials
import AuthFlowEssentials
public import AuthFlowOAuth
import AuthFlowSignIn
import AuthFlowStorage
import Synchronization

extension ResourceClient {
    /// Signs in, whether or not a user is already signed in.
    /// - Parameter challenge: The resource's challenge; default: its challenge to a request without a token.
    /// - Returns: The credential.
    /// - Throws: ``AuthError``: `discovery_failed` when the resource does not name its authorization server,
    ///   `unsupported` when a sign-in there would be unsafe or impossible, and every error that
    ///   ``AuthClient/signIn(_:options:)`` throws.
    @discardableResult
    public func signIn(to challenge: ResourceChallenge? = nil) async throws -> Credential {
        var challenge = challenge
        if challenge == nil { challenge = try await requestChallenge() }
        try await signIn(to: challenge, for: .user)
        // The sign-in has succeeded, but other processes cannot use it.
        if let error = state.withLock({ $0.storageError }) {
            guard hasUnfinishedWork, await drain() else { throw error }
        }
        return try await freshCredential()
    }

    /// Like ``AuthClient/resume(with:)-(String)``, for a sign-in to the resource.
    @discardableResult
    public func resume(with url: String) -> Bool {
        state.withLock { $0.clients }.contains { $0.resume(with: url) }
    }

    /// The resource's challenge to a request without a token.
    func requestChallenge() async throws -> ResourceChallenge? {
        let request = TransportRequest(
            .get,
            address,
            headerFields: [.accept: "*/*"],
            timeout: .seconds(15),
            maximumResponseSize: 1 << 20
        )
        // Streaming servers may respond to an accepted GET with headers only, or not at all.
        guard let response = try? await transport.send(request) else { return nil }
        if let challenge = ResourceChallenge(response) { return challenge }
        guard [400, 404, 405, 406, 415].contains(response.status) else { return nil }
        // A JSON-RPC server may support only POST. A `ping` has no effect.
        let ping = TransportRequest(
            .post,
            address,
            headerFields: [.accept: "application/json, text/event-stream", .contentType: "application/json"],
            body: Array(#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.utf8),
            timeout: .seconds(15)
        )
        return (try? await transport.send(ping)).flatMap { ResourceChallenge($0) }
    }

    /// Signs in for a request: once for all requests of this process, even if some of them are cancelled in the meantime. A user who takes
    /// longer than the timeout of a request is not interrupted.
    /// - Returns: Whether this request started the sign-in. The sign-in of another request may have requested other scopes.
    func joinSignIn(to challenge: ResourceChallenge, rejected: Credential?) async throws -> Bool {
        let (task, isOwn) = state.withLock { state -> (SharedTask<Void>, Bool) in
            if let running = state.signIn { return (running, false) }
            let task = SharedTask { [self] in
                defer { self.state.withLock { $0.signIn = nil } }
                try await signIn(to: challenge, for: .request(rejected: rejected))
            }
            state.signIn = task
            return (task, true)
        }
        try await task.value()
        return isOwn
    }

    /// Signs in, unless another process has done so since the need for a sign-in arose.
    private func signIn(to challenge: ResourceChallenge?, for cause: SignInHistory.Cause) async throws {
        let began = host.now()
        let found = try await find(challenge)
        var challenge = challenge
        // Authentication that the user requests takes precedence over the challenge to a request without a token.
        if case .user = cause, let demand = challenge?.authentication {
            let wanted = RequiredAuthentication(acrValues: options.acrValues, maxAge: options.maxAge)
            challenge?.authentication = wanted.adding(demand)
        }
        let finish = began + options.timeout.seconds
        while true {
            let hasLock = Atomic(false)
            do {
                return try await store.withLease(on: signInLockKey) { lease in
                    hasLock.store(true, ordering: .relaxed)
                    // Another process may have requested more scopes in the meantime, which must not be lost.
                    _ = try await known(reading: true)
                    let scopes = try await scopes(for: challenge, found)
                    let isDone =
                        switch cause {
                        case .user: try await hasSignIn(since: began, with: scopes, for: challenge)
                        case .request(let rejected): try await hasNewer(than: rejected, with: scopes, for: challenge)
                        }
                    if isDone { return }
                    let history = try await history()
                    try history.requireStart(for: cause, since: began, limits, address: address)
                    let pages = Mutex((history: history, wereShown: false))
                    func end(_ error: (any Error)?) async {
                        let (history, wasShown) = pages.withLock { $0 }
                        let after = history.recordingOutcome(for: cause, error, wasShown: wasShown, at: host.now())
                        try? await store.write(try after?.bytes, under: lease)
                    }
                    do {
                        try await signIn(found, challenge, scopes, cause) { [self] in
                            let history = pages.withLock { $0.history }
                            if let counted = try history.recordingPage(
                                for: cause,
                                at: host.now(),
                                limits,
                                address: address
                            ) {
                                try await write(counted, under: lease)
                                pages.withLock { $0.history = counted }
                            }
                            // While this process was paused, another process may have opened a page.
                            do { try lease.requireRemainingTime() } catch { throw LostSignInLock() }
                            pages.withLock { $0.wereShown = true }
                        }
                    } catch {
                        // Another request or process signs in instead, so this is not a failure.
                        await end(error is LostSignInLock ? CancellationError() : error)
                        throw error
                    }
                    await end(nil)
                }
            } catch is LostSignInLock {
                guard host.now() < finish else { throw Lease.lost }
            } catch let error as AuthError
                where error.code == .leaseBusy && !hasLock.load(ordering: .relaxed) && host.now() < finish
            {
                continue
            }
        }
    }

    /// The lease for opening a page was lost before a page was opened.
    private struct LostSignInLock: Error {}

    /// - Throws: ``LostSignInLock``, or any other error from the store.
    private func write(_ history: SignInHistory, under lease: Lease) async throws {
        do {
            try await store.write(try history.bytes, under: lease)
        } catch let error as AuthError where error.code == .leaseLost {
            throw LostSignInLock()
        }
    }

    private func history() async throws -> SignInHistory {
        let bytes: [UInt8]?
        do {
            bytes = try await store.bytes(for: signInLockKey)
        } catch let error as AuthError where error.code == .credentialUnusable {
            // No sign-out removes the history. One that cannot be decrypted is empty, like a damaged one.
            bytes = nil
        }
        return SignInHistory(bytes, at: host.now())
    }

    private var limits: SignInHistory.Limits {
        SignInHistory.Limits(
            pagesPerHour: methods.withoutUser == nil ? options.pagesPerHour : nil,
            cooldown: options.cooldownAfterFailure
        )
    }

    private var signInLockKey: RecordKey {
        RecordKey(name: recordName, issuer: "", clientID: "", kind: .signInLock)
    }

    /// Whether another request or process has obtained a usable token in the meantime.
    private func hasNewer(
        than rejected: Credential?,
        with scopes: [String],
        for challenge: ResourceChallenge?
    ) async throws -> Bool {
        guard let known = try await known(), isUsableHere(known), Set(known.scopes).isSuperset(of: scopes),
            let client = try await client(of: known)
        else { return false }
        // Without a user, a fresh token would be obtained by the same token request that this sign-in is about to send.
        let credential =
            methods.withoutUser == nil ? try await usableCredential(of: client) : try? await client.credential()
        let isRequested =
            challenge.map { $0.demand != .authentication || known.authentication.covers($0.authentication) } ?? true
        return credential.map { isRequested && Self.mayBeAccepted($0, after: rejected, for: challenge) } ?? false
    }

    /// Whether the resource may accept a credential although it rejected a previous credential. A refreshed token is not evidence of a more
    /// recent user authentication.
    private static func mayBeAccepted(
        _ credential: Credential,
        after rejected: Credential?,
        for challenge: ResourceChallenge?
    ) -> Bool {
        guard let rejected else { return true }
        guard challenge?.demand != .authentication else { return credential.signedInAt != rejected.signedInAt }
        return credential.tokens.accessToken != rejected.tokens.accessToken
    }

    /// Whether another process has signed in since the given date. If so, a user who has requested a page need not sign in again.
    private func hasSignIn(
        since date: Date,
        with scopes: [String],
        for challenge: ResourceChallenge?
    ) async throws -> Bool {
        // The challenge already contains the options' authentication.
        let wanted =
            challenge?.authentication
            ?? RequiredAuthentication(acrValues: options.acrValues, maxAge: options.maxAge)
        guard let known = try await known(), isUsableHere(known), Set(known.scopes).isSuperset(of: scopes),
            known.authentication.covers(wanted),
            let credential = try? await client(of: known)?.credential()
        else { return false }
        return credential.signedInAt > date
    }

    private func usableCredential(of client: AuthClient) async throws -> Credential? {
        do {
            return try await client.freshCredential(lasting: .zero)
        } catch let error as AuthError where error.code == .loginRequired || error.code == .credentialUnusable {
            return nil
        } catch let error as AuthError where Self.isUnknownClient(error.providerError?.error) {
            return nil
        }
    }

    // MARK: Shared failures

    /// Delays the next sign-in page in every process, so that a user whose sign-in has just
    /// failed is not prompted again immediately. Non-interactive methods are not delayed, because they show no
    /// page.
    func startCooldown(after error: AuthError) async {
        guard options.cooldownAfterFailure > .zero, methods.withoutUser == nil else { return }
        try? await store.withLease(on: signInLockKey) { lease in
            let history = try await history().rejected(with: error, at: host.now())
            try await store.write(try history.bytes, under: lease)
        }
    }

    // MARK: One sign-in

    /// Signs in. If the authorization server rejects scopes that only the resource's metadata lists, the sign-in is repeated once without them.
    private func signIn(
        _ found: FoundServer,
        _ challenge: ResourceChallenge?,
        _ scopes: [String],
        _ cause: SignInHistory.Cause,
        _ willShow: @escaping @Sendable () async throws -> Void
    ) async throws {
        do {
            try await signIn(found, challenge, scopes, rejected: [], cause, willShow)
        } catch let error as AuthError
            where error.code == .providerRejected && error.providerError?.error == "invalid_scope"
        {
            let rejected = try await unlistedScopes(among: scopes, for: challenge, found)
            let rest = scopes.filter { !rejected.contains($0) }
            guard !rejected.isEmpty, rest.contains(where: { $0 != "offline_access" }) else { throw error }
            try await signIn(found, challenge, rest, rejected: rejected, cause, willShow)
        }
    }

    private func signIn(
        _ found: FoundServer,
        _ challenge: ResourceChallenge?,
        _ scopes: [String],
        rejected: [String],
        _ cause: SignInHistory.Cause,
        _ willShow: @escaping @Sendable () async throws -> Void
    ) async throws {
        let usesDPoP = usesDPoP(challenge, found)
        if !usesDPoP { try requireBearerInHeader(challenge, found) }
        var identified = try await identify(found, scopes: scopes, usesDPoP: usesDPoP, isForSignIn: true)
        if let before = try await self.known(), before.resource == found.resource, before.issuer == identified.issuer {
            identified.rejectedScopes = before.rejectedScopes.filter { !scopes.contains($0) }
        }
        identified.rejectedScopes += rejected
        let known = identified
        guard let client = try await client(of: known) else {
            throw AuthError(.storageFailed, "The registration with \(known.issuer) was not stored.")
        }
        // If a process was killed after it had stored a token but before it recorded the success, the record still contains the
        // sign-in of that process. Tokens without a sign-in in the record are left over from a sign-out, and are not used.
        if methods.withoutUser == nil, case .request(let rejected) = cause, found.metadata?.fit != .prefix,
            let signedInAt = try? await client.credential()?.signedInAt,
            let recorded = try await record().names(known, signedInAt: signedInAt),
            let stored = try? await client.freshCredential(lasting: .zero), stored.signedInAt == signedInAt,
            Self.mayBeAccepted(stored, after: rejected, for: challenge),
            Set(stored.tokens.scopes).isSuperset(of: scopes)
        {
            var resumed = known
            resumed.authentication = recorded.signIn.authentication
            return try await save(resumed, finishing: recorded.id)
        }
        guard known.identification == .dynamic else { return try await signIn(known, client, challenge, willShow) }
        // Checked before the client is registered again.
        _ = try methods.requireLast()
        if try await isUnregistered(known, client) {
            return try await signInWithNewRegistration(known, found, challenge, isUnregistered: true, willShow)
        }
        do {
            try await signIn(known, client, challenge, willShow)
        } catch let error as AuthError {
            guard try await mayNeedNewRegistration(error, known) else { throw error }
            let isUnregistered = ["invalid_client", "unauthorized_client"].contains(error.providerError?.error)
            try await signInWithNewRegistration(
                known,
                found,
                challenge,
                isUnregistered: isUnregistered,
                rejection: error.providerError?.error == "invalid_scope" ? error : nil,
                portAttempts: error.code == .portBusy ? 3 : 0,
                willShow
            )
        }
    }

    private func signIn(
        _ known: KnownResource,
        _ client: AuthClient,
        _ challenge: ResourceChallenge?,
        by registration: StoredRegistration? = nil,
        _ willShow: @escaping @Sendable () async throws -> Void
    ) async throws {
        var request = AuthorizationOptions(scopes: known.scopes, resources: [known.resource])
        let acrValues = challenge.map(\.acrValues).flatMap { $0.isEmpty ? nil : $0 } ?? options.acrValues
        let maxAge = challenge?.maxAge.map { .seconds($0) } ?? options.maxAge
        var known = known
        known.authentication = RequiredAuthentication(acrValues: acrValues, maxAge: maxAge)
        if methods.withoutUser == nil {
            (request.acrValues, request.maxAge) = (acrValues, maxAge)
            // A client with a client ID metadata document is the same client at every server, so consent for another server, resource or set of
            // scopes does not cover this request.
            if known.identification == .metadataDocument {
                let before = try await self.known()
                let isCovered =
                    before.map {
                        $0.identification == .metadataDocument && $0.clientID.isIdentical(to: known.clientID)
                            && $0.issuer.isIdentical(to: known.issuer) && $0.resource.isIdentical(to: known.resource)
                            && Set($0.scopes).isSuperset(of: known.scopes)
                    } ?? false
                if !isCovered { request.prompt = .consent }
            }
            let details = [
                "issuer": known.issuer, "resource": Redaction.url(known.resource),
                "scopes": known.scopes.joined(separator: " "),
            ]
            FlowReporter(host: host, observer: observer).report(.authorizationRequest, details: details)
        }
        // Recorded first, so that a sign-out finds the tokens even if this process is killed before it has recorded that
        // the sign-in succeeded. The requests and the store may take longer than the user.
        let unfinished = ResourceRecord.Unfinished(
            id: Base64URL.encode(host.randomBytes(9)),
            signIn: known,
            start: host.wholeSecond,
            end: host.now() + methods.maximumWait(options.timeout).seconds + 300
        )
        do {
            await finishPendingSignIns()
            let record = try await changeRecord { $0.begin(unfinished, at: host.now()) }
            let pending = PendingSignIn(
                unfinished: unfinished,
                client: client,
                registration: registration,
                previous: record
            )
            state.withLock { $0.pendingSignIns = ($0.pendingSignIns + [pending]).suffix(16) }
            await list()
        } catch {
            // A machine-to-machine client shows no page, and can work without the store.
            guard methods.withoutUser != nil else { throw error }
        }
        let signIn: SignIn
        do {
            defer {
                state.withLock { state in
                    let index = state.pendingSignIns.firstIndex { $0.unfinished.id == unfinished.id }
                    if let index { state.pendingSignIns[index].hasEnded = true }
                }
            }
            signIn = try await client.signIn(
                .replaceAccount,
                options: request,
                usesSharedSessions: true,
                willShow: willShow
            )
        } catch {
            await finishPendingSignIns()
            throw error
        }
        var storageError = signIn.storageError
        do {
            if let registration { try await registrations.save(registration, for: redirectURI) }
            let isStored = storageError == nil
            try await save(known, finishing: unfinished.id, isStored: isStored)
            state.withLock { state in
                guard let index = state.pendingSignIns.firstIndex(where: { $0.unfinished.id == unfinished.id }) else {
                    return
                }
                if isStored {
                    state.pendingSignIns.remove(at: index)
                } else {
                    (state.pendingSignIns[index].registration, state.pendingSignIns[index].isUnsaved) = (nil, true)
                }
            }
            await signOutOthers()
        } catch let error as AuthError {
            // The sign-in is valid, but only in this process.
            state.withLock { ($0.known, $0.isLoaded) = (known, true) }
            storageError = storageError ?? error
        }
        state.withLock { state in
            state.client = (cacheKey(known), client)
            state.add(client)
            state.storageError = storageError
        }
    }

    /// Registers the client again, and signs in with the new registration. A registration
    /// that the server still recognizes is not replaced until that sign-in has succeeded, unless all its ports are in use.
    /// - Parameters:
    ///   - rejection: The error of a request with scopes that the old registration may lack; nil if the new registration is required for another
    ///     reason.
    ///   - portAttempts: The maximum number of registrations to try while the ports of each registration are in use; 0 if the new registration
    ///     is required for another reason.
    /// - Throws: `rejection` when the server rejects a registration with the scopes, too.
    private func signInWithNewRegistration(
        _ old: KnownResource,
        _ found: FoundServer,
        _ challenge: ResourceChallenge?,
        isUnregistered: Bool,
        rejection: AuthError? = nil,
        portAttempts: Int = 0,
        _ willShow: @escaping @Sendable () async throws -> Void
    ) async throws {
        let made: StoredRegistration
        if portAttempts > 0 {
            // Other sign-ins use all ports of the registration. One of the waiting sign-ins registers more ports for all of them.
            made = try await registrations.registration(at: old.issuer, for: redirectURI) {
                !$0.clientID.isIdentical(to: old.clientID) && $0.isUsable(at: host.now())
                    && ($0.scopes.isEmpty || Set($0.scopes).isSuperset(of: old.scopes))
            } orElse: {
                try await register(found, scopes: old.scopes)
            }
        } else if let rejection {
            do {
                // A registration without the scopes would not help, and would remain at the server.
                made = try await register(found, scopes: old.scopes, mayOmitScopes: false)
            } catch let error as AuthError where error.code == .providerRejected {
                throw rejection
            }
        } else {
            made = try await register(found, scopes: old.scopes)
        }
        var known = old
        known.clientID = made.clientID
        guard let client = try await makeClient(known, made) else {
            throw AuthError(.storageFailed, "The registration with \(known.issuer) could not be used.")
        }
        state.withLock { $0.add(client) }
        // An unrecognized registration is useless, and is replaced immediately, so that an unfinished sign-in does not cause yet another
        // registration.
        if isUnregistered {
            try await registrations.save(made, for: redirectURI)
            await removeUnusedRegistrations(of: [old])
        }
        do {
            try await signIn(known, client, challenge, by: isUnregistered || portAttempts > 0 ? nil : made, willShow)
        } catch let error as AuthError where error.code == .portBusy && portAttempts > 1 {
            return try await signInWithNewRegistration(
                known,
                found,
                challenge,
                isUnregistered: false,
                portAttempts: portAttempts - 1,
                willShow
            )
        }
        if portAttempts > 0 { await removeUnusedRegistrations(of: [old]) }
    }

    /// Whether a new registration may help: the server does not recognize the client
    /// or did not register these scopes, or none of the registered ports is free.
    private func mayNeedNewRegistration(_ error: AuthError, _ known: KnownResource) async throws -> Bool {
        let stored = try await registrations.registration(at: known.issuer, for: redirectURI, clientID: known.clientID)
        switch (error.code, error.providerError?.error) {
        case (.portBusy, _):
            return options.redirectURIs.contains { if case .loopback(_, nil, _) = $0.kind { true } else { false } }
        case (.providerRejected, "invalid_scope"):
            return stored.map { !Set($0.scopes).isSuperset(of: known.scopes) } ?? false
        case (.providerRejected, "invalid_client"), (.providerRejected, "unauthorized_client"),
            (.providerRejected, "invalid_redirect_uri"):
            return stored.map { !$0.isNew(at: host.now(), for: 5) } ?? true
        default: return false
        }
    }
}
