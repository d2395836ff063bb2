import AuthFlow
import AuthFlowEssentials
package import AuthFlowSimulation

/// A simulated history of protected resources: several processes of one user send requests, which register clients, open sign-in pages and request more scopes.
package final class ResourceHistory: History, @unchecked Sendable {  // All jobs of a simulation run on one thread.
    /// A process of the user, with a client for each resource.
    private struct Server {
        let process: Simulation.Process
        let clients: [ResourceClient]
        var callers = 0
    }

    /// A page that is shown to the user.
    private struct Page {
        let number: Int
        let process: Simulation.Process
        let resource: String
        let openedAt: Duration
    }

    package let setting: HistorySetting
    package private(set) var calls = 0
    package var isOver = false
    private let resources: SimulatedResources
    private var servers: [Int: Server] = [:]
    private var pages: [Page] = []
    /// All pages that were opened.
    private var opened: [Page] = []
    /// The maximum number of pages; nil for a history in which the user also starts sign-ins, whose pages are not limited.
    private let limit: Int?
    private let cooldown: Duration

    /// - Parameters:
    ///   - seed: The seed, which determines the whole history.
    ///   - recordsTrace: Whether the trace of the simulation is recorded.
    package init(seed: UInt64, recordsTrace: Bool = false) {
        setting = HistorySetting(seed: seed, recordsTrace: recordsTrace)
        let simulation = setting.simulation
        let urls =
            simulation.random.happens(0.4)
            ? ["https://api.example/mcp", "https://other.example/mcp"] : ["https://api.example/mcp"]
        limit = simulation.random.happens(0.2) ? 3 : nil
        cooldown = simulation.random.happens(0.5) ? .seconds(30) : .zero
        resources = SimulatedResources(urls, provider: setting.provider, records: setting.records)
        provider.resources = resources
        // A sign-in whose write failed is stored later, and the record does not show that it was removed in the meantime.
        setting.world.mayStoreAgain = setting.world.faults.store > 0
    }

    package func run() -> String? {
        let count = 1 + Int(simulation.random.next() % 4)
        for _ in 0..<count { startServer() }
        simulation.begin(in: .world) { [self] in await makeTrouble() }
        if world.faults.ends > 0 { simulation.begin(in: .world) { [self] in await forgetClients() } }
        let busy = simulation.random.duration(.seconds(60), .seconds(300))
        let path = ["", "", "/admin", "/payments"].randomElement(using: &simulation.random) ?? ""
        let violation = letTimePass(busy) { begin { try await $0.sendAtRest($1, path) } }
        guard violation == nil, setting.kind == "calm" else { return violation }
        checkThatNothingIsOrphaned()
        return world.violation
    }

    // MARK: Processes

    package var processes: [Simulation.Process] { servers.keys.sorted().compactMap { servers[$0]?.process } }

    package func forget(_ process: Simulation.Process) { servers[process.index] = nil }

    package func startServer() {
        let process = simulation.startProcess()
        let host = simulation.host(of: process, skew: simulation.random.duration(.seconds(-2), .seconds(2)))
        var options = ResourceClient.Options()
        options.pagesPerHour = limit ?? 1000
        options.cooldownAfterFailure = cooldown
        let store = records.store(of: process, host: host)
        do {
            let clients = try resources.urls.map { url in
                try ResourceClient(
                    url,
                    methods: [.userAgent(Visitor(history: self, process: process, resource: url))],
                    store: store,
                    options: options,
                    transport: SimulatedProvider.Transport(provider, process),
                    host: host,
                    observer: { [world] event in world.note("event: \(event)") }
                )
            }
            servers[process.index] = Server(process: process, clients: clients)
            simulation.begin(in: process) { [self] in await serve(process.index) }
        } catch {
            world.require(false, "the program does not start: \(error)")
        }
    }

    private func forgetClients() async {
        while !isOver {
            try? await simulation.clock.sleep(for: simulation.random.duration(.seconds(20), .seconds(200)))
            if !isOver { resources.forgetClient() }
        }
    }

    // MARK: Calls

    private typealias Call = @Sendable (ResourceHistory, ResourceClient) async throws -> Void

    private func serve(_ index: Int) async {
        while !isOver {
            await waitForNextCall()
            guard !isOver, let client = servers[index]?.clients.randomElement(using: &simulation.random) else { return }
            begin(randomCall, client, at: index)
        }
    }

    /// Starts a call for each resource in every process.
    private func begin(_ call: @escaping Call) {
        for index in servers.keys.sorted() {
            for client in servers[index]?.clients ?? [] { begin(call, client, at: index) }
        }
    }

    private func begin(_ call: @escaping Call, _ client: ResourceClient, at index: Int) {
        guard let process = servers[index]?.process else { return }
        servers[index]?.callers += 1
        simulation.begin(in: process) { [self] in
            do { try await call(self, client) } catch { world.note("a call fails: \(error)") }
            servers[index]?.callers -= 1
            calls += 1
        }
    }

    private var randomCall: Call {
        switch simulation.random.next() % 100 {
        case 60..<66: { try await $0.send(to: $1, path: "/admin") }
        case 66..<70: { try await $0.send(to: $1, path: "/payments") }
        case 70..<76: { try await $0.cancelSend(to: $1) }
        case 76..<82: { _ = try await $1.freshCredential() }
        case 82..<86: { _ = try await $1.status() }
        case 86..<92 where limit == nil: { _ = try await $1.signIn() }
        case 92..<96: { try await $0.signOut(of: $1) }
        default: { try await $0.send(to: $1) }
        }
    }

    @discardableResult
    private func send(to client: ResourceClient, path: String = "") async throws -> Int {
        world.note("a request to \(client.address)\(path)")
        let status = try await client.send(TransportRequest(.get, Endpoint("\(client.address)\(path)"))).status
        world.note("the response from \(client.address)\(path) has status \(status)")
        return status
    }

    private func cancelSend(to client: ResourceClient) async throws {
        let send = Task { try await self.send(to: client) }
        try? await simulation.clock.sleep(for: simulation.random.duration(.zero, .seconds(10)))
        send.cancel()
        _ = try await send.value
    }

    private func signOut(of client: ResourceClient) async throws {
        let present = resources.validGrants(for: client.address.url).filter(records.isStored)
        world.note("the user signs out of \(client.address): grants \(present)")
        let signOut = try await client.signOut()
        world.note("\(client.address): \(signOut)")
        for grant in present where !records.mayStoreAgain(grant) {
            world.require(!records.isStored(grant), "grant \(grant) is stored after its sign-out")
        }
    }

    private func sendAtRest(_ client: ResourceClient, _ path: String) async throws {
        do {
            let status = try await send(to: client, path: path)
            world.require(status == 200, "\(client.address)\(path) responds with \(status)")
        } catch let error as AuthError where error.code == .leaseBusy {
            // Another process is waiting for the provider.
            try? await simulation.clock.sleep(for: .seconds(20))
            try await sendAtRest(client, path)
        } catch let error as AuthError {
            // A page is counted before it is opened, even if its process is then killed.
            let isLimited =
                error.code == .loginRequired && limit != nil && "\(error)".contains("sign-in pages within an hour")
            world.require(isLimited, "a request to \(client.address)\(path) is not served: \(error)")
        }
    }

    // MARK: The user

    /// The user, in a browser.
    private struct Visitor: UserAgent {
        let history: ResourceHistory
        let process: Simulation.Process
        let resource: String

        nonisolated(nonsending) func withRedirectSession<Return: Sendable>(
            _ options: RedirectOptions,
            _ body: nonisolated(nonsending) (RedirectSession) async throws -> Return
        ) async throws -> Return {
            try await body(
                RedirectSession(redirectURI: options.redirectURI.uri) { url in
                    try await history.visit(url, resource, at: process)
                }
            )
        }
    }

    private func visit(_ url: String, _ resource: String, at process: Simulation.Process) async throws -> String {
        let others = pages.filter { page in
            page.resource == resource && !simulation.isKilled(page.process)
                && !couldLoseLease(page)
        }
        world.require(
            others.isEmpty,
            "two pages for \(resource) are open, of P\(others.first?.process.index ?? 0) and P\(process.index)"
        )
        let number = opened.count
        let page = Page(number: number, process: process, resource: resource, openedAt: simulation.now)
        pages.append(page)
        opened.append(page)
        if let limit {
            let counted = opened.filter { $0.resource == resource }
            world.require(counted.count <= limit, "more than \(limit) pages for \(resource) were opened")
        }
        defer { pages.removeAll { $0.number == number } }
        world.note("page \(number) is open for \(resource)")
        if !isOver, simulation.random.happens(0.04) {
            // The user ignores the page.
            try await simulation.clock.sleep(for: .seconds(3600))
        }
        try await simulation.clock.sleep(for: simulation.random.duration(.seconds(1), .seconds(30)))
        let isAccepted = isOver || !simulation.random.happens(0.1)
        world.note("page \(number) is \(isAccepted ? "accepted" : "denied")")
        return resources.redirect(from: url, isAccepted: isAccepted)
    }

    /// Whether the process that opened a page may have lost its lease since then, so that another process may open a page.
    private func couldLoseLease(_ page: Page) -> Bool {
        world.couldNotWrite(page.process, since: page.openedAt, shortest: .seconds(4))
    }

    // MARK: Afterwards

    package func checkThatNothingIsLeft() {
        for server in servers.values.sorted(by: { $0.process.index < $1.process.index }) {
            let process = "P\(server.process.index)"
            world.require(server.callers == 0, "\(server.callers) calls of \(process) never returned")
            world.require(!server.clients.contains(where: \.hasUnfinishedWork), "\(process) has unfinished work")
            world.require(simulation.waits(of: server.process) == 0, "\(process) has pending waits")
        }
        world.require(!records.hasLease, "a lease is held")
        world.require(pages.allSatisfy { simulation.isKilled($0.process) }, "a page is open, but nothing waits for it")
    }

    /// Without faults, every valid grant is stored, and each resource has one registration. The tokens of a grant that a newer sign-in has
    /// replaced are not revoked, because some providers would also revoke the new tokens.
    private func checkThatNothingIsOrphaned() {
        for url in resources.urls {
            let lost = resources.validGrants(for: url).filter { grant in
                let isReplaced = provider.grants.indices.contains { other in
                    other > grant && provider.grants[other].resources == [url] && records.newest[other] != nil
                }
                return !records.isStored(grant) && !isReplaced
            }
            world.require(lost.isEmpty, "grants \(lost) for \(url) are valid, but neither stored nor revoked")
        }
        let count = resources.clients.count
        world.require(
            count <= resources.urls.count,
            "\(count) clients were registered for \(resources.urls.count) resources"
        )
    }
}
