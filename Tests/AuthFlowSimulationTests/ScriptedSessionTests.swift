import AuthFlow
import AuthFlowServer
import AuthFlowSimulation
import Foundation
import HTTPTypes
import SimulatedHistories
import Testing

/// Regression tests for histories of a web application that once violated a rule, each with the order of events that
/// caused the violation.
@Suite struct ScriptedSessionTests {
    /// Two processes of an application, their store and their provider, without faults other than those in the script.
    private final class Stage: @unchecked Sendable {  // All jobs of a simulation run on one thread.
        let simulation: Simulation
        let world: World
        let provider: SimulatedProvider
        let records: SimulatedRecords
        let browser = Browser(name: "browser")
        private var servers: [(process: Simulation.Process, sessions: SessionServer)] = []
        private var response: TransportResponse?
        /// The last request.
        private(set) var request: Task<TransportResponse?, Never>?
        var statuses: [Int] = []
        /// The number of scripted calls so far.
        var scriptedCalls = 0
        var logoutToken: String?

        /// - Parameter seed: Determines the latencies.
        init(seed: UInt64) throws {
            simulation = Simulation(seed: seed, recordsTrace: true)
            world = World(simulation: simulation, faults: Faults())
            provider = SimulatedProvider(world: world)
            records = SimulatedRecords(world: world)
            for _ in 0..<2 {
                let process = simulation.startProcess()
                servers.append((process, try provider.application(at: process, simulation.host(of: process), records)))
            }
        }

        /// Requests a page, and advances the simulation.
        func open(_ path: String, wait seconds: Int = 30) -> TransportResponse? {
            let request = browser.request(.get, path)
            send(request, [], at: 0, wait: seconds)
            if let response { browser.receive(response) }
            return response
        }

        /// Sends a form to a process, and advances the simulation.
        func post(_ path: String, _ body: String, at server: Int, wait seconds: Int = 60) {
            // Only the browser's requests contain cookies. The browser does not process the response, so it still sends the
            // cookies afterwards, like a program that has copied them.
            let request =
                path == "/logout"
                ? browser.request(.post, path)
                : HTTPRequest(method: .post, scheme: "https", authority: "app.example", path: path)
            send(request, Array(body.utf8), at: server, wait: seconds)
        }

        /// Whether a request from the browser to a process gets tokens.
        func getsTokens(at server: Int) -> Bool {
            let (process, sessions) = servers[server]
            let request = browser.request(.get, "/api")
            scriptedCalls = 0
            simulation.begin(in: process) { [self] in
                guard let session = try? await sessions.session(of: request) else { return }
                if (try? await sessions.freshTokens(for: session)) != nil { scriptedCalls = 1 }
            }
            simulation.run(until: simulation.now + .seconds(2))
            return scriptedCalls == 1
        }

        private func send(_ request: HTTPRequest, _ body: [UInt8], at server: Int, wait seconds: Int) {
            let (process, sessions) = servers[server]
            response = nil
            simulation.begin(in: process) { [self] in
                let task = Task { await sessions.response(to: request, body: body) }
                self.request = task
                response = await task.value
            }
            simulation.run(until: simulation.now + .seconds(seconds))
            statuses.append(response?.head.status.code ?? 0)
        }
    }

