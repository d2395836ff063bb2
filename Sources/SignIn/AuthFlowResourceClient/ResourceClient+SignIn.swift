import AuthFlowCredentials
import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowJSON
public import AuthFlowOAuth
import AuthFlowSignIn
import AuthFlowStorage
import HTTPTypes
import Synchronization

extension ResourceClient {
    /// Signs in, whether or not a user is signed in already.
    /// - Parameter challenge: What the resource demands; default: what it says to a request without a token.
    /// - Returns: The credential.
    /// - Throws: ``AuthError``: `discovery_failed` when the resource does not say where tokens come from, `unsupported` when a sign-in
    ///   there would not be safe or possible, and everything that ``AuthClient/signIn(_:options:)`` throws.
    @discardableResult
    public func signIn(to challenge: ResourceChallenge? = nil) async throws -> Credential {
        var demand = challenge
        if demand == nil { demand = try await askForChallenge() }
        try await signIn(to: demand, rejected: nil, sharesFailures: false)
        // The sign-in has succeeded, and the next process will not find it.
        if let error = state.withLock({ $0.storageError }) { throw error }
        return try await freshCredential()
    }

    /// What the resource says to a request without a token.
    func askForChallenge() async throws -> ResourceChallenge? {
        let request = TransportRequest(
            .get,
            address,
            headerFields: [.accept: "*/*"],
            timeout: .seconds(15),
            maximumResponseSize: 1 << 20
        )
        // Servers that stream may respond with a head alone, or not at all, to a GET that they accept.
        guard let response = try? await transport.send(request) else { return nil }
        if let challenge = ResourceChallenge(response) { return challenge }
        guard [400, 404, 405, 406, 415].contains(response.status) else { return nil }
        // What speaks JSON-RPC may serve POST alone. This message asks for nothing.
        let ping = TransportRequest(
            .post,
            address,
            headerFields: [.accept: "application/json, text/event-stream", .contentType: "application/json"],
            body: Array(#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.utf8),
            timeout: .seconds(15)
        )
        return (try? await transport.send(ping)).flatMap { ResourceChallenge($0) }
    }

    /// Signs in for a request: once for all requests of this process, whichever of them are cancelled meanwhile. A user who takes
    /// longer than a request may last is not interrupted.
    /// - Returns: Whether it was this request that it was begun for. Another's may have been for other scopes.
    func signInForAll(to challenge: ResourceChallenge, rejected: Secret?) async throws -> Bool {
        let (task, isOwn) = state.withLock { state -> (SharedTask<Void>, Bool) in
            if let running = state.signIn { return (running, false) }
            let task = SharedTask { [self] in
                defer { self.state.withLock { $0.signIn = nil } }
                try await signIn(to: challenge, rejected: rejected, sharesFailures: true)
            }
            state.signIn = task
            return (task, true)
        }
        try await task.value()
        return isOwn
    }

    /// Signs in, unless another process has done so since a token was rejected: one page is shown for all who wait.
    /// - Parameters:
    ///   - rejected: The access token that did not do; nil for none.
    ///   - sharesFailures: Whether the failure of the sign-in that was waited for counts for this one, too.
    func signIn(to challenge: ResourceChallenge?, rejected: Secret?, sharesFailures: Bool) async throws {
        let found = try await find(challenge)
        let began = host.now()
        let finish = began + options.timeout.seconds
        while true {
            do {
                return try await store.withLease(on: turnKey) { lease in
                    // Another process may have requested more scopes meanwhile, and they must not be lost.
                    _ = try await known(reading: true)
                    let scopes = try await scopes(for: challenge, found)
                    let isDone =
                        sharesFailures
                        ? try await hasNewer(than: rejected, with: scopes)
                        : try await hasSignIn(since: began, with: scopes)
                    if isDone { return }
                    var history = SignInHistory(try await store.bytes(for: turnKey), at: host.now())
                    if sharesFailures {
                        if let error = history.error(since: began, cooldown: options.restAfterFailure) { throw error }
                        try await requirePage(history, lease)
                    }
                    let shown = Atomic(0)
                    do {
                        try await signIn(found, challenge, scopes, sharesFailures ? .some(rejected) : nil) {
                            shown.add(1, ordering: .relaxed)
                        }
                        history.failure = nil
                    } catch {
                        let pages = shown.load(ordering: .relaxed)
                        if sharesFailures { history.addPages(pages, at: host.now()) }
                        // Cancelling one request says nothing about the others.
                        if !(error is CancellationError) {
                            history.failure = .init(error, at: host.now(), wasShown: pages > 0)
                        }
                        try? await store.write(try history.bytes, under: lease)
                        throw error
                    }
                    history.addPages(shown.load(ordering: .relaxed), at: host.now())
                    // The user's own sign-in starts the count again.
                    try? await store.write(sharesFailures ? try history.bytes : nil, under: lease)
                }
            } catch let error as AuthError where error.code == .leaseBusy && host.now() < finish {
                continue
            }
        }
    }

    /// Passes when requests may open another page, and counts it beforehand: a process that is killed has used it up. A resource that
    /// demands ever other scopes would have the user look at pages without end.
    /// - Throws: ``AuthError`` with `login_required`.
    private func requirePage(_ history: SignInHistory, _ lease: Lease) async throws {
        guard methods.withoutUser == nil else { return }
        guard history.pages.count < options.pagesPerHour else {
            throw AuthError(
                .loginRequired,
                "\(address) has had \(history.pages.count) sign-in pages opened within an hour. No other is opened until you sign in to it yourself."
            )
        }
        var counted = history
        counted.addPages(1, at: host.now())
        try await store.write(try counted.bytes, under: lease)
    }

    private var turnKey: RecordKey {
        RecordKey(name: recordName, issuer: "", clientID: "", kind: .signInTurn)
    }

    /// Whether another has obtained a token meanwhile that can be used.
    private func hasNewer(than rejected: Secret?, with scopes: [String]) async throws -> Bool {
        guard let known = try await known(), isUsableHere(known), Set(known.scopes).isSuperset(of: scopes),
            let client = try await client(of: known)
        else { return false }
        // Without a user, a fresh token is obtained by the very request that is to be made here.
        let token =
            methods.withoutUser == nil
            ? try await usableToken(of: client) : try? await client.credential()?.tokens.accessToken
        return token.map { $0 != rejected } ?? false
    }

    /// Whether another process has signed in since a time, which a user who has asked for a page need not do again.
    private func hasSignIn(since date: Date, with scopes: [String]) async throws -> Bool {
        guard let known = try await known(), isUsableHere(known), Set(known.scopes).isSuperset(of: scopes),
            let credential = try? await client(of: known)?.credential()
        else { return false }
        return credential.signedInAt > date
    }

    private func usableToken(of client: AuthClient) async throws -> Secret? {
        do {
            return try await client.freshCredential(lasting: .zero).tokens.accessToken
        } catch let error as AuthError where error.code == .loginRequired || error.code == .credentialUnusable {
            return nil
        } catch let error as AuthError where Self.isUnknownClient(error.providerError?.error) {
            return nil
        }
    }

    // MARK: Failures for all who wait

    /// Has requests of every process wait before they show another page: a user who has just signed in for nothing is not asked again
    /// at once. Without a user there are no pages to spare.
    func rest(after error: AuthError) async {
        guard options.restAfterFailure > .zero, methods.withoutUser == nil else { return }
        try? await store.withLease(on: turnKey) { lease in
            var history = SignInHistory(try await store.bytes(for: turnKey), at: host.now())
            history.failure = .init(error, at: host.now(), wasShown: true)
            try await store.write(try history.bytes, under: lease)
        }
    }

    // MARK: One sign-in

    /// - Parameter rejected: The token that did not do, where a stored one may: one that was obtained by a process that was killed
    ///   before it could say so. nil where the user has asked for a page.
    private func signIn(
        _ found: FoundServer,
        _ challenge: ResourceChallenge?,
        _ scopes: [String],
        _ rejected: Secret??,
        _ willShow: @escaping @Sendable () -> Void
    ) async throws {
        let known = try await identify(found, scopes: scopes, usesDPoP: usesDPoP(challenge, found))
        guard let client = try await client(of: known) else {
            throw AuthError(.storageFailed, "The registration with \(known.issuer) was not kept.")
        }
        if methods.withoutUser == nil, let rejected, let stored = try? await client.freshCredential(lasting: .zero),
            found.metadata?.fit != .prefix, stored.tokens.accessToken != rejected,
            Set(stored.tokens.scopes).isSuperset(of: scopes)
        {
            return try await keep(known)
        }
        guard known.identification == .dynamic else { return try await signIn(known, client, challenge, willShow) }
        if try await isForgotten(known, client) {
            return try await signInAnew(known, client, found, challenge, isForgotten: true, willShow)
        }
        do {
            try await signIn(known, client, challenge, willShow)
        } catch let error as AuthError {
            guard try await mayBeRegistration(error, known) else { throw error }
            let isForgotten = ["invalid_client", "unauthorized_client"].contains(error.providerError?.error)
            try await signInAnew(known, client, found, challenge, isForgotten: isForgotten, willShow)
        }
    }

    private func signIn(
        _ known: KnownResource,
        _ client: AuthClient,
        _ challenge: ResourceChallenge?,
        by registration: KeptRegistration? = nil,
        _ willShow: @escaping @Sendable () -> Void
    ) async throws {
        var request = AuthorizationOptions(scopes: known.scopes, resources: [known.resource])
        request.acrValues = challenge?.acrValues ?? []
        request.maxAge = challenge?.maxAge.map { .seconds($0) }
        if methods.withoutUser == nil {
            // A client that is described once is the same at every server: consent that was given to it for another server, resource or
            // scopes does not count for these.
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
                "issuer": known.issuer, "resource": known.resource, "scopes": known.scopes.joined(separator: " "),
            ]
            FlowReporter(host: host, observer: observer).report(.authorizationRequest, details: details)
        }
        let signIn = try await client.signIn(.replaceAccount, options: request, willShow: willShow)
        // What is known comes last: a token that nothing leads to is found again, and one without a registration would not be.
        var storageError = signIn.storageError
        do {
            if let registration { try await registrations.keep(registration, for: redirectURI) }
            try await keep(known)
        } catch let error as AuthError {
            // The sign-in is good, and this process alone knows of it.
            state.withLock { ($0.known, $0.isLoaded) = (known, true) }
            storageError = storageError ?? error
        }
        state.withLock { state in
            state.client = (cacheKey(known), client)
            (state.end, state.storageError) = (nil, storageError)
        }
    }

