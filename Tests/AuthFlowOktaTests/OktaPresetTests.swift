import AuthFlow
import AuthFlowHeadless
import AuthFlowOkta
import AuthFlowTesting
import Foundation
import Testing

@Suite struct OktaPresetTests {
    @Test func signsInWithThePreset() async throws {
        try await OktaEnvironment.with(.inProcess) { environment in
            let app = OktaEmulator.apps[0]
            let text = """
                {"profiles": {"work": {
                  "preset": {"name": "okta", "domain": "dev-1.okta.com"}, "client_id": "\(app.id)", "store": "memory",
                  "redirect_uri": "http://127.0.0.1:8400/callback",
                  "user_agent": {"name": "headless", "username": "alice", "password": {"env": "PASSWORD"}, "origins": ["https://dev-1.okta.com"]}
                }}}
                """
            let client = try AuthClient(
                profile: try ConfigurationFile(text: Array(text.utf8), presets: [.okta]).profile(),
                providers: [.okta],
                userAgents: [.headless(transport: environment.transport)],
                transport: environment.transport,
                host: HostServices(environment: ["PASSWORD": "wonderland"])
            )
            #expect(try await client.signIn().identity?.issuer == environment.issuer)
        }
    }
}
