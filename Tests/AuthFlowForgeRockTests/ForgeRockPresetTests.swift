import AuthFlow
import AuthFlowForgeRock
import AuthFlowHeadless
import AuthFlowTesting
import Testing

@Suite struct ForgeRockPresetTests {
    @Test func aProfileWithTheForgeRockPresetResolvesToTheRealmsIssuer() async throws {
        try await ForgeRockEnvironment.with(.inProcess) { environment in
            let text = """
                {"profiles": {"work": {
                  "preset": {"name": "forgerock", "url": "\(environment.emulator.baseURL)"}, "client_id": "authflow-demo", "store": "memory"
                }}}
                """
            let client = try AuthClient(
                profile: try ConfigurationFile(text: Array(text.utf8), presets: [.forgeRock]).profile(),
                providers: [.forgeRock],
                userAgents: [.headless(transport: environment.transport)],
                transport: environment.transport
            )
            let metadata = try await client.metadata()
            #expect(metadata.issuer == environment.emulator.oauth.issuer)
            #expect(metadata.issuer.hasSuffix("/alpha"))
        }
    }
}