    /// Registers the client anew, and signs in with that. A registration that the server still knows stays in its place until that has
    /// succeeded.
    private func signInAnew(
        _ old: KnownResource,
        _ oldClient: AuthClient,
        _ found: FoundServer,
        _ challenge: ResourceChallenge?,
        isForgotten: Bool,
        _ willShow: @escaping @Sendable () -> Void
    ) async throws {
        let made = try await register(found, scopes: old.scopes)
        var known = old
        known.clientID = made.clientID
        guard let client = try await makeClient(known, made) else {
            throw AuthError(.storageFailed, "The registration with \(known.issuer) could not be used.")
        }
        state.withLock { $0.clients.append(client) }
        // One that the server has forgotten is of no use: a user who does not finish must not cost another registration.
        if isForgotten { try await registrations.keep(made, for: redirectURI) }
        try await signIn(known, client, challenge, by: isForgotten ? nil : made, willShow)
        // The tokens of the old one for this resource are of no use any more. Other resources may go on to use it, unless the server
        // does not know it.
        _ = try? await oldClient.signOutLocally()
        if isForgotten { _ = try? await registrations.remove(at: old.issuer, for: redirectURI, clientID: old.clientID) }
    }

    /// Whether a new registration may help: the server has forgotten the client, did not register these scopes, or none of the ports
    /// that were chosen is free.
    private func mayBeRegistration(_ error: AuthError, _ known: KnownResource) async throws -> Bool {
        let kept = try await registrations.registration(at: known.issuer, for: redirectURI, clientID: known.clientID)
        switch (error.code, error.providerError?.error) {
        case (.portBusy, _):
            return options.redirectURIs.contains { if case .loopback(_, nil, _) = $0.kind { true } else { false } }
        case (.providerRejected, "invalid_scope"):
            return kept.map { !Set($0.scopes).isSuperset(of: known.scopes) } ?? false
        case (.providerRejected, "invalid_client"), (.providerRejected, "unauthorized_client"),
            (.providerRejected, "invalid_redirect_uri"):
            // One that was made a moment ago is not forgotten.
            return kept.map { $0.registeredAt + 5 < host.now() } ?? true
        default: return false
        }
    }
}