    private func history<Value: Sendable>(
        seed: UInt64 = 1,
        _ body: @escaping @Sendable (Stage) throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            Thread { continuation.resume(with: Result { try body(try Stage(seed: seed)) }) }.start()
        }
    }

    @Test func theSessionOfAFailedSignInIsRemovedOnceTheStoreRecovers() async throws {
        let (statuses, isStoredAtFirst, isStored) = try await history { stage in
            let login = try #require(stage.open("/login")?.head.headerFields[.location])
            let redirect = try #require(
                stage.provider.authorize(login, in: stage.provider.beginSession(of: "alice"), of: "browser")
            )
            // After the session has been written, the store rejects reads and removals for some time.
            stage.records.script = { [unowned stage] call, _ in
                let isAway = stage.records.isStored(0) && stage.simulation.now < .seconds(65)
                return ["read", "remove"].contains(call) && isAway ? .refused : nil
            }
            _ = stage.open("/callback?\(redirect.parameters)")
            let isStoredAtFirst = stage.records.isStored(0)
            stage.simulation.run(until: .seconds(600))
            return (stage.statuses, isStoredAtFirst, stage.records.isStored(0))
        }
        #expect(statuses == [303, 503])
        #expect(isStoredAtFirst)
        #expect(!isStored)
    }

    /// The database executes the first statement of the sign-out before or after its connection is lost, or not at all.
    @Test(arguments: [SimulatedTable.Fault.lostBefore, .lostAfter, .late])
    func aSignOutSucceedsAlthoughItsFirstStatementLosesItsConnection(_ fault: SimulatedTable.Fault) async throws {
        let (statuses, isStored) = try await history { stage in
            let login = try #require(stage.open("/login")?.head.headerFields[.location])
            let redirect = try #require(
                stage.provider.authorize(login, in: stage.provider.beginSession(of: "alice"), of: "browser")
            )
            _ = stage.open("/callback?\(redirect.parameters)")
            stage.records.script = { [unowned stage] call, _ in
                guard call == "claim" else { return nil }
                defer { stage.scriptedCalls += 1 }
                return stage.scriptedCalls == 0 ? fault : nil
            }
            stage.post("/logout", "", at: 0)
            return (stage.statuses, stage.records.isStored(0))
        }
        #expect(statuses == [303, 200, 303])
        #expect(!isStored)
    }

    enum Failure: CaseIterable { case refused, responseLost, late, killed }

    /// A provider resends a logout token after any response but 200. The ID Token and the logout token were issued in the same second, so the time
    /// alone does not show that the token ends the session.
    @Test(arguments: Failure.allCases) func aResentLogoutTokenEndsSessionsThatAFailedAttemptLeft(_ failure: Failure)
        async throws
    {
        for failedCall in 0..<24 {
            let (statuses, wasStored, isStored) = try await history { stage in
                let login = try #require(stage.open("/login")?.head.headerFields[.location])
                let session = stage.provider.beginSession(of: "alice")
                let redirect = try #require(stage.provider.authorize(login, in: session, of: "browser"))
                stage.records.script = { [unowned stage] _, _ in
                    if stage.logoutToken == nil, !stage.provider.grants.isEmpty {
                        stage.logoutToken = stage.provider.endSession(session, of: .user).token
                    }
                    return nil
                }
                _ = stage.open("/callback?\(redirect.parameters)")
                let wasStored = stage.records.isStored(0)
                stage.records.script = { [unowned stage] _, process in
                    defer { stage.scriptedCalls += 1 }
                    guard stage.scriptedCalls == failedCall else { return nil }
                    switch failure {
                    case .refused: return .refused
                    case .responseLost: return .lostAfter
                    case .late: return .late
                    case .killed:
                        stage.simulation.kill(process)
                        return nil
                    }
                }
                let form = "logout_token=\(try #require(stage.logoutToken))"
                stage.post("/backchannel-logout", form, at: 0)
                stage.records.script = nil
                if stage.statuses.last != 200 { stage.post("/backchannel-logout", form, at: 1) }
                return (stage.statuses, wasStored, stage.records.isStored(0))
            }
            #expect(wasStored)
            #expect(!isStored, "call \(failedCall) failed; responses: \(statuses)")
            #expect(statuses.last == 200, "call \(failedCall) failed; responses: \(statuses)")
        }
    }

    @Test func aCancelledBackchannelLogoutRequestStillEndsItsSessions() async throws {
        let (statuses, isStored) = try await history { stage in
            let login = try #require(stage.open("/login")?.head.headerFields[.location])
            let session = stage.provider.beginSession(of: "alice")
            let redirect = try #require(stage.provider.authorize(login, in: session, of: "browser"))
            _ = stage.open("/callback?\(redirect.parameters)")
            let token = stage.provider.endSession(session, of: .user).token
            stage.records.script = { [unowned stage] call, _ in
                if call == "remove" { stage.request?.cancel() }
                return nil
            }
            stage.post("/backchannel-logout", "logout_token=\(token)", at: 0)
            return (stage.statuses, stage.records.isStored(0))
        }
        #expect(!isStored)
        // The response to a cancelled request does not reach the provider.
        #expect(statuses.prefix(2) == [303, 200])
    }

    /// The message about the end of the session is lost, and the first process fails afterwards.
    @Test(arguments: [("/backchannel-logout", 200), ("/logout", 303)])
    func aProcessThatConfirmsALogoutStopsServingTheEndedSession(
        _ path: String,
        _ status: Int
    ) async throws {
        // With this seed, the store releases the first process's lease before the process is killed.
        let (statuses, before, after) = try await history(seed: 2) { stage in
            let login = try #require(stage.open("/login")?.head.headerFields[.location])
            let session = stage.provider.beginSession(of: "alice")
            let redirect = try #require(stage.provider.authorize(login, in: session, of: "browser"))
            _ = stage.open("/callback?\(redirect.parameters)")
            let before = stage.getsTokens(at: 1)
            let form = "logout_token=\(stage.provider.endSession(session, of: .user).token)"
            stage.records.script = { [unowned stage] call, process in
                guard call == "remove" else { return nil }
                stage.world.faults.store = 1  // No process is notified.
                stage.simulation.kill(process)
                return nil
            }
            stage.post("/backchannel-logout", form, at: 0, wait: 3)
            stage.world.faults.store = 0
            stage.records.script = nil
            stage.post(path, form, at: 1, wait: 3)
            return (stage.statuses, before, stage.getsTokens(at: 1))
        }
        #expect(statuses.last == status)
        #expect(before)
        #expect(!after)
    }
}
