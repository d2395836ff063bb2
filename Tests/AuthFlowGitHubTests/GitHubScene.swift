import AuthFlow
import AuthFlowGitHub
import AuthFlowHeadless
import AuthFlowTesting
import ConformanceRows
import Foundation

/// An emulated GitHub, the way to it, and clients of it.
struct GitHubScene: Sendable {
    let emulator: GitHubEmulator
    let transport: any HTTPTransport

    /// Runs `body` with a GitHub: github.com in this process, an Enterprise Server behind a socket.
    static func with<Return: Sendable>(
        _ setting: Setting,
        apps: [GitHubEmulator.App] = [.init()],
        users: [GitHubEmulator.User] = [.octocat, .hubot],
        now: @escaping @Sendable () -> Date = { Date() },
        _ body: @Sendable (GitHubScene) async throws -> Return
    ) async throws -> Return {
        switch setting {
        case .inProcess:
            let emulator = GitHubEmulator(users: users, apps: apps, now: now)
            return try await body(GitHubScene(emulator: emulator, transport: InProcessTransport(emulator)))
        case .sockets:
            return try await EmulatorServer.run {
                GitHubEmulator(origin: $0, users: users, apps: apps, now: now)
            } _: { emulator in
                try await body(GitHubScene(emulator: emulator, transport: SystemTransport()))
            }
        }
    }

    func settings(
        scopes: [String] = ["user:email", "gist"],
        secret: String? = "github-demo-secret",
        flow: SignInFlow = .authorizationCode
    ) throws -> ClientSettings.Values {
        try ClientSettings(
            clientID: "Iv23demo",
            authentication: secret.map { .clientSecretPost(Secret($0)) } ?? .none,
            redirectURIs: [RedirectURI("http://127.0.0.1:8400/callback")],
            scopes: scopes,
            flows: [flow]
        ).values
    }

    func provider(signOut: GitHubProvider.SignOut = .token) throws -> GitHubProvider {
        GitHubProvider(host: try GitHubHost(emulator.origin), signOut: signOut)
    }

    func client(
        settings: ClientSettings.Values? = nil,
        provider: GitHubProvider? = nil,
        user: GitHubEmulator.User = .octocat,
        consent: HTMLFormDriver.Consent = .allow,
        store: any TokenStore = MemoryTokenStore(),
        host: HostServices = .system,
        observer: @escaping @Sendable (FlowEvent) -> Void = { _ in }
    ) throws -> AuthClient {
        let driver = HTMLFormDriver(
            userName: user.login,
            password: Secret(user.password),
            origins: [try Endpoint(emulator.origin)],
            consent: consent
        )
        return AuthClient(
            settings: try ClientSettings(try settings ?? self.settings()),
            provider: try provider ?? self.provider(),
            userAgent: HeadlessUserAgent(driver: driver, transport: transport),
            devicePresenter: HeadlessDevicePresenter(driver: driver, transport: transport),
            store: store,
            transport: transport,
            host: host,
            observer: observer
        )
    }
}
