import AuthFlow
import AuthFlowDatabase
import AuthFlowSimulation
import Foundation
import SimulatedHistories
import Testing

/// Two processes, their store and their provider, without faults other than those in the script.
final class Stage: @unchecked Sendable {  // All jobs of a simulation run on one thread.
    let simulation = Simulation(seed: 1, recordsTrace: true)
    let world: World
    let provider: SimulatedProvider
    let records: SimulatedRecords
    private(set) var processes: [Simulation.Process] = []
    private(set) var managers: [CredentialManager] = []
    var results: [String] = []
    /// The number of scripted calls so far.
    var scriptedCalls = 0

    init() throws {
        world = World(simulation: simulation, faults: Faults())
        provider = SimulatedProvider(world: world)
        records = SimulatedRecords(world: world)
        for _ in 0..<2 {
            let process = simulation.startProcess()
            let host = simulation.host(of: process)
            let server = AuthorizationServer(
                SimulatedProvider.Adapter(),
                transport: SimulatedProvider.Transport(provider, process),
                host: host
            )
            let registration = try ClientRegistration(ClientRegistration.Values(clientID: "client"))
            let client = OAuthClient(server: server, registration: registration)
            processes.append(process)
            managers.append(CredentialManager(client: client, store: records.store(of: process, host: host)))
        }
    }

    var key: RecordKey { managers[0].recordKey(for: CredentialKey("s")) }

    /// The grants of the stored tokens, with the number of each grant's refresh token.
    var stored: [Int: Int] { records.grants(in: key.digest) }

    func credential(isExpired: Bool = false) -> Credential {
        let now = managers[0].client.server.host.now()
        return provider.signIn("alice", session: "s", resources: [], at: isExpired ? now - 3600 : now)
    }

    func signIn(at process: Int) async throws {
        try await managers[process].save(credential(), for: "s")
    }

    /// Runs a task of a process, and records its result under a name.
    func begin(_ name: String, at process: Int, _ work: @escaping @Sendable () async throws -> String) {
        simulation.begin(in: processes[process]) { [self] in
            do {
                results.append("\(name): \(try await work())")
            } catch let error as AuthError {
                results.append("\(name): \(error.code.rawValue)")
            } catch {
                results.append("\(name): \(error)")
            }
        }
    }

    func use(_ name: String, at process: Int) {
        begin(name, at: process) { [self] in try await managers[process].freshTokens(for: "s").accessToken.exposed }
    }

    /// The remaining lifetime of the sign-in's access token, in seconds.
    var lifeLeft: Double { Double(provider.lifetime) - simulation.now / .seconds(1) }

    /// Advances the simulation by a duration.
    func wait(_ seconds: Int) { simulation.run(until: simulation.now + .seconds(seconds)) }

    func signIn() {
        begin("sign-in", at: 0) { [self] in
            try await signIn(at: 0)
            return "stored"
        }
        wait(5)
        results = []
    }
}

