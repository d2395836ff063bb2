import AuthFlow
import AuthFlowCredentials
import AuthFlowDatabase
import AuthFlowEssentials
package import AuthFlowSimulation

/// A simulated history of an app in which several users are signed in: its processes share one record, with one account for each user.
package final class AccountHistory: History, @unchecked Sendable {  // All jobs of a simulation run on one thread.
    /// A process of the app.
    private struct App {
        let process: Simulation.Process
        let client: AuthClient
        /// The user that the process is limited to; nil for the current user.
        let account: String?
        var callers = 0
        /// The time at which a sign-out of each grant completed in this process.
        var signOuts: [Int: Duration] = [:]
        /// The last state that an observer has received; nil if unknown.
        var state: String?
        /// The grants of sign-ins that could not be stored, with their policies.
        var retained: [Int: AccountPolicy] = [:]
    }

    private static let users = ["alice", "bob", "carol"]

    package let setting: HistorySetting
    package private(set) var calls = 0
    package var isOver = false
    private var apps: [Int: App] = [:]
    /// Whether the store is a session store, which records sign-outs.
    private let isSessionStore: Bool
    /// The users whose sessions the operations in progress may end.
    private var changes: [Int: Set<String>] = [:]
    private var lastChange = 0
    /// The grants whose end was requested: by a sign-out, by another sign-in of the user, or by a sign-in that replaces other accounts.
    private var mayEnd: Set<Int> = []
    /// The grants whose sign-in was reported as stored.
    private var confirmed: Set<Int> = []

    /// - Parameters:
    ///   - seed: The seed, which determines the whole history.
    ///   - recordsTrace: Whether the trace of the simulation is recorded.
    package init(seed: UInt64, recordsTrace: Bool = false) {
        setting = HistorySetting(seed: seed, recordsTrace: recordsTrace)
        isSessionStore = setting.simulation.random.happens(0.3)
        setting.world.mayStoreAgain = setting.world.faults.store > 0
        provider.mayRevoke = { [unowned self] in mayEnd.contains($0) || !confirmed.contains($0) }
    }

    package func run() -> String? {
        let count = 1 + Int(simulation.random.next() % 4)
        for _ in 0..<count { startServer() }
        simulation.begin(in: .world) { [self] in await makeTrouble() }
        let busy = simulation.random.duration(.seconds(40), .seconds(200))
        let violation = letTimePass(busy) {
            checkThatNoRefreshTokenIsLost()
            checkThatNoAccountIsLost()
            begin { try await $0.useAtRest(at: $1) }
        }
        guard violation == nil else { return violation }
        checkStates()
        return world.violation
    }

    // MARK: Processes

    package var processes: [Simulation.Process] { apps.keys.sorted().compactMap { apps[$0]?.process } }

    package func forget(_ process: Simulation.Process) { apps[process.index] = nil }

    package func startServer() {
        let process = simulation.startProcess()
        // The processes of an app run on one machine.
        let host = simulation.host(of: process, skew: .zero)
        var options = AuthClient.Options()
        options.account = simulation.random.happens(0.3) ? Self.users.randomElement(using: &simulation.random) : nil
        let records = records.store(of: process, host: host)
        do {
            let client = AuthClient(
                client: OAuthClient(
                    server: AuthorizationServer(
                        SimulatedProvider.Adapter(),
                        transport: SimulatedProvider.Transport(provider, process),
                        host: host
                    ),
                    registration: try ClientRegistration(ClientRegistration.Values(clientID: "client"))
                ),
                methods: [],
                store: isSessionStore ? records : LocalStore(records: records),
                options: options,
                observer: { [world] event in world.note("event: \(event)") }
            )
            apps[process.index] = App(process: process, client: client, account: options.account)
            simulation.begin(in: process) { [self] in await serve(process.index) }
            simulation.begin(in: process) { [self] in
                do {
                    for await state in try await client.states() {
                        switch state {
                        case .signedIn(let identity): apps[process.index]?.state = Self.state(of: identity?.subject)
                        case .signedOut: apps[process.index]?.state = "signed out"
                        case .ended: apps[process.index]?.state = "ended"
                        case .refreshed: break
                        // After repeated rejections in this process, a refresh in another process may have succeeded.
                        case .expired: apps[process.index]?.state = nil
                        }
                    }
                } catch {
                    world.note("the states cannot be observed: \(error)")
                }
            }
        } catch {
            world.require(false, "the app does not start: \(error)")
        }
    }

    /// The store of an app: its records have no tags, and it does not record sign-outs.
    private struct LocalStore: TokenStore {
        let records: LeasedRecords<SimulatedTable>

        func bytes(for key: RecordKey) async throws -> [UInt8]? { try await records.bytes(for: key) }

        func bytes(under lease: Lease) async throws -> [UInt8]? { try await records.bytes(under: lease) }

        func reserve(_ size: Int, under lease: Lease) async throws { try await records.reserve(size, under: lease) }

        func write(_ bytes: [UInt8]?, under lease: Lease) async throws {
            try await records.write(bytes, under: lease)
        }

        nonisolated(nonsending) func withLease<Return: Sendable>(
            on key: RecordKey,
            _ body: nonisolated(nonsending) (Lease) async throws -> Return
        ) async throws -> Return {
            try await records.withLease(on: key, body)
        }
    }

    // MARK: Calls

    private typealias Call = @Sendable (AccountHistory, Int) async throws -> Void

    private func serve(_ index: Int) async {
        while !isOver {
            await waitForNextCall()
            guard !isOver else { return }
            begin(randomCall)
        }
    }

    /// Starts a call in the simulated process whose task is running, or in every process if the running task belongs to no process.
    private func begin(_ call: @escaping Call) {
        let running = simulation.runningProcess
        for index in running == .world ? apps.keys.sorted() : [running.index] {
            guard let app = apps[index] else { continue }
            apps[index]?.callers += 1
            simulation.begin(in: app.process) { [self] in
                do { try await call(self, index) } catch { world.note("a call fails: \(error)") }
                apps[index]?.callers -= 1
                calls += 1
            }
        }
    }

    private var randomCall: Call {
        let user = Self.users.randomElement(using: &simulation.random) ?? "alice"
        switch simulation.random.next() % 100 {
        case 0..<35: return { try await $0.use(nil, at: $1) }
        case 35..<55: return { try await $0.use(user, at: $1) }
        case 55..<63: return { try await $0.refresh(at: $1) }
        case 63..<68: return { try await $0.cancelUse(of: user, at: $1) }
        case 68..<70: return { _ = await $0.apps[$1]?.client.drain() }
        case 70..<86: return { try await $0.signIn(user, at: $1) }
        case 86..<93: return { try await $0.select(user, at: $1) }
        default: return { try await $0.signOut(at: $1) }
        }
    }

    /// Gets tokens, and checks that they belong to the user.
    /// - Parameter user: The requested account; nil for the process's account.
    private func use(_ user: String?, at index: Int) async throws {
        guard let app = apps[index] else { return }
        let began = simulation.now
        check(try await app.client.freshTokens(account: user), of: user ?? app.account, at: index, since: began)
    }

    private func refresh(at index: Int) async throws {
        guard let app = apps[index] else { return }
        let began = simulation.now
        check(try await app.client.refresh().tokens, of: app.account, at: index, since: began)
    }

    private func cancelUse(of user: String, at index: Int) async throws {
        let use = Task { try await self.use(user, at: index) }
        try? await simulation.clock.sleep(for: simulation.random.duration(.zero, .seconds(2)))
        use.cancel()
        _ = try await use.value
    }

    /// Checks that the tokens are those of the requested user, or of a user who was the current user in the last ten seconds, and that the user
    /// had not signed out in this process before the call.
    private func check(_ tokens: TokenSet, of user: String?, at index: Int, since began: Duration) {
        guard let app = apps[index],
            let (grant, serial, _) = SimulatedProvider.parts(of: tokens.accessToken.exposed)
        else { return }
        let name = "at.\(grant).\(serial)"
        let owner = provider.grants[grant].user
        world.note("\(user ?? "the current user") gets \(name) of \(owner)")
        world.require(user == nil || owner == user, "\(user ?? "") gets \(name) of \(owner)")
        let signOut = app.signOuts[grant]
        world.require(signOut.map { $0 >= began } ?? true, "\(owner) gets \(name) after the sign-out in this process")
        guard !world.mayKnowLess(simulation.runningProcess) else { return }
        let longest = CredentialHistory.longestCacheTime
        if let removal = records.removals[grant] {
            let age = simulation.now - removal
            world.require(age <= longest, "\(owner) gets \(name) \(age) after its removal")
        }
        // A process also uses the sign-ins that it has retained because it could not store them.
        if user == nil, app.retained.isEmpty, let current = records.currents[digest] {
            let isKnown = began - current.since > longest
            world.require(
                !isKnown || current.user == owner,
                "the current user is \(current.user ?? "none"), but a call gets \(name) of \(owner)"
            )
        }
    }

    // MARK: Changes

    /// Runs an operation that may end the sessions of users.
    /// - Parameters:
    ///   - users: The users.
    ///   - grant: A grant that the operation does not end.
    ///   - body: Receives whether no other operation was in progress at any time since the start of this one, and no process has retained a sign-in.
    private func change(
        _ users: Set<String>,
        except grant: Int? = nil,
        _ body: (@escaping () -> Bool) async throws -> Void
    ) async rethrows {
        lastChange += 1
        let number = lastChange
        let isAlone = changes.isEmpty
        changes[number] = users
        mayEnd.formUnion(provider.grants.indices.filter { $0 != grant && users.contains(provider.grants[$0].user) })
        defer { changes[number] = nil }
        try await body { [unowned self] in
            isAlone && lastChange == number && apps.values.allSatisfy(\.retained.isEmpty)
        }
    }

    private func signIn(_ user: String, at index: Int) async throws {
        guard let app = apps[index] else { return }
        let policies: [AccountPolicy] = [
            .addAccount, .addAccount, .addAccount, .addAccount, .sameAccount, .replaceAccount,
        ]
        let policy = policies.randomElement(using: &simulation.random) ?? .addAccount
        let now = app.client.server.host.now()
        let credential = provider.signIn(user, session: "app", resources: [], at: now)
        let grant = provider.grants.count - 1
        // Another sign-in or a sign-out in progress may end the session.
        if changes.values.contains(where: { $0.contains(user) }) { mayEnd.insert(grant) }
        world.note("\(user) signs in with \(policy): grant \(grant)")
        let ended: Set<String> = policy == .replaceAccount ? Set(Self.users) : [user]
        try await change(ended, except: grant) { isAlone in
            let before = accounts
            let other = before?.entry(app.account).flatMap { $0.account.subject == user ? nil : $0.credential }
            let signIn = try await app.client.save(credential, [:], policy, FlowReporter())
            guard signIn.storageError == nil else {
                world.note("the sign-in of grant \(grant) is not stored")
                apps[index]?.retained[grant] = policy
                // The policy is applied when the record can be read.
                if policy == .replaceAccount { changes[-grant] = Set(Self.users) }
                return
            }
            world.require(records.newest[grant] != nil, "the sign-in of grant \(grant) is not stored")
            confirmed.insert(grant)
            guard isAlone(), let other, let old = SimulatedProvider.grant(of: other), provider.grants[old].end == nil
            else { return }
            switch policy {
            case .sameAccount: world.require(false, "\(user) has signed in, although another user is signed in")
            case .addAccount:
                world.require(records.isStored(old), "grant \(old) was removed by a sign-in that adds an account")
            case .replaceAccount: world.require(!records.isStored(old), "grant \(old) is stored after its replacement")
            }
        }
    }

    private func select(_ user: String, at index: Int) async throws {
        guard let app = apps[index] else { return }
        try await change([]) { isAlone in
            try await app.client.selectAccount(user)
            guard isAlone() else { return }
            let current = accounts?.entry(nil)?.account.subject
            world.require(current == user, "\(user) was selected, but \(current ?? "no user") is the current user")
        }
    }

    private func signOut(at index: Int) async throws {
        guard let app = apps[index] else { return }
        try await change(app.account.map { [$0] } ?? Set(Self.users)) { _ in
            world.note("\(app.account ?? "the current user") signs out")
            let signOut = try await app.client.signOut()
            guard let removed = signOut.credential, let grant = SimulatedProvider.grant(of: removed) else { return }
            world.note("grant \(grant) is signed out")
            world.require(!records.isStored(grant), "grant \(grant) is stored after its sign-out")
            apps[index]?.signOuts[grant] = simulation.now
        }
    }

    // MARK: The record

    private let digest = RecordKey(name: "default", issuer: SimulatedProvider.issuer, clientID: "client").digest

    /// The stored accounts; nil if there are none.
    private var accounts: StoredAccounts? {
        records.bytes(of: digest).flatMap { try? StoredAccounts(serialized: $0) }
    }

    // MARK: Afterwards

    package func checkThatNothingIsLeft() {
        for app in apps.values.sorted(by: { $0.process.index < $1.process.index }) {
            let process = "P\(app.process.index)"
            world.require(app.callers == 0, "\(app.callers) calls of \(process) never returned")
            world.require(!app.client.hasUnfinishedWork, "\(process) has unfinished work")
            world.require(simulation.waits(of: app.process) == 0, "\(process) has pending waits")
        }
        world.require(!records.hasLease, "a lease is held")
    }

    /// Checks that each sign-in that was stored, or that a running process has retained, is in the record, unless its end was requested.
    private func checkThatNoAccountIsLost() {
        let retained = apps.values.reduce(into: [Int: AccountPolicy]()) { $0.merge($1.retained) { first, _ in first } }
        for (grant, given) in provider.grants.enumerated() where given.end == nil && !mayEnd.contains(grant) {
            guard confirmed.contains(grant) || retained[grant] != nil, !records.isStored(grant) else { continue }
            // Its policy may have rejected the retained sign-in.
            if retained[grant] == .sameAccount { continue }
            world.require(
                false,
                "grant \(grant) of \(given.user) is not stored, although nothing has ended its session"
            )
        }
    }

    /// Checks that each user with a valid session gets tokens.
    private func useAtRest(at index: Int) async throws {
        guard let app = apps[index] else { return }
        for user in [nil] + Self.users {
            do {
                try await use(user, at: index)
            } catch let error as AuthError where error.code == .leaseBusy {
                // Each process refreshes the tokens of all accounts, so waiting for the shared lease may exceed a call's timeout.
                try? await simulation.clock.sleep(for: .seconds(20))
                return try await useAtRest(at: index)
            } catch let error as AuthError {
                guard let credential = accounts?.entry(user ?? app.account)?.credential,
                    let grant = SimulatedProvider.grant(of: credential), provider.grants[grant].end == nil
                else { continue }
                world.require(false, "\(user ?? "the current user") fails (\(error)), although grant \(grant) is valid")
            }
        }
    }

    private static func state(of user: String?) -> String { "\(user ?? "an unknown user") is signed in" }

    /// Checks that the last state that each observer has received is the stored one.
    private func checkStates() {
        for app in apps.values.sorted(by: { $0.process.index < $1.process.index }) {
            let stored =
                switch accounts?.entry(app.account) {
                case .signedIn(let credential)?: Self.state(of: credential.account.subject)
                case .ended?: "ended"
                case nil: "signed out"
                }
            let last = app.state ?? stored
            world.require(
                last == stored,
                "an observer in P\(app.process.index) has last received \(last), but the state is \(stored)"
            )
        }
    }
}
