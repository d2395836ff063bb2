import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import Expectations
import Foundation
import Testing

/// A client that is created from values, without a configuration file.
@Suite struct ClientFromValuesTests {
    @Test func signsInStoresTheTokensAndSignsOut() async throws {
        try await EmulatorEnvironment.with(.sockets) { environment in
            let store = MemoryTokenStore()
            func client() throws -> AuthClient {
                try AuthClient(
                    issuer: environment.emulator.issuer,
                    clientID: "authflow-demo",
                    scopes: ["openid", "profile", "offline_access"],
                    userAgents: [try environment.userAgent()],
                    store: store,
                    registration: { $0.redirectURIs = try EmulatorEnvironment.registration().redirectURIs }
                )
            }
            let signIn = try await client().signIn()
            #expect(signIn.identity?.displayName == "Alice Example")
            // The program is restarted.
            #expect(try await client().freshTokens().accessToken == signIn.credential.tokens.accessToken)
            let signOut = try await client().signOut()
            #expect(signOut.revocation == .done && signOut.endSession == .nothingToDo)
            #expect("\(signOut)" == "Signed out Alice Example; the tokens were revoked")
            #expect("\(try await client().signOut())" == "No user was signed in")
        }
    }

    @Test func aTrailingClosureIsTheObserver() async throws {
        let (steps, step) = AsyncStream<FlowEvent.Step>.makeStream()
        let client = try AuthClient(
            issuer: "https://id.example.com",
            clientID: "my-client",
            scopes: ["openid"],
            userAgents: [],
            transport: NoNetwork()
        ) { step.yield($0.step) }
        await expectError(.networkFailed) { try await client.metadata() }
        var seen = steps.makeAsyncIterator()
        #expect(await seen.next() == .discovery)
    }

    @Test(arguments: [
        ([:], "/.local/share/my-app"), (["HOME": ""], "/.local/share/my-app"),
        (["HOME": "relative"], "/.local/share/my-app"),
        (["HOME": "/home/a"], "/home/a/.local/share/my-app"), (["XDG_DATA_HOME": "/data"], "/data/my-app"),
        (["HOME": "/home/a", "XDG_DATA_HOME": "relative"], "/home/a/.local/share/my-app"),
    ]) func theDefaultStoreDirectoryIsInTheUsersDataDirectory(_ environment: [String: String], _ end: String) {
        let path = FileTokenStore.defaultDirectory(for: "my-app", environment: environment)
        // Without HOME, the home directory comes from the user database; it is not the root directory.
        #expect(path.hasSuffix(end) && path.hasPrefix("/") && path != "/.local/share/my-app")
    }

    @Test func replacesAddsAndRemovesJSONMembers() {
        let json: JSON = ["a": 1, "b": 2]
        #expect(json.replacing("a", with: "x") == ["a": "x", "b": 2])
        #expect(json.replacing("a", with: nil) == ["b": 2])
        #expect(json.replacing("c", with: true) == ["a": 1, "b": 2, "c": true])
        #expect(JSON.array([]).replacing("a", with: 1) == .array([]))
    }
}

private struct NoNetwork: HTTPTransport {
    func send(_ call: TransportRequest) async throws -> TransportResponse {
        throw AuthError(.networkFailed, "The network is unavailable.")
    }
}