/// Regression tests for histories that once violated a rule, each with the order of events that caused the violation.
@Suite struct ScriptedHistoryTests {
    /// Runs a history on a separate thread.
    private func history<Value: Sendable>(_ body: @escaping @Sendable (Stage) throws -> Value) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            Thread { continuation.resume(with: Result { try body(try Stage()) }) }.start()
        }
    }

    @Test func aSignInWithAnUnknownOutcomeIsNotRetriedAfterARemoval() async throws {
        let (results, stored) = try await history { stage in
            stage.records.script = { [unowned stage] call, _ in
                guard call == "write" else { return nil }
                defer { stage.scriptedCalls += 1 }
                // The response to the first attempt is lost, and another process removes the session before the retry.
                if stage.scriptedCalls == 1 { _ = stage.records.removeAtOnce(stage.key) }
                return stage.scriptedCalls == 0 ? .lostAfter : nil
            }
            stage.begin("sign-in", at: 0) {
                try await stage.signIn(at: 0)
                return "stored"
            }
            stage.wait(60)
            return (stage.results, stage.stored)
        }
        #expect(results == ["sign-in: outcome_unknown"])
        #expect(stored == [:])
    }

    @Test func aWriteThatIsExecutedLateDoesNotOverwriteALaterWriteOfItsHolder() async throws {
        let (results, bytes) = try await history { stage in
            // The connection of the first attempt is lost, but the database executes its statement two seconds later.
            stage.records.script = { [unowned stage] call, _ in
                guard call == "write" else { return nil }
                defer { stage.scriptedCalls += 1 }
                return stage.scriptedCalls == 0 ? .late : nil
            }
            let process = stage.processes[0]
            let store = stage.records.store(of: process, host: stage.simulation.host(of: process))
            let key = stage.key
            stage.begin("writes", at: 0) {
                try await store.withLease(on: key) { lease in
                    try await store.write([1], under: lease)
                    try await store.write([2], under: lease)
                    try await stage.simulation.clock.sleep(for: .seconds(5))
                }
                return "stored"
            }
            stage.wait(10)
            return (stage.results, stage.records.bytes(of: key.digest))
        }
        #expect(results == ["writes: stored"])
        #expect(bytes == [2])
    }

    @Test func aRemovalWhoseResponseWasLostReturnsTheCredential() async throws {
        let results = try await history { stage in
            stage.signIn()
            stage.records.script = { [unowned stage] call, _ in
                guard call == "remove" else { return nil }
                defer { stage.scriptedCalls += 1 }
                return stage.scriptedCalls == 0 ? .lostAfter : nil
            }
            stage.begin("removed", at: 1) { [key = stage.key] in
                try await stage.managers[1].remove([key]).map { "\($0.credential?.tokens.refreshToken?.exposed ?? "")" }
                    .joined()
            }
            stage.wait(60)
            return stage.results
        }
        #expect(results == ["removed: rt.0.0"])
    }

    @Test func anUnexpiredTokenIsReturnedDuringAStoreOutage() async throws {
        let results = try await history { stage in
            stage.signIn()
            stage.use("before", at: 0)
            stage.wait(1)
            // Waits until the remaining lifetime no longer exceeds the freshness margin.
            while stage.lifeLeft > 10 { stage.wait(1) }
            stage.world.beginOutage(for: .seconds(120))
            stage.use("during", at: 0)
            stage.wait(9)
            return stage.results
        }
        #expect(results == ["before: at.0.0.-", "during: at.0.0.-"])
    }

    @Test func aCallerWaitingForALeaseGetsNoTokenOfARemovedSession() async throws {
        let results = try await history { stage in
            stage.provider.lifetime = 300
            stage.signIn()
            stage.use("before", at: 0)
            stage.wait(1)
            // Waits until the remaining lifetime is just less than the freshness margin.
            while stage.lifeLeft > 59 { stage.wait(1) }
            let take = { stage.records.take(stage.key, by: [1], for: .seconds(60)) }
            _ = take()
            stage.use("during", at: 0)
            stage.wait(5)
            // No process is notified.
            stage.world.faults.store = 1
            _ = stage.records.removeAtOnce(stage.key)
            stage.world.faults.store = 0
            _ = take()
            stage.wait(40)
            return stage.results
        }
        #expect(results == ["before: at.0.0.-", "during: login_required"])
    }

    @Test func underARemovedLeaseTheNextSessionsRefreshTokenIsNotSent() async throws {
        let (results, violation) = try await history { stage in
            stage.signIn()
            while stage.lifeLeft > 0 { stage.wait(10) }
            stage.records.script = { [unowned stage] call, process in
                guard call == "take", process == stage.processes[0], stage.scriptedCalls == 0 else { return nil }
                stage.scriptedCalls += 1
                // The process resumes with its lease after the session was removed and a new session, with an expired
                // access token, was stored.
                stage.world.pause(process, for: .seconds(3))
                stage.simulation.begin(in: .world) {
                    try? await stage.simulation.clock.sleep(for: .seconds(1))
                    _ = stage.records.removeAtOnce(stage.key)
                    stage.begin("sign-in", at: 1) {
                        try await stage.managers[1].save(stage.credential(isExpired: true), for: "s")
                        return "stored"
                    }
                    try? await stage.simulation.clock.sleep(for: .seconds(2))
                    stage.use("other", at: 1)
                }
                return nil
            }
            stage.use("holder", at: 0)
            stage.wait(60)
            return (stage.results, stage.world.violation)
        }
        #expect(violation == nil)
        #expect(results.sorted() == ["holder: at.1.1.-", "other: at.1.1.-", "sign-in: stored"])
    }

    /// Another process could take over before the request reaches the provider.
    @Test(arguments: ["refresh", "replacement"])
    func aHolderPausedUntilItsLeaseNearlyExpiresAcquiresItAgain(operation: String) async throws {
        let (results, leases) = try await history { stage in
            stage.signIn()
            while stage.lifeLeft > 0 { stage.wait(10) }
            stage.records.script = { [unowned stage] call, process in
                // The first lease is not renewed.
                if call == "renew", stage.scriptedCalls == 1 { return .lostBefore }
                guard call == "take" else { return nil }
                stage.scriptedCalls += 1
                if stage.scriptedCalls == 1 { stage.world.pause(process, for: .milliseconds(14_000)) }
                return nil
            }
            if operation == "refresh" {
                stage.use("holder", at: 0)
            } else {
                let manager = stage.managers[0]
                let credential = manager.managed(stage.key, account: nil, label: nil)
                stage.begin("holder", at: 0) {
                    try await credential.replace { old in
                        var new = old
                        new.accessToken = Secret("at.0.1.-")
                        return new
                    }.tokens.accessToken.exposed
                }
            }
            stage.wait(60)
            return (stage.results, stage.scriptedCalls)
        }
        #expect(results == ["holder: at.0.1.-"])
        // The lease was acquired again before the refresh token was sent.
        #expect(leases == 2)
    }

    @Test func aCancelledCallerGetsNoCachedTokenOfARemovedSession() async throws {
        let results = try await history { stage in
            stage.signIn()
            stage.use("before", at: 0)
            stage.wait(1)
            _ = stage.records.removeAtOnce(stage.key)
            stage.wait(20)
            stage.begin("cancelled", at: 0) {
                let use = Task { try await stage.managers[0].freshTokens(for: "s").accessToken.exposed }
                try await stage.simulation.clock.sleep(for: .microseconds(1))
                use.cancel()
                return try await use.value
            }
            stage.wait(20)
            return stage.results
        }
        #expect(results.last == "cancelled: CancellationError()")
    }

    @Test func refreshedTokensOfARemovedSessionAreNeitherStoredNorReturned() async throws {
        let (results, stored, violation) = try await history { stage in
            stage.signIn()
            stage.records.script = { [unowned stage] call, _ in
                guard call == "write", stage.stored == [0: 0] else { return nil }
                // Other callers request tokens while the refreshed tokens are being stored. The removal of the
                // session prevents the write.
                _ = stage.records.removeAtOnce(stage.key)
                for number in 0..<20 { stage.use("use \(number)", at: 0) }
                return nil
            }
            stage.begin("refresh", at: 0) {
                try await "\(stage.managers[0].refresh(CredentialKey("s")).tokens.accessToken.exposed)"
            }
            stage.wait(60)
            return (stage.results, stage.stored, stage.world.violation)
        }
        #expect(results.count == 21)
        // Callers that read from memory may receive the old token for ten seconds.
        #expect(!results.contains { $0.contains("at.0.1") })
        #expect(stored == [:])
        #expect(violation == nil)
    }

    /// The session is removed while the refreshed tokens are being stored, and the lookup of the sign-out loses its connection. Without a sign-out, the
    /// tokens may belong to the grant of a later sign-in.
    @Test(arguments: [true, false])
    func tokensThatArriveAfterTheRemovalOfTheirSessionAreRevokedAfterASignOut(_ isSignOut: Bool) async throws {
        let end = try await history { stage in
            stage.signIn()
            if isSignOut {
                stage.begin("sign-out", at: 1) {
                    try await stage.managers[1].revokeLateTokens(of: [stage.key])
                    return "recorded"
                }
                stage.wait(5)
            }
            stage.records.script = { [unowned stage] call, _ in
                if call == "write", stage.stored == [0: 0] { _ = stage.records.removeAtOnce(stage.key) }
                guard ["claim", "touch"].contains(call) else { return nil }
                defer { stage.scriptedCalls += 1 }
                return stage.scriptedCalls == 0 ? .lostBefore : nil
            }
            stage.begin("refresh", at: 0) {
                try await "\(stage.managers[0].refresh(CredentialKey("s")).tokens.accessToken.exposed)"
            }
            stage.wait(60)
            return stage.provider.grants[0].end
        }
        #expect(end == (isSignOut ? "revoked" : nil))
    }
}
