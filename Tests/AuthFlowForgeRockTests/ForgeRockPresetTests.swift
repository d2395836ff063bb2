import AuthFlow
import AuthFlowForgeRock
import AuthFlowHeadless
import AuthFlowTesting
import Testing

@Suite struct ForgeRockPresetTests {
    @Test func aProfileWithTheForgeRockPresetResolvesToTheRealmsIssuer() async throws {
        try await ForgeRockScene.with(.inProcess) { scene in
            let text = """
                {"profiles": {"work": {
                  "preset": {"name": "forgerock", "url": "\(scene.emulator.baseURL)"}, "client_id": "authflow-demo", "store": "memory"
                }}}
                """
            let client = try AuthClient(
                profile: try ConfigurationFile(text: Array(text.utf8), presets: [.forgeRock]).profile(),
                providers: [.forgeRock],
                userAgents: [.headless(transport: scene.transport)],
                transport: scene.transport
            )
            let metadata = try await client.metadata()
            #expect(metadata.issuer == scene.emulator.oauth.issuer)
            #expect(metadata.issuer.hasSuffix("/alpha"))
        }
    }
}
