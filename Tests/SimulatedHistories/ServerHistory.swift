import AuthFlow
import AuthFlowEssentials
import AuthFlowServer
package import AuthFlowSimulation

/// A simulated history of a web application: several processes serve the browsers of two users, and the provider ends sessions.
package final class ServerHistory: History, @unchecked Sendable {  // All jobs of a simulation run on one thread.
    /// A process of the application.
    private struct Server {
        let process: Simulation.Process
        let sessions: SessionServer
        var requests = 0
    }

    package let setting: HistorySetting
    package private(set) var calls = 0
    package var isOver = false
    private let browsers: [Browser]
    private var servers: [Int: Server] = [:]
    private var rules: SessionRules
    private var options = SessionServerOptions(origin: Browser.origin)
    /// The authorization responses that browsers have received, which may be replayed in the same or another browser.
    private var redirects: [(parameters: String, code: Int)] = []

    /// - Parameters:
    ///   - seed: The seed, which determines the whole history.
    ///   - recordsTrace: Whether the trace of the simulation is recorded.
    package init(seed: UInt64, recordsTrace: Bool = false) {
        setting = HistorySetting(seed: seed, recordsTrace: recordsTrace)
        let simulation = setting.simulation
        browsers = (0...(1 + simulation.random.next() % 3)).map { Browser(name: "B\($0)") }
        if simulation.random.happens(0.2) { options.sessionsPerUser = 1 + Int(simulation.random.next() % 2) }
        rules = SessionRules(world: setting.world, provider: setting.provider, limit: options.sessionsPerUser)
        provider.mayRevoke = { [unowned self] in rules.mayRevoke($0) }
    }

    package func run() -> String? {
        let count = 1 + Int(simulation.random.next() % 3)
        for _ in 0..<count { startServer() }
        simulation.begin(in: .world) { [self] in await endSessions() }
        simulation.begin(in: .world) { [self] in await makeTrouble() }
        for browser in browsers { simulation.begin(in: .world) { [self] in await use(browser) } }
        let busy = simulation.random.duration(.seconds(60), .seconds(240))
        return letTimePass(busy) {
            for browser in browsers {
                simulation.begin(in: .world) { [self] in await ask(for: browser, isAtRest: true) }
            }
        }
    }

    // MARK: Processes

    package var processes: [Simulation.Process] { servers.keys.sorted().compactMap { servers[$0]?.process } }

    package func forget(_ process: Simulation.Process) { servers[process.index] = nil }

    package func startServer() {
        let process = simulation.startProcess()
        let host = simulation.host(of: process, skew: simulation.random.duration(.seconds(-2), .seconds(2)))
        do {
            let sessions = try provider.application(at: process, host, records, options: options)
            servers[process.index] = Server(process: process, sessions: sessions)
        } catch {
            world.require(false, "the application does not start: \(error)")
        }
    }

    // MARK: Requests

    /// Runs work for a request in a random process.
    /// - Returns: The result; nil if there is no result within two minutes.
    private func send<Value: Sendable>(
        _ work: @escaping @Sendable (_ sessions: SessionServer, _ process: Simulation.Process) async -> Value
    ) async -> Value? {
        guard let index = servers.keys.sorted().randomElement(using: &simulation.random), let server = servers[index]
        else { return nil }
        servers[index]?.requests += 1
        return await unsafe withUnsafeContinuation { (continuation: UnsafeContinuation<Value?, Never>) in
            let answer = Answer { unsafe continuation.resume(returning: $0) }
            simulation.begin(in: server.process) { [self] in
                let value = await work(server.sessions, server.process)
                servers[index]?.requests -= 1
                calls += 1
                answer.give(value)
            }
            simulation.begin(in: .world) { [simulation] in
                try? await simulation.clock.sleep(for: .seconds(120))
                answer.give(nil)
            }
        }
    }

    /// Delivers only the first result that it receives.
    private final class Answer<Value: Sendable>: @unchecked Sendable {  // All jobs of a simulation run on one thread.
        private var receive: ((Value?) -> Void)?

        init(_ receive: @escaping (Value?) -> Void) { self.receive = receive }

        func give(_ value: Value?) {
            receive?(value)
            receive = nil
        }
    }

    // MARK: Users

    private func use(_ browser: Browser) async {
        while !isOver {
            await waitForNextCall()
            guard !isOver else { return }
            let action = randomAction
            // Actions overlap, as in several tabs.
            simulation.begin(in: .world) { [self] in await action(self, browser) }
        }
    }

    private var randomAction: @Sendable (ServerHistory, Browser) async -> Void {
        switch simulation.random.next() % 100 {
        case 0..<62: { await $0.ask(for: $1) }
        case 62..<84: { await $0.signIn($1) }
        case 84..<90: { await $0.signOut($1, everywhere: false) }
        case 90..<93: { await $0.signOut($1, everywhere: true) }
        case 93..<97: { await $0.repeatRedirect($1) }
        default: { await $0.endUserSession(of: $1) }
        }
    }

    /// Sends a request that needs tokens.
    private func ask(for browser: Browser, isAtRest: Bool = false) async {
        guard let cookie = browser.session else { return }
        let request = browser.request(.get, "/api")
        world.note("\(browser.name) requests data")
        let result = await send { [self] sessions, process in
            let began = simulation.now
            do {
                guard let session = try await sessions.session(of: request) else {
                    rules.hasNoSession(cookie)
                    return nil as (any Error)?
                }
                let tokens = try await sessions.freshTokens(for: session)
                rules.gets(tokens, session.identity?.subject, cookie, at: process, since: began)
                return nil
            } catch let error as AuthError where error.code == .loginRequired {
                rules.hasNoSession(cookie)
                return nil
            } catch {
                world.note("\(browser.name) gets no data: \(error)")
                return error
            }
        }
        guard isAtRest else { return }
        world.require(result != nil, "\(browser.name) waits forever")
        if case .some(.some(let error)) = result { world.require(false, "\(browser.name) is not served: \(error)") }
    }

    private func signIn(_ browser: Browser) async {
        let session = browser.session
        let begins = browser.request(.get, "/login")
        let response = await send { sessions, _ in await sessions.response(to: begins) }
        guard let response = response ?? nil else { return }
        browser.receive(response)
        guard let url = response.head.headerFields[.location] else {
            world.note("\(browser.name) cannot sign in: \(response.head.status)")
            return
        }
        browser.signIns.begun += 1
        browser.signIns.inProgress += 1
        defer { browser.signIns.inProgress -= 1 }
        try? await simulation.clock.sleep(for: simulation.random.duration(.milliseconds(50), .seconds(20)))
        let isNew = browser.userSession.map { provider.userSessions[$0].isEnded } ?? true
        if isNew || simulation.random.happens(0.2) {
            let user = ["alice", "bob"].randomElement(using: &simulation.random) ?? "alice"
            browser.userSession = provider.beginSession(of: user)
        }
        guard let userSession = browser.userSession,
            let redirect = provider.authorize(url, in: userSession, of: browser.name)
        else {
            world.require(false, "an authorization request is incomplete")
            return
        }
        redirects.append(redirect)
        await finishSignIn(browser, redirect.parameters, redirect.code, after: session)
    }

    private func finishSignIn(_ browser: Browser, _ parameters: String, _ code: Int, after session: String?) async {
        // The browser's session at the start of the sign-in, and its current session.
        let old = [session, browser.session].compactMap { $0 }
        let request = browser.request(.get, "/callback?\(parameters)")
        world.note("\(browser.name) returns with code.\(code)")
        rules.mayEnd(old)
        let signIns = browser.signIns
        let response = await send { [self] sessions, process in
            let response = await sessions.response(to: request)
            if let response, let cookie = SessionServerCookie.session(in: response) {
                rules.begins(cookie, code: code, in: browser.name, after: old, at: process)
                // Each of the browser's other sign-ins ends this session when it succeeds.
                let isAlone = signIns.inProgress <= 1 && browser.signIns.begun == signIns.begun
                if !isAlone { rules.mayEnd([cookie]) }
            }
            return response
        }
        guard let response = response ?? nil else { return }
        world.note("\(browser.name) receives \(response.head.status.code)")
        if let cookie = SessionServerCookie.session(in: response) { rules.isDelivered(cookie) }
        browser.receive(response)
    }

    /// Replays an authorization response, or injects it into another user's browser, like an attacker who wants to sign that user in to the
    /// attacker's account (login CSRF).
    private func repeatRedirect(_ browser: Browser) async {
        guard let redirect = redirects.suffix(6).randomElement(using: &simulation.random) else { return }
        // If the first attempt failed, this attempt may succeed, so it counts as a sign-in.
        browser.signIns.begun += 1
        browser.signIns.inProgress += 1
        defer { browser.signIns.inProgress -= 1 }
        await finishSignIn(browser, redirect.parameters, redirect.code, after: nil)
    }

    private func signOut(_ browser: Browser, everywhere: Bool) async {
        guard let cookie = browser.session else { return }
        let request = browser.request(.post, everywhere ? "/logout?everywhere=1" : "/logout")
        world.note("\(browser.name) signs out\(everywhere ? " everywhere" : "")")
        let signOut = rules.beginSignOut(cookie, everywhere: everywhere)
        let response = await send { [self] sessions, process in
            let response = await sessions.response(to: request)
            if let response, response.head.status == .seeOther { rules.end(signOut, at: process) }
            return response
        }
        rules.finish(signOut)
        if let response = response ?? nil {
            world.note("\(browser.name) receives \(response.head.status.code)")
            browser.receive(response)
        }
    }

    // MARK: The provider

    /// Signs users out at the provider from time to time.
    private func endSessions() async {
        while !isOver {
            try? await simulation.clock.sleep(for: simulation.random.duration(.seconds(5), .seconds(60)))
            guard !isOver, !provider.userSessions.isEmpty else { continue }
            await end(Int(simulation.random.next() % UInt64(provider.userSessions.count)))
        }
    }

    /// The browser's user signs out at the provider.
    private func endUserSession(of browser: Browser) async {
        guard let session = browser.userSession else { return }
        browser.userSession = nil
        await end(session)
    }

    /// Ends a session at the provider, which sends the logout token up to five times, until the application confirms
    /// that its own sessions have ended.
    private func end(_ session: Int) async {
        let subject = SimulatedProvider.LogoutSubject.allCases.randomElement(using: &simulation.random) ?? .user
        let logout = provider.endSession(session, of: subject)
        rules.beginLogout(of: provider.userSessions[session].user, at: logout.issuedAt)
        try? await simulation.clock.sleep(for: world.latency(.seconds(20)))
        for _ in 0..<5 {
            let body = Array("logout_token=\(logout.token)".utf8)
            let request = HTTPRequest(
                method: .post,
                scheme: "https",
                authority: "app.example",
                path: "/backchannel-logout"
            )
            let status = await send { [self] sessions, process in
                let status = await sessions.response(to: request, body: body)?.head.status
                world.note("the response to the logout token has status \(status?.code ?? 0)")
                if status == .ok { rules.end(logout.grants, at: process) }
                return status
            }
            // Some providers resend a token that was already accepted, and an attacker who has obtained the token can replay it.
            if status == .ok, simulation.random.happens(0.8) { return }
            try? await simulation.clock.sleep(for: simulation.random.duration(.seconds(1), .seconds(20)))
        }
    }

    // MARK: Afterwards

    package func checkThatNothingIsLeft() {
        for server in servers.values.sorted(by: { $0.process.index < $1.process.index }) {
            let process = "P\(server.process.index)"
            world.require(server.requests == 0, "\(server.requests) requests of \(process) wait forever")
            world.require(!server.sessions.isBusy, "\(process) has unfinished work")
            world.require(simulation.waits(of: server.process) == 0, "\(process) has pending waits")
        }
        world.require(!records.hasLease, "a lease is held")
        for grant in rules.ended where records.isStored(grant) {
            world.require(false, "grant \(grant) is stored although its session has ended")
        }
        guard setting.kind == "calm" else { return }
        for (user, grants) in Dictionary(grouping: provider.grants.indices, by: { provider.grants[$0].user }) {
            let count = grants.count(where: records.isStored)
            // A session that is used while another sign-in completes is not ended by that sign-in, but by the next one.
            world.require(count <= options.sessionsPerUser + 1, "\(user) has \(count) sessions")
        }
    }
}
