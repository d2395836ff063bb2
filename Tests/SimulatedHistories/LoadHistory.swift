import AuthFlow
import AuthFlowEssentials
package import AuthFlowSimulation
import Foundation

/// Many processes that serve many sessions of a web application, to measure how many requests reach the provider and the database: in
/// steady state, after a restart, and during and after an outage.
package final class LoadHistory: @unchecked Sendable {  // All jobs of a simulation run on one thread.
    /// The simulated event.
    package enum Event: String, CaseIterable, Sendable {
        /// No event.
        case steady
        /// All processes are killed, and restart within 30 seconds.
        case restart
        /// The provider responds with status 503 for an hour.
        case provider
        /// The database is unavailable for ten minutes.
        case database
    }

    /// The size of the simulated deployment. The defaults are assumptions that docs/servers.md describes.
    package struct Size: Sendable {
        package var processes: Int
        package var sessions: Int
        /// The lifetime of access tokens.
        package var lifetime = Duration.seconds(3600)
        /// The mean time between consecutive requests of a session.
        package var pause = Duration.seconds(300)
        /// The number of token requests per second per session above which the provider responds with status 429: twice the steady-state rate.
        package var limit = 2.0 / 3600

        package init(processes: Int, sessions: Int) {
            self.processes = processes
            self.sessions = sessions
        }
    }

    /// The measurements of one minute.
    package struct Minute: Sendable {
        /// The number of user requests, and the number of those that received no token.
        package var requests = 0
        package var failures = 0
        /// The number of requests that the provider received, and the number of those to which it responded with
        /// tokens.
        package var tokenRequests = 0
        package var refreshes = 0
        /// The number of sessions that were lost because a process was killed between a refresh and its write.
        package var lost = 0
        /// The number of database calls.
        package var storeCalls = 0
        /// The latencies of user requests, in milliseconds, including requests that received no token.
        var waits: [Double] = []

        /// A quantile of the latencies, in milliseconds: 0.5 for the median.
        package func wait(of part: Double) -> Double {
            let sorted = waits.sorted()
            return sorted.isEmpty ? 0 : sorted[min(sorted.count - 1, Int(Double(sorted.count) * part))]
        }
    }

    /// A simulated provider, in which the number of a session identifies its grant.
    private final class Provider: HTTPTransport, @unchecked Sendable {  // All jobs of a simulation run on one thread.
        private static let latencies = Latencies(median: .milliseconds(120), slow: .milliseconds(1000))

        unowned let history: LoadHistory
        private var serials: [UInt32]
        private var second: Int64 = 0
        private var requestsInSecond = 0
        var isDown = false

        init(_ history: LoadHistory, sessions: Int) {
            self.history = history
            serials = Array(repeating: 0, count: sessions)
        }

        func send(_ call: TransportRequest) async throws -> TransportResponse {
            let simulation = history.simulation
            try call.willSend()
            return try await simulation.inWorld { [self] in
                try await simulation.clock.sleep(for: Self.latencies.draw(&simulation.random))
                let response = answer(to: call)
                try await simulation.clock.sleep(for: .milliseconds(10))
                return response
            }
        }

        private func answer(to call: TransportRequest) -> TransportResponse {
            history.change { $0.tokenRequests += 1 }
            guard !isDown else { return SimulatedProvider.response(503) }
            let now = Int64(history.simulation.now / .seconds(1))
            if now != second { (second, requestsInSecond) = (now, 0) }
            requestsInSecond += 1
            let limit = Int(history.size.limit * Double(history.size.sessions)) + 1
            guard requestsInSecond <= limit else { return SimulatedProvider.response(429, retryAfter: 30) }
            let form = FormURLEncoding.decode(String(decoding: call.body, as: UTF8.self))
            guard let parts = SimulatedProvider.parts(of: form?["refresh_token"] ?? ""),
                parts.serial == Int(serials[parts.grant])
            else {
                // RFC 9700 section 4.14.2.
                history.change { $0.lost += 1 }
                return SimulatedProvider.response(400, ["error": "invalid_grant"])
            }
            serials[parts.grant] += 1
            history.change { $0.refreshes += 1 }
            let serial = Int(serials[parts.grant])
            return SimulatedProvider.response(
                200,
                [
                    "access_token": .string("at.\(parts.grant).\(serial).-"),
                    "refresh_token": .string("rt.\(parts.grant).\(serial)"), "token_type": "Bearer",
                    "expires_in": .integer(history.size.lifetime.components.seconds),
                    "user": .string("user \(parts.grant)"),
                ]
            )
        }
    }

    package let simulation: Simulation
    package let size: Size
    package private(set) var minutes: [Minute] = []
    /// The first rule that was violated.
    package var violation: String? { world.violation }
    private let event: Event
    private let world: World
    private let records: SimulatedRecords
    private lazy var provider = Provider(self, sessions: size.sessions)
    private var managers: [(process: Simulation.Process, credentials: CredentialManager)] = []
    private var minuteCalls = 0

    package init(seed: UInt64, _ event: Event, _ size: Size) throws {
        self.event = event
        self.size = size
        simulation = Simulation(seed: seed)
        world = World(simulation: simulation, faults: Faults())
        world.storeLatencies = Latencies(median: .microseconds(500), slow: .milliseconds(5))
        records = SimulatedRecords(world: world)
        // The provider ends a session only when a refresh token is reused.
        world.isEnded = { _ in true }
        for _ in 0..<size.processes { try startProcess() }
        try signIn()
    }

    private func startProcess() throws {
        let process = simulation.startProcess()
        let host = simulation.host(of: process)
        let client = OAuthClient(
            server: AuthorizationServer(SimulatedProvider.Adapter(), transport: provider, host: host),
            registration: try ClientRegistration(ClientRegistration.Values(clientID: "client"))
        )
        let credentials = CredentialManager(
            client: client,
            store: records.store(of: process, host: host),
            cacheLimit: 1000,
            refreshesAhead: true
        )
        managers.append((process, credentials))
    }

    /// Stores a credential for each session. The expiry times are evenly distributed, and some of the tokens expire
    /// before their session's next request.
    private func signIn() throws {
        for session in 0..<size.sessions {
            let began = Simulation.epoch - (size.lifetime + size.pause) * simulation.random.fraction() / .seconds(1)
            let credential = SimulatedProvider.credential(
                session,
                of: "user \(session)",
                at: began,
                lifetime: size.lifetime.components.seconds
            )
            var accounts = StoredAccounts()
            accounts.set(.signedIn(credential), isCurrent: true)
            records.begin(
                with: try accounts.serialized(),
                at: managers[0].credentials.recordKey(for: CredentialKey("\(session)"))
            )
        }
    }

    // MARK: Run

    /// Runs the simulation.
    /// - Parameters:
    ///   - minutes: The duration in minutes. The event starts after two minutes.
    ///   - report: Called after each minute.
    package func run(minutes count: Int, report: (Minute) -> Void) {
        simulation.begin(in: .world) { [self] in await letUsersAsk(until: .seconds(60 * count)) }
        for minute in 0..<count {
            minutes.append(Minute())
            if minute == 2 { begin() }
            simulation.run(until: .seconds(60 * (minute + 1))) { world.violation == nil }
            minutes[minute].storeCalls = world.storeCalls - minuteCalls
            minuteCalls = world.storeCalls
            report(minutes[minute])
            minutes[minute].waits = []
        }
    }

    private func begin() {
        switch event {
        case .steady: break
        case .restart:
            for manager in managers { simulation.kill(manager.process) }
            managers = []
            for _ in 0..<size.processes {
                simulation.begin(in: .world) { [self] in
                    try? await simulation.clock.sleep(for: simulation.random.duration(.seconds(1), .seconds(30)))
                    try? startProcess()
                }
            }
        case .provider:
            provider.isDown = true
            simulation.begin(in: .world) { [self] in
                try? await simulation.clock.sleep(for: .seconds(3600))
                provider.isDown = false
            }
        case .database: world.beginOutage(for: .seconds(600))
        }
    }

    private func change(_ body: (inout Minute) -> Void) { body(&minutes[minutes.count - 1]) }

    /// Sends user requests independently of each other, each to a random process.
    private func letUsersAsk(until end: Duration) async {
        let pause = size.pause / Double(size.sessions)
        while simulation.now < end {
            try? await simulation.clock.sleep(for: pause * -log(1 - simulation.random.fraction()))
            let session = "\(simulation.random.next() % UInt64(size.sessions))"
            change { $0.requests += 1 }
            guard let manager = managers.randomElement(using: &simulation.random) else {
                change { $0.failures += 1 }
                continue
            }
            simulation.begin(in: manager.process) { [self] in
                let began = simulation.now
                do {
                    _ = try await manager.credentials.freshTokens(for: session)
                } catch {
                    change { $0.failures += 1 }
                }
                change { $0.waits.append((simulation.now - began) / .milliseconds(1)) }
            }
        }
    }
}
