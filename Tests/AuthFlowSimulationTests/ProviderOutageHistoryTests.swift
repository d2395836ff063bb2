import AuthFlow
import AuthFlowSimulation
import Foundation
import HTTPTypes
import SimulatedHistories
import Testing

/// An unavailable provider, and one process of an application with several users.
@Suite struct ProviderOutageHistoryTests {
    private final class Provider: HTTPTransport, @unchecked Sendable {  // All jobs of a simulation run on one thread.
        var isAway = true
        var requests = 0

        func send(_ call: TransportRequest) async throws -> TransportResponse {
            try call.willSend()
            requests += 1
            guard !isAway else { throw AuthError(.networkFailed, "The connection failed.") }
            var head = HTTPResponse(status: .badRequest)
            head.headerFields[.contentType] = "application/json"
            return TransportResponse(head: head, body: Array(#"{"error": "invalid_grant"}"#.utf8))
        }
    }

    /// The number of provider requests for each call. Each call requests a different user's tokens.
    private static func requests() throws -> [Int] {
        let simulation = Simulation(seed: 1)
        let world = World(simulation: simulation, faults: Faults())
        let (source, provider, records) = (SimulatedProvider(world: world), Provider(), SimulatedRecords(world: world))
        let process = simulation.startProcess()
        let host = simulation.host(of: process)
        let server = AuthorizationServer(SimulatedProvider.Adapter(), transport: provider, host: host)
        let client = OAuthClient(server: server, registration: try ClientRegistration(.init(clientID: "client")))
        let manager = CredentialManager(client: client, store: records.store(of: process, host: host))
        var counts: [Int] = []
        func use(_ user: Int) {
            let before = provider.requests
            simulation.begin(in: process) {
                let credential = source.signIn(
                    "user \(user)",
                    session: "",
                    resources: [],
                    at: host.now().addingTimeInterval(-3600)
                )
                try? await manager.save(credential, for: "\(user)")
                _ = try? await manager.freshTokens(for: "\(user)")
            }
            simulation.run(until: simulation.now + .seconds(3))
            counts.append(provider.requests - before)
        }
        for user in 0..<6 { use(user) }
        simulation.run(until: simulation.now + .seconds(10))
        provider.isAway = false
        // The provider responds with invalid_grant, which shows that it is available again.
        for user in 6..<9 { use(user) }
        return counts
    }

    @Test func pausesRequestsAfterFiveUsersFailUntilTheProviderRecovers() async throws {
        let counts = try await withCheckedThrowingContinuation { continuation in
            Thread { continuation.resume(with: Result { try Self.requests() }) }.start()
        }
        #expect(counts == [1, 1, 1, 1, 1, 0, 1, 1, 1])
    }
}
