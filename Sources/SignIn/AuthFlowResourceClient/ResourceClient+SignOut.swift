import AuthFlowEssentials
import AuthFlowOAuth
public import AuthFlowSignIn
import AuthFlowStorage
import Synchronization

extension ResourceClient {
    /// Signs out: removes the tokens of every sign-in from the store, and revokes them at the authorization servers if
    /// possible. The registrations remain stored, except replaced and retired ones that no sign-in uses.
    /// - Throws: The same errors as ``AuthClient/signOut(revokingTokens:endingSession:)``,
    ///   after every sign-out has been attempted.
    public func signOut(revokingTokens: Bool = true) async throws -> SignOut {
        await finishUnsavedSignIns()
        let (results, failure) = await signOut(of: try await signIns()) { client in
            try await client.signOut(revokingTokens: revokingTokens)
        }
        let revocation = SignOut.Outcome.combining(results.map(\.revocation))
        if let failure { throw revocation.added(to: failure) }
        return SignOut(
            credential: results.lazy.compactMap(\.credential).first,
            revocation: revocation,
            endSession: results.first?.endSession ?? .nothingToDo
        )
    }

    /// Removes the tokens from the store, even if they can no longer be read. No request is sent.
    /// - Returns: Whether there were any tokens; true if the record could not be read.
    /// - Throws: ``AuthError`` with `storage_failed`.
    @discardableResult
    public func signOutLocally() async throws -> Bool {
        let signIns: [KnownResource]
        do {
            signIns = try await self.signIns()
        } catch let error as AuthError where [.credentialUnusable, .storageFailed].contains(error.code) {
            let failure = await end(try await possibleSignIns()) { try await $0.signOutLocally() }.failure
            // The record remains until the tokens have been removed; otherwise, a later sign-out would report that there were none.
            if let failure { throw failure }
            try await store.withLease(on: recordKey) { try await store.write(nil, under: $0) }
            state.withLock { ($0.known, $0.isLoaded) = (nil, true) }
            await removeFromList()
            return true
        }
        let (results, failure) = await signOut(of: signIns, endsUnfinished: true) { try await $0.signOutLocally() }
        if let failure { throw failure }
        return results.contains(true)
    }

    /// Whether a user has signed in, or a sign-in has been interrupted after it stored tokens. Failed sign-ins do not count.
    package func hasSignIn() async throws -> Bool {
        let record = try await record()
        guard record.current == nil else { return true }
        for unfinished in record.unfinished {
            let stored = try await clientsForSignOut(of: unfinished.signIn).first?.credential()
            if let stored, stored.signedInAt >= unfinished.start { return true }
        }
        return false
    }

    /// Whether a sign-in is in progress, here or in another process, whose tokens may be stored after a sign-out.
    package func hasSignInInProgress() async throws -> Bool {
        try await record().unfinished.contains { !$0.isOver(at: host.now()) }
    }

    /// Whether the record contains a sign-in with the given issuer.
    package func hasSignIn(at issuer: String) async throws -> Bool {
        try await record().all.contains { $0.issuer.isIdentical(to: issuer) }
    }

    /// The dynamically registered clients of the record's sign-ins.
    package func registeredClients() async throws -> [(issuer: String, clientID: String)] {
        try await record().all.filter { $0.identification == .dynamic }.map { ($0.issuer, $0.clientID) }
    }

    /// Whether the record contains a sign-in with the given registration.
    package func hasSignIn(with registration: StoredRegistration) async throws -> Bool {
        try await record().all.contains {
            $0.issuer.isIdentical(to: registration.issuer) && $0.clientID.isIdentical(to: registration.clientID)
        }
    }

