import AuthFlow
import AuthFlowOIDC
import AuthFlowTesting
import Testing

// The test listings from documentation comments.

private typealias MyStore = MemoryTokenStore
private typealias MyProvider = OIDCProvider

/// A placeholder for the agent under test.
private struct MyAgent: UserAgent {
    nonisolated(nonsending) func withRedirectSession<Return: Sendable>(
        _ options: RedirectOptions,
        _ body: nonisolated(nonsending) (RedirectSession) async throws -> Return
    ) async throws -> Return {
        throw AuthError(.unsupported, "Only compiled.")
    }
}

private struct Browser: Sendable {
    func goTo(_ url: String) async throws {}
}

private let myBrowser = Browser()

@Suite struct StoreDocstringTests {
    @Test func conforms() async throws { try await TokenStoreConformance(store: MyStore()).run() }
}

@Suite(.disabled("The reader provides the agent and the browser.")) struct AgentDocstringTests {
    @Test func conforms() async throws {
        let redirectURI: RedirectURI = "com.example.app:/callback"
        let suite = UserAgentConformance(agent: MyAgent(), redirectURI: redirectURI) { url in
            try await myBrowser.goTo(url)
        }
        try await suite.run()
    }
}

@Suite struct EnvironmentDocstringTests {
    @Test(arguments: EmulatorEnvironment.Setting.allCases)
    func signsIn(_ setting: EmulatorEnvironment.Setting) async throws {
        try await EmulatorEnvironment.with(setting) { environment in
            let signIn = try await environment.client(adapter: MyProvider(issuer: environment.emulator.issuer)).signIn()
            #expect(signIn.identity?.name == "Alice Example")
        }
    }
}
