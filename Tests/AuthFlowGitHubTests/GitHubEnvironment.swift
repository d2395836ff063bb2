import AuthFlow
import AuthFlowGitHub
import AuthFlowHeadless
import AuthFlowTesting
import ConformanceRows
import Foundation

/// An emulated GitHub server, its transport and its clients.
struct GitHubEnvironment: Sendable {
    let emulator: GitHubEmulator
    let transport: any HTTPTransport

    /// Runs `body` with an emulated GitHub server: github.com in process, or an Enterprise Server behind a socket.
    static func with<Return: Sendable>(
        _ setting: EmulatorEnvironment.Setting,
        apps: [GitHubEmulator.App] = [.init()],
        users: [GitHubEmulator.User] = [.octocat, .hubot],
        now: @escaping @Sendable () -> Date = { Date() },
        _ body: @Sendable (GitHubEnvironment) async throws -> Return
    ) async throws -> Return {
        switch setting {
        case .inProcess:
            let emulator = GitHubEmulator(users: users, apps: apps, now: now)
            return try await body(GitHubEnvironment(emulator: emulator, transport: InProcessTransport(emulator)))
        case .sockets:
            return try await EmulatorServer.run {
                GitHubEmulator(origin: $0, users: users, apps: apps, now: now)
            } _: { emulator in
                try await body(GitHubEnvironment(emulator: emulator, transport: SystemTransport()))
            }
        }
    }

    func settings(
        scopes: [String] = ["user:email", "gist"],
        secret: String? = "github-demo-secret"
    ) throws -> ClientRegistration.Values {
        try ClientRegistration(clientID: "Iv23demo") {
            $0.authentication = secret.map { .clientSecretPost(Secret($0)) } ?? .none
            $0.redirectURIs = [RedirectURI("http://127.0.0.1:8400/callback")]
            $0.scopes = scopes
        }.values
    }

    var issuer: String { "\(emulator.origin)/login/oauth" }

    func provider(signOut: GitHubProvider.SignOut = .token) throws -> GitHubProvider {
        GitHubProvider(host: try GitHubHost(emulator.origin), signOut: signOut)
    }

    func client(
        registration: ClientRegistration.Values? = nil,
        adapter: GitHubProvider? = nil,
        user: GitHubEmulator.User = .octocat,
        consent: HTMLFormDriver.Consent = .allow,
        flows: [SignInFlow] = [.authorizationCode],
        store: any TokenStore = MemoryTokenStore(),
        host: HostServices = .system,
        observer: @escaping @Sendable (FlowEvent) -> Void = { _ in }
    ) throws -> AuthClient {
        let driver = HTMLFormDriver(
            username: user.login,
            password: Secret(user.password),
            origins: [try Endpoint(emulator.origin)],
            consent: consent
        )
        return AuthClient(
            client: OAuthClient(
                server: AuthorizationServer(try adapter ?? provider(), transport: transport, host: host),
                registration: try ClientRegistration(try registration ?? settings())
            ),
            methods: flows.map { flow in
                flow == .device
                    ? .device(HeadlessDevicePresenter(driver: driver, transport: transport))
                    : .userAgent(HeadlessUserAgent(driver: driver, transport: transport))
            },
            store: store,
            observer: observer
        )
    }
}