    /// The sign-ins whose tokens may be in the store, for a record that cannot be read: the sign-ins that can still be decoded, and the possible
    /// sign-ins with the configured client or the stored registrations. Not included are undecodable sign-ins with a client ID
    /// metadata document or with a registration that cannot be read.
    private func possibleSignIns() async throws -> [KnownResource] {
        let lists = KnownResources(store: store)
        var clients: [(issuer: String, clientID: String, ClientIdentification)] = []
        if let registered {
            clients.append((registered.server.issuer, registered.registration.clientID, .registered))
        } else {
            let listed = try await readable { try await lists.registrations() } ?? []
            for entry in listed where entry.origin == address.origin {
                let stored = try await readable {
                    try await registrations.registration(at: entry.issuer, for: redirectURI)
                }
                if let clientID = stored??.clientID { clients.append((entry.issuer, clientID, .dynamic)) }
            }
        }
        // Metadata may name a parent path as the resource, with or without a trailing slash.
        var (resources, path) = (Set([options.resource ?? address.resourceIdentifier, address.url]), address.path[...])
        while resources.count < 64 {
            resources.formUnion(["\(address.origin)\(path)", "\(address.origin)\(path)/"])
            guard let slash = path.lastIndex(of: "/") else { break }
            path = path[..<slash]
        }
        // The tokens of this client's sign-ins to other resources do not belong to this resource.
        let prefix = recordName.dropLast(address.url.count)
        let names = Set((try await readable { try await lists.records() }) ?? []).union(resources.map { prefix + $0 })
        var others: [KnownResource] = []
        for name in names
        where name != recordName && name.dropLast(name.split(separator: " ").last?.count ?? 0) == prefix {
            others += ResourceRecord(salvaging: try? await store.bytes(for: Self.recordKey(name))).all
        }
        let possible = clients.flatMap { issuer, clientID, identification in
            resources.map {
                KnownResource(
                    resource: $0,
                    issuer: issuer,
                    clientID: clientID,
                    identification: identification,
                    scopes: [],
                    usesDPoP: false
                )
            }
        }.filter { possible in
            ProtectedResourceMetadata.fit(of: possible.resource, to: address) == .identical
                || !others.contains { $0.sharesTokens(with: possible) }
        }
        return ResourceRecord(salvaging: try? await store.bytes(for: recordKey)).all + possible
    }

    /// The value; nil if the record that contains it is damaged, or cannot be read or decrypted.
    private func readable<Value>(_ read: () async throws -> Value) async throws -> Value? {
        do {
            return try await read()
        } catch let error as AuthError where [.credentialUnusable, .storageFailed].contains(error.code) {
            return nil
        }
    }

    /// Ends the sign-ins with other servers and clients, because their tokens must not be used again if the resource
    /// names those servers again.
    func signOutOthers() async {
        guard let record = try? await record() else { return }
        // An unfinished sign-in may belong to another process.
        let ended = record.unfinished.filter { $0.isOver(at: host.now()) }.map(\.signIn)
        let others = (record.others + ended).filter { record.current?.sharesTokens(with: $0) != true }
        if !others.isEmpty { _ = await signOut(of: others) { try await $0.signOut() } }
    }

    /// Removes from the store every registration that was replaced or that
    /// the server no longer recognizes, if no resource has a sign-in with it.
    func removeUnusedRegistrations(of signIns: [KnownResource]) async {
        for known in signIns where known.identification == .dynamic {
            do {
                let present = try await registrations.registration(at: known.issuer, for: redirectURI)
                guard present.map({ $0.isRetired || !$0.clientID.isIdentical(to: known.clientID) }) ?? true,
                    try await !isUsed(clientID: known.clientID, at: known.issuer)
                else { continue }
                try await registrations.remove(at: known.issuer, for: redirectURI, clientID: known.clientID)
            } catch {
                // The registration remains stored, which is harmless.
            }
        }
    }

    /// Whether any resource at this origin has a sign-in that uses a registration.
    package func isUsed(clientID: String, at issuer: String) async throws -> Bool {
        let (names, isComplete) = try await KnownResources(store: store).list(of: "resources")
        // A resource that is missing from the list may have a sign-in with the registration.
        guard isComplete else { return true }
        for name in names + [recordName] {
            let url = name.split(separator: " ").last.map(String.init) ?? ""
            guard let endpoint = try? Endpoint(url), endpoint.origin == address.origin else { continue }
            // The sign-ins in a record that cannot be read are unknown.
            guard let record = try? ResourceRecord(try await store.bytes(for: Self.recordKey(name))) else {
                return true
            }
            let isNamed = record.all.contains {
                $0.issuer.isIdentical(to: issuer) && $0.clientID.isIdentical(to: clientID)
            }
            if isNamed { return true }
        }
        return false
    }

