import AuthFlow
import AuthFlowGitHub
import AuthFlowHeadless
import AuthFlowTesting
import Foundation

/// Runs `body` with a client of the bundled GitHub emulator, which signs its user in without a screen.
func withEmulator(
    flow: SignInFlow,
    _ body: @Sendable (_ client: AuthClient, _ host: GitHubHost) async throws -> Void
) async throws {
    try await EmulatorServer.run {
        GitHubEmulator(origin: $0)
    } _: { emulator in
        print("The emulator runs at \(emulator.origin).")
        let user = GitHubEmulator.User.octocat
        let app = GitHubEmulator.App()
        let host = try GitHubHost(emulator.origin)
        let driver = HTMLFormDriver(
            userName: user.login,
            password: Secret(user.password),
            origins: [try Endpoint(emulator.origin)]
        )
        let client = AuthClient(
            settings: try ClientSettings(
                clientID: app.id,
                authentication: .clientSecretPost(Secret(app.secret)),
                scopes: ["user:email", "read:org"],
                flows: [flow],
                apiOrigins: [try Endpoint(host.apiURL)]
            ),
            provider: GitHubProvider(host: host),
            userAgent: HeadlessUserAgent(driver: driver),
            devicePresenter: HeadlessDevicePresenter(driver: driver) { authorization in
                print("Enter the code at \(authorization.verificationURI.url): \(authorization.userCode)")
            }
        ) { event in
            if event.progress == .succeeded { print("  ok  \(event.step)") }
        }
        try await body(client, host)
    }
}
