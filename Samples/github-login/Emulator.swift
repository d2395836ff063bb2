import AuthFlow
import AuthFlowGitHub
import AuthFlowHeadless
import AuthFlowTesting

/// Runs `body` with a client of the bundled GitHub emulator that signs the test user in without a user interface.
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
            username: user.login,
            password: Secret(user.password),
            origins: [try Endpoint(emulator.origin)]
        )
        let registration = try ClientRegistration(clientID: app.id) {
            $0.authentication = .clientSecretPost(Secret(app.secret))
            $0.scopes = ["user:email", "read:org"]
        }
        let presenter = HeadlessDevicePresenter(driver: driver) { authorization in
            print("Enter the code at \(authorization.verificationURI.url): \(authorization.userCode)")
        }
        var options = AuthClient.Options()
        options.apiOrigins = [try Endpoint(host.apiURL)]
        let client = AuthClient(
            client: OAuthClient(
                server: AuthorizationServer(GitHubProvider(host: host)),
                registration: registration
            ),
            methods: [flow == .device ? .device(presenter) : .userAgent(HeadlessUserAgent(driver: driver))],
            options: options
        ) { event in
            if event.progress == .succeeded { print("  ok  \(event.step)") }
        }
        try await body(client, host)
    }
}
