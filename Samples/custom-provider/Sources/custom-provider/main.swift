import AuthFlow
import AuthFlowHeadless
import AuthFlowTesting

// Tests the adapter the way AuthFlow tests its own adapters: with the conformance suite against an emulator, and with a
// sign-in from a configuration file.

extension OIDCEmulator {
    /// Adds the forge's own API, which identifies an access token's user.
    func addForge() {
        self.customResponse = { exchange in
            exchange.request.path == "/api/v4/user" ? exchange.userInfo() : exchange.response
        }
    }
}

/// Runs the conformance suite against the emulator. The client and the redirect URI come from `EmulatorEnvironment.registration()`.
func conforms() async throws {
    try await EmulatorEnvironment.with(.inProcess) { environment in
        environment.emulator.addForge()
        let adapter = ForgeProvider(issuer: environment.emulator.issuer)
        var registration = try EmulatorEnvironment.registration()
        registration.scopes = ["profile", "offline_access"]
        let tested = try environment.client(registration: registration, adapter: adapter)
        let other = try environment.client(registration: registration, adapter: adapter, user: .bob)
        try await ProviderConformance(adapter: adapter, client: tested, other: other).run()
    }
}

do {
    try await conforms()
    print("The adapter conforms.")
    try await EmulatorEnvironment.with(.sockets) { environment in
        environment.emulator.addForge()
        let issuer = environment.emulator.issuer
        let file = try ConfigurationFile(
            text: Array(
                """
                {"profiles": {"work": {
                  "provider": "forge", "issuer": "\(issuer)", "client_id": "authflow-demo", "store": "memory",
                  "user_agent": {"name": "headless", "username": "alice", "password": {"env": "PASSWORD"}, "origins": ["\(issuer)"]}
                }}}
                """.utf8
            )
        )
        let client = try AuthClient(profile: try file.profile(), providers: [.forge], userAgents: [.headless])
        print(try await client.signIn())
    }
} catch {
    print("Failed: \(error)")
}
