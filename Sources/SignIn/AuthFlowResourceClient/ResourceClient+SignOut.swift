import AuthFlowEssentials
import AuthFlowOAuth
public import AuthFlowSignIn
import AuthFlowStorage
import Synchronization

extension ResourceClient {
    /// Signs out: removes the tokens of every sign-in from the store, and revokes them at the authorization servers if
    /// possible. The registrations remain stored.
    /// - Throws: The same errors as ``AuthClient/signOut(revokingTokens:endingSession:)``,
    ///   after every sign-out has been attempted.
    public func signOut(revokingTokens: Bool = true) async throws -> SignOut {
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
    /// - Returns: Whether there were any tokens.
    /// - Throws: ``AuthError`` with `storage_failed`.
    @discardableResult
    public func signOutLocally() async throws -> Bool {
        let signIns: [KnownResource]
        do {
            signIns = try await self.signIns()
        } catch let error as AuthError where [.credentialUnusable, .storageFailed].contains(error.code) {
            let (_, failure) = await end(await possibleSignIns()) { try await $0.signOutLocally() }
            try await store.withLease(on: recordKey) { try await store.write(nil, under: $0) }
            state.withLock { ($0.known, $0.isLoaded) = (nil, true) }
            await removeFromList()
            if let failure { throw failure }
            return true
        }
        let (results, failure) = await signOut(of: signIns, endsUnfinished: true) { try await $0.signOutLocally() }
        if let failure { throw failure }
        return results.contains(true)
    }

    /// Whether a sign-in is in progress, here or in another process, whose tokens may be stored after a sign-out.
    package func hasSignInInProgress() async throws -> Bool {
        try await record().unfinished.contains { $0.end >= host.now() }
    }

    /// The sign-ins whose tokens may be in the store although the record does not name them, because it cannot be read. A client with a
    /// client ID metadata document is not among them, because its issuers are unknown.
    private func possibleSignIns() async -> [KnownResource] {
        var clients: [(issuer: String, clientID: String, ClientIdentification)] = []
        if let registered { clients.append((registered.server.issuer, registered.registration.clientID, .registered)) }
        for (issuer, origin) in (try? await KnownResources(store: store).registrations()) ?? []
        where origin == address.origin {
            guard let stored = try? await registrations.registration(at: issuer, for: redirectURI) else { continue }
            clients.append((issuer, stored.clientID, .dynamic))
        }
        // Metadata may name a parent path as the resource.
        var (resources, path) = ([options.resource ?? address.resourceIdentifier, address.origin], address.path[...])
        while let slash = path.lastIndex(of: "/"), resources.count < 32 {
            path = path[..<slash]
            resources.append("\(address.origin)\(path)")
        }
        let record = ResourceRecord(salvaging: try? await store.bytes(for: recordKey))
        return record.all
            + clients.flatMap { issuer, clientID, identification in
                Set(resources).map {
                    KnownResource(
                        resource: $0,
                        issuer: issuer,
                        clientID: clientID,
                        identification: identification,
                        scopes: [],
                        usesDPoP: false
                    )
                }
            }
    }

    /// Ends the sign-ins with other servers and clients: their tokens must not be used again if the resource
    /// names those servers again.
    func signOutOthers() async {
        guard let record = try? await record() else { return }
        // An unfinished sign-in may be another process's.
        let ended = record.unfinished.filter { $0.end < host.now() }.map(\.signIn)
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
        let names = try await KnownResources(store: store).records()
        // A full list may be incomplete, so the registration is treated as in use.
        guard names.count < KnownResources.limit else { return true }
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
        let (results, failure) = await end(signIns, body)
        do {
            try await removeSignIns(signIns.indices.filter { results[$0] != nil }.map { signIns[$0] }, endsUnfinished)
        } catch {
            return (signIns.indices.flatMap { results[$0] ?? [] }, failure ?? error)
        }
        return (signIns.indices.flatMap { results[$0] ?? [] }, failure)
    }

    /// Ends several sign-ins concurrently, so that neither an error nor a server that does not respond leaves
    /// the tokens of the others in the store.
    /// - Returns: The results of those that ended, by the index of the sign-in, and the first error.
    private func end<Outcome: Sendable>(
        _ signIns: [KnownResource],
        _ body: @escaping @Sendable (AuthClient) async throws -> Outcome
    ) async -> (results: [Int: [Outcome]], failure: (any Error)?) {
        let all = await withTaskGroup(of: (Int, Result<[Outcome], any Error>).self) { group in
            for (number, known) in signIns.enumerated() {
                group.addTask { [self] in
                    do {
                        var outcomes: [Outcome] = []
                        try await clientsForSignOut(of: known).attemptEach { outcomes.append(try await body($0)) }
                        return (number, .success(outcomes))
                    } catch {
                        return (number, .failure(error))
                    }
                }
            }
            return await group.reduce(into: [Int: Result<[Outcome], any Error>]()) { $0[$1.0] = $1.1 }
        }
        let failure = signIns.indices.lazy.compactMap { number -> (any Error)? in
            if case .failure(let error)? = all[number] { error } else { nil }
        }.first
        return (all.compactMapValues { try? $0.get() }, failure)
    }

    /// Removes sign-ins from the record, except those with tokens in the store: a user may have signed in again in the
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
        guard isWithoutUser else { return [client] }
        return [client, authClient(client.registration, known, methods: SignInMethods(methods: []))]
    }
}
