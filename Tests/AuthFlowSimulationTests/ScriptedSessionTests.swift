import AuthFlow
import AuthFlowServer
import AuthFlowSimulation
import Foundation
import Testing

/// Regression tests for histories of a web application that once violated a rule, each with the order of events that
/// caused the violation.
@Suite struct ScriptedSessionTests {
    /// A process of an application, its store and its provider, without faults except those of a script.
    private final class Stage: @unchecked Sendable {  // All jobs of a simulation run on one thread.
        let simulation = Simulation(seed: 1, recordsTrace: true)
        let provider: SimulatedProvider
        let records: SimulatedRecords
        let browser = Browser(name: "browser")
        let sessions: SessionServer
        let process: Simulation.Process
        private var response: TransportResponse?
        var statuses: [Int] = []

        init() throws {
            let world = World(simulation: simulation, faults: Faults())
            provider = SimulatedProvider(world: world)
            records = SimulatedRecords(world: world)
            process = simulation.startProcess()
            sessions = try provider.application(at: process, simulation.host(of: process), records)
        }

        /// Requests a page, and advances the simulation.
        func open(_ path: String, wait seconds: Int = 30) -> TransportResponse? {
            let request = browser.request(.get, path)
            response = nil
            simulation.begin(in: process) { [self] in
                response = await sessions.response(to: request)
                statuses.append(response?.head.status.code ?? 0)
            }
            simulation.run(until: simulation.now + .seconds(seconds))
            if let response { browser.receive(response) }
            return response
        }
    }

    private func history<Value: Sendable>(_ body: @escaping @Sendable (Stage) throws -> Value) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            Thread { continuation.resume(with: Result { try body(try Stage()) }) }.start()
        }
    }

    @Test func theSessionOfARefusedSignInIsRemovedOnceTheStoreIsBack() async throws {
        let (statuses, isStoredAtFirst, isStored) = try await history { stage in
            let login = try #require(stage.open("/login")?.head.headerFields[.location])
            let redirect = try #require(
                stage.provider.authorize(login, in: stage.provider.beginSession(of: "alice"), of: "browser")
            )
            // Once the session is written, nothing can be read or removed for a while.
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
}