    /// Every sign-in whose tokens may be in the store, plus the current sign-in if it could not be recorded.
    private func signIns() async throws -> [KnownResource] {
        let all = try await record().all
        guard let known = state.withLock({ $0.known }), !all.contains(where: { $0.sharesTokens(with: known) }) else {
            return all
        }
        return [known] + all
    }

    /// Ends several sign-ins, and removes them from the record.
    /// - Parameter endsUnfinished: Whether unfinished sign-ins are removed from the record.
    /// - Returns: The results, in the order of the sign-ins, and the first error, after every sign-out has been attempted.
    private func signOut<Outcome: Sendable>(
        of signIns: [KnownResource],
        endsUnfinished: Bool = false,
        _ body: @escaping @Sendable (AuthClient) async throws -> Outcome
    ) async -> (results: [Outcome], failure: (any Error)?) {
        let ended = await end(signIns, body)
        // If nothing has ended, the record remains as it is.
        guard ended.failure == nil || !ended.done.isEmpty else { return (ended.results, ended.failure) }
        do {
            try await removeSignIns(ended.done, endsUnfinished)
        } catch {
            return (ended.results, ended.failure ?? error)
        }
        return (ended.results, ended.failure)
    }

    /// Ends several sign-ins concurrently, so that neither an error nor a server that does not respond leaves the tokens of the other sign-ins in the
    /// store.
    /// - Returns: The sign-ins that have ended, the results in the order of the sign-ins, and the first error.
    private func end<Outcome: Sendable>(
        _ signIns: [KnownResource],
        _ body: @escaping @Sendable (AuthClient) async throws -> Outcome
    ) async -> (done: [KnownResource], results: [Outcome], failure: (any Error)?) {
        let all = await signIns.concurrentMap { [self] known -> (KnownResource, [Outcome], (any Error)?) in
            var outcomes: [Outcome] = []
            do {
                try await clientsForSignOut(of: known).attemptEach { outcomes.append(try await body($0)) }
                return (known, outcomes, nil)
            } catch {
                return (known, outcomes, error)
            }
        }
        return (
            all.filter { $0.2 == nil }.map { $0.0 }, all.flatMap { $0.1 }, all.lazy.compactMap { $0.2 }.first
        )
    }

    /// Removes sign-ins from the record, except those with tokens in the store, because a user may have signed in again in the
    /// meantime, and the record must name every sign-in whose tokens are in the store.
    private func removeSignIns(_ signIns: [KnownResource], _ endsUnfinished: Bool) async throws {
        let record = try await changeRecord { record in
            for known in signIns {
                let clients = try await clientsForSignOut(of: known)
                var hasTokens = false
                for client in clients where !hasTokens { hasTokens = try await client.credential() != nil }
                if !hasTokens { record.remove(known, at: endsUnfinished ? nil : host.now()) }
            }
        }
        state.withLock { state in
            let wasRemoved = state.known.map { known in signIns.contains { $0.sharesTokens(with: known) } } ?? true
            if wasRemoved { (state.known, state.isLoaded) = (record.current, true) }
        }
        if record.all.isEmpty { await removeFromList() }
        await removeUnusedRegistrations(of: signIns)
    }

    /// The clients for the sign-out. If the sign-in contradicts the current configuration, or its registration is no
    /// longer stored, the first client is a public client with the sign-in's client ID, so that the tokens are still removed. A client
    /// that no longer signs users in may still have a user's tokens.
    private func clientsForSignOut(of known: KnownResource) async throws -> [AuthClient] {
        let client: AuthClient
        if let current = try? await self.client(of: known) {
            client = current
        } else {
            let registration = try ClientRegistration(clientID: known.clientID) { $0.resources = [known.resource] }
            client = authClient(registration, known)
        }
        var clients = [client]
        if isWithoutUser {
            clients.append(authClient(client.registration, known, methods: SignInMethods(methods: [])))
        }
        state.withLock { state in clients.forEach { state.add($0) } }
        return clients
    }
}
