import AuthFlow
package import AuthFlowSimulation

/// A simulated history of credentials: several processes serve the sessions of several users.
package final class CredentialHistory: History, @unchecked Sendable {  // All jobs of a simulation run on one thread.
    /// The maximum time for which a process continues to return a user's tokens after a sign-out in another process
    /// (docs/servers.md).
    package static let longestCacheTime = Duration.seconds(10)

    /// A process of the application.
    private struct Server {
        let process: Simulation.Process
        let client: OAuthClient
        let credentials: CredentialManager
        var callers = 0
        /// The time at which a sign-out of each grant completed in this process.
        var signOuts: [Int: Duration] = [:]
        /// The last state of each session that an observer has received.
        var states: [String: CredentialState] = [:]
    }

    package let setting: HistorySetting
    package private(set) var calls = 0
    /// The results of the changes to the application's data.
    private var data: Set<String> = []
    /// The grants that were removed and revoked together with the tokens of refreshes in progress.
    private var revoked: Set<Int> = []
    package var isOver = false
    private var servers: [Int: Server] = [:]
    private let sessions: [String]
    /// The resources that the users sign in for.
    private let resources: [String]

    /// - Parameters:
    ///   - seed: The seed, which determines the whole history.
    ///   - recordsTrace: Whether the trace of the simulation is recorded.
    package init(seed: UInt64, recordsTrace: Bool = false) {
        setting = HistorySetting(seed: seed, recordsTrace: recordsTrace)
        let simulation = setting.simulation
        sessions = (0...(simulation.random.next() % 3)).map { "s\($0)" }
        resources = simulation.random.happens(0.3) ? ["https://api.example", "https://other.example"] : []
        provider.policy = ResourcePolicy(of: resources, seed: seed)
    }

    package func run() -> String? {
        let count = 1 + Int(simulation.random.next() % 4)
        for _ in 0..<count { startServer() }
        simulation.begin(in: .world) { [self] in await makeTrouble() }
        let busy = simulation.random.duration(.seconds(40), .seconds(200))
        let violation = letTimePass(busy) {
            checkThatNoRefreshTokenIsLost()
            begin(probe)
        }
        guard violation == nil else { return violation }
        checkStates()
        if setting.kind == "calm" { checkThatLateTokensAreRevoked() }
        return world.violation
    }

    // MARK: Processes

    package var processes: [Simulation.Process] { servers.keys.sorted().compactMap { servers[$0]?.process } }

    package func forget(_ process: Simulation.Process) { servers[process.index] = nil }

    package func startServer() {
        let process = simulation.startProcess()
        let skew = simulation.random.duration(.seconds(-2), .seconds(2))
        let host = simulation.host(of: process, skew: skew)
        do {
            var values = ClientRegistration.Values(clientID: "client")
            values.resources = resources
            let client = OAuthClient(
                server: AuthorizationServer(
                    SimulatedProvider.Adapter(),
                    transport: SimulatedProvider.Transport(provider, process),
                    host: host
                ),
                registration: try ClientRegistration(values)
            )
            let server = Server(
                process: process,
                client: client,
                credentials: CredentialManager(
                    client: client,
                    store: records.store(of: process, host: host),
                    refreshesAhead: simulation.random.happens(0.5),
                    observer: { [world] event in world.note("event: \(event)") }
                )
            )
            servers[process.index] = server
            simulation.begin(in: process) { [self] in
                server.credentials.observeRemovedRecords()
                await serve(process.index)
            }
            for session in sessions { observe(session, of: server) }
        } catch {
            world.require(false, "the application does not start: \(error)")
        }
    }

    /// Records the states of a session in one process.
    private func observe(_ session: String, of server: Server) {
        simulation.begin(in: server.process) { [self] in
            do {
                for await state in try await server.credentials.states(of: CredentialKey(session)) {
                    servers[server.process.index]?.states[session] = state
                }
            } catch {
                world.note("the states of \(session) cannot be observed: \(error)")
            }
        }
    }

    // MARK: Calls

    private func serve(_ index: Int) async {
        while !isOver {
            await waitForNextCall()
            guard !isOver else { return }
            begin(randomCall)
        }
    }

    /// Starts a call in the simulated process whose task is running, or in every process if the running task belongs to no process.
    private func begin(_ call: @escaping @Sendable (CredentialHistory, Int) async throws -> Void) {
        let running = simulation.runningProcess
        for index in running == .world ? servers.keys.sorted() : [running.index] {
            guard let server = servers[index] else { continue }
            servers[index]?.callers += 1
            simulation.begin(in: server.process) { [self] in
                do { try await call(self, index) } catch { world.note("a call fails: \(error)") }
                servers[index]?.callers -= 1
                calls += 1
            }
        }
    }

    private var randomCall: @Sendable (CredentialHistory, Int) async throws -> Void {
        let session = sessions.randomElement(using: &simulation.random) ?? "s0"
        switch simulation.random.next() % 100 {
        case 0..<53: return { try await $0.use(session, at: $1) }
        case 53: return { await $0.drain(at: $1) }
        case 54..<62: return { try await $0.changeData(of: session, at: $1) }
        case 62..<70: return { try await $0.useForResource(session, at: $1) }
        case 70..<76: return { try await $0.refresh(session, at: $1) }
        case 76..<80: return { try await $0.cancelUse(of: session, at: $1) }
        case 80..<92: return { try await $0.signIn(session, at: $1) }
        case 92..<96: return { try await $0.signOut(session, at: $1) }
        default: return { try await $0.removeEverywhere(session, at: $1) }
        }
    }

    /// Checks that a drain that reports success has stored each refresh token that the process had received, unless its session has ended or was
    /// removed.
    private func drain(at index: Int) async {
        guard let server = servers[index] else { return }
        let began = simulation.now
        let isStored = await server.credentials.drain()
        world.note("the process is drained: \(isStored)")
        guard isStored else { return }
        for (number, grant) in provider.grants.enumerated() where grant.end == nil && records.isStored(number) {
            let received = grant.rotations.lastIndex { rotation in
                rotation.process == server.process && rotation.receivedAt.map { $0 < began } == true
            }
            guard let received else { continue }
            world.require(
                records.newest[number] ?? 0 > received,
                "rt.\(number).\(received + 1) is not stored, although its process reports that everything is stored"
            )
        }
    }

    private func digest(of session: String, _ server: Server) -> [UInt8] {
        server.credentials.recordKey(for: CredentialKey(session)).digest
    }

    /// Gets tokens, and checks that they belong to the session.
    private func use(_ session: String, at index: Int) async throws {
        guard let server = servers[index] else { return }
        world.note("\(session) requests a token")
        let began = simulation.now
        do {
            check(try await server.credentials.freshTokens(for: session), session, nil, at: index, since: began)
        } catch let error as AuthError {
            let isOfResource = provider.policy?.isCause(of: error) ?? false
            world.require(!isOfResource, "\(session) gets no token because of a policy about one resource")
            throw error
        }
    }

    private func useForResource(_ session: String, at index: Int) async throws {
        guard let resource = resources.randomElement(using: &simulation.random) else { return }
        try await use(resource, session, at: index)
    }

    private func use(_ resource: String, _ session: String, at index: Int) async throws {
        guard let server = servers[index] else { return }
        world.note("\(session) requests a token for \(resource)")
        let began = simulation.now
        let tokens = try await server.credentials.freshTokens(for: session, resource: resource)
        check(tokens, session, resource, at: index, since: began)
    }

    private func refresh(_ session: String, at index: Int) async throws {
        guard let server = servers[index] else { return }
        world.note("\(session) requests a refresh")
        let began = simulation.now
        let tokens = try await server.credentials.refresh(CredentialKey(session)).tokens
        check(tokens, session, nil, at: index, since: began)
    }

    /// Increments a counter in the application's data, and checks that no change was lost: each result must occur only once.
    private func changeData(of session: String, at index: Int) async throws {
        guard let server = servers[index] else { return }
        let changed = try await server.credentials.changeApplicationData(of: CredentialKey(session)) { data in
            Secret("\((data.flatMap { Int($0.exposed) } ?? 0) + 1)")
        }
        guard let (grant, _, _) = SimulatedProvider.parts(of: changed.tokens.accessToken.exposed) else { return }
        let count = changed.applicationData?.exposed ?? ""
        world.note("\(session) has changed its data: \(count) of grant \(grant)")
        world.require(data.insert("\(grant) \(count)").inserted, "change \(count) of grant \(grant) was lost")
    }

    private func cancelUse(of session: String, at index: Int) async throws {
        let use = Task { try await self.use(session, at: index) }
        try? await simulation.clock.sleep(for: simulation.random.duration(.zero, .seconds(2)))
        use.cancel()
        _ = try await use.value
    }

    /// Checks that no caller gets a token of another session or resource, or a token of a session that was signed out
    /// more than ten seconds ago, or signed out in this process before the call.
    private func check(
        _ tokens: TokenSet,
        _ session: String,
        _ resource: String?,
        at index: Int,
        since began: Duration
    ) {
        guard let (grant, serial, tokenResource) = SimulatedProvider.parts(of: tokens.accessToken.exposed) else {
            return
        }
        let name = "at.\(grant).\(serial)"
        world.note("\(session) gets \(name)")
        world.require(provider.grants[grant].session == session, "\(session) gets \(name) of another session")
        world.require(tokenResource == resource, "\(session) gets \(name) for another resource")
        let signOut = servers[index]?.signOuts[grant]
        world.require(signOut.map { $0 >= began } ?? true, "\(session) gets \(name) after its sign-out in this process")
        if let removal = records.removals[grant] {
            let age = simulation.now - removal
            let isKnown = age > Self.longestCacheTime && !world.mayKnowLess(simulation.runningProcess)
            world.require(!isKnown, "\(session) gets \(name) \(age) after its removal")
        }
    }

    private func signIn(_ session: String, at index: Int) async throws {
        guard let server = servers[index] else { return }
        let user = ["alice", "bob"].randomElement(using: &simulation.random) ?? "alice"
        let resources = server.client.registration.resources
        let now = server.client.server.host.now()
        let credential = provider.signIn(user, session: session, resources: resources, at: now)
        let grant = provider.grants.count - 1
        world.note("\(user) signs in to \(session): grant \(grant)")
        let attributes = simulation.random.happens(0.5) ? RecordAttributes(lifetime: .seconds(36_000)) : nil
        try await server.credentials.save(credential, for: session, attributes: attributes)
        world.require(records.newest[grant] != nil, "the sign-in of grant \(grant) is not stored")
    }

    private func signOut(_ session: String, at index: Int) async throws {
        guard let server = servers[index] else { return }
        let present = records.grants(in: digest(of: session, server))
        world.note("\(session) signs out of \(present.keys.sorted())")
        let removed = try await server.credentials.remove(CredentialKey(session))
        for grant in present.keys.sorted() {
            world.require(records.removals[grant] != nil, "grant \(grant) is stored after its sign-out")
            servers[index]?.signOuts[grant] = simulation.now
        }
        revoke(removed)
    }

    private func removeEverywhere(_ session: String, at index: Int) async throws {
        guard let server = servers[index] else { return }
        let key = server.credentials.recordKey(for: CredentialKey(session))
        let present = records.grants(in: key.digest).keys.sorted()
        world.note("\(session) is removed with \(present)")
        let revokesLateTokens = simulation.random.happens(0.5)
        if revokesLateTokens { try await server.credentials.revokeLateTokens(of: [key]) }
        let removed = try await server.credentials.remove([key])
        for grant in present { servers[index]?.signOuts[grant] = simulation.now }
        for removed in removed {
            // Without a confirmation, another process may have removed the session, with later tokens.
            revoke(removed.credential, withLateTokens: revokesLateTokens && removed.isRemovalConfirmed)
        }
    }

    /// Revokes the tokens of most removed sessions. The provider ignores a refresh token that has been exchanged since (RFC 7009 section 2.2).
    private func revoke(_ credential: Credential?, withLateTokens: Bool = false) {
        let token = credential?.tokens.refreshToken?.exposed ?? ""
        guard let (grant, serial, _) = SimulatedProvider.parts(of: token),
            simulation.random.happens(0.7) || withLateTokens
        else { return }
        if withLateTokens { revoked.insert(grant) }
        if serial == provider.grants[grant].serial { provider.end(grant, "revoked") }
    }

    // MARK: Afterwards

    package func checkThatNothingIsLeft() {
        for server in servers.values.sorted(by: { $0.process.index < $1.process.index }) {
            let process = "P\(server.process.index)"
            world.require(server.callers == 0, "\(server.callers) calls of \(process) never returned")
            world.require(!server.credentials.unfinished.isBusy, "\(process) has unfinished work")
            world.require(simulation.waits(of: server.process) == 0, "\(process) has pending waits")
        }
        world.require(!records.hasLease, "a lease is held")
    }

    /// Checks that the tokens of a refresh that was in progress during a removal were revoked. After a new sign-in by the same user, they are not
    /// revoked, because they may belong to the same grant.
    private func checkThatLateTokensAreRevoked() {
        for grant in revoked.sorted() {
            let removed = provider.grants[grant]
            let isReplaced = provider.grants.dropFirst(grant + 1).contains { newer in
                newer.session == removed.session && newer.user == removed.user
            }
            world.require(removed.end != nil || isReplaced, "grant \(grant) is valid after its removal and revocation")
        }
    }

    /// Checks that the last state that each observer has received is the stored one.
    private func checkStates() {
        for server in servers.values.sorted(by: { $0.process.index < $1.process.index }) {
            for (session, last) in server.states.sorted(by: { $0.key < $1.key }) {
                let state: String
                switch last {
                case .signedIn, .refreshed: state = "signed in"
                case .signedOut: state = "signed out"
                case .ended: state = "ended"
                // After repeated rejections in this process, a refresh in another process may have succeeded.
                case .expired: continue
                }
                let stored = records.state(in: digest(of: session, server))
                world.require(
                    state == stored,
                    "an observer of \(session) in P\(server.process.index) has last received \(state), but it is \(stored)"
                )
            }
        }
    }

    /// Checks that every session either gets a token or has ended, and that a fresh stored credential needs no request.
    private var probe: @Sendable (CredentialHistory, Int) async throws -> Void {
        { history, index in
            for session in history.sessions {
                do {
                    try await history.use(session, at: index)
                } catch let error as AuthError {
                    history.checkRefusal(error, session, index)
                    continue
                }
                let requests = history.provider.requests
                try await history.use(session, at: index)
                let more = history.provider.requests - requests
                // Other processes may send requests in the meantime.
                if history.servers.count == 1 {
                    history.world.require(more == 0, "\(more) requests were sent for a token that was fresh")
                }
                for resource in history.resources { try await history.useAtRest(resource, session, index) }
            }
        }
    }

    /// Checks that a session gets a token for a resource unless the provider refuses it, and that the refusal does not affect the session.
    private func useAtRest(_ resource: String, _ session: String, _ index: Int) async throws {
        do {
            try await use(resource, session, at: index)
        } catch let error as AuthError {
            // Each process requests the resource's token itself, so waiting for the shared lease may exceed a call's timeout.
            if error.code == .leaseBusy {
                try? await simulation.clock.sleep(for: .seconds(20))
                return try await useAtRest(resource, session, index)
            }
            if let policy = provider.policy, policy.refuses(resource, at: simulation.now), policy.mayCause(error) {
                return try await use(session, at: index)
            }
            checkRefusal(error, session, index)
        }
    }

    private func checkRefusal(_ error: AuthError, _ session: String, _ index: Int) {
        guard let server = servers[index] else { return }
        let valid = records.grants(in: digest(of: session, server)).filter { provider.grants[$0.key].end == nil }
        world.require(valid.isEmpty, "\(session) fails (\(error)), although grant \(valid.keys.sorted()) is valid")
    }
}
