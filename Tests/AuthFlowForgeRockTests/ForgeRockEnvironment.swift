import AuthFlow
import AuthFlowForgeRock
import AuthFlowHeadless
import AuthFlowJSON
import AuthFlowTesting
import Foundation
import HTTPTypes
import Testing

/// An emulated ForgeRock server, its transport and its clients.
struct ForgeRockEnvironment: Sendable {
    let emulator: ForgeRockEmulator
    let transport: any HTTPTransport

    static func with<Return: Sendable>(
        _ setting: EmulatorEnvironment.Setting,
        now: @escaping @Sendable () -> Date = { Date() },
        _ body: @Sendable (ForgeRockEnvironment) async throws -> Return
    ) async throws -> Return {
        switch setting {
        case .inProcess:
            let emulator = try ForgeRockEmulator(origin: "https://id.example.com", now: now)
            return try await body(ForgeRockEnvironment(emulator: emulator, transport: InProcessTransport(emulator)))
        case .sockets:
            return try await EmulatorServer.run {
                try ForgeRockEmulator(origin: $0, now: now)
            } _: { emulator in
                try await body(ForgeRockEnvironment(emulator: emulator, transport: SystemTransport()))
            }
        }
    }

    var origin: String { emulator.origins[0] }

    static let alice = ConfiguredCallbackHandler(username: "alice", password: Secret("wonderland"))

    func client(
        handlers: [any CallbackHandler] = [alice],
        tree: String? = nil,
        acrValues: [String] = [],
        requiresACR: Bool = false,
        allowsConsent: Bool = true,
        cookies: SharedCookies? = nil,
        parameters: FormParameters = [:],
        scopes: [String] = ["openid", "profile"],
        transport: (any HTTPTransport)? = nil,
        host: HostServices = .system,
        observer: @escaping @Sendable (FlowEvent) -> Void = { _ in }
    ) throws -> AuthClient {
        let realm = try ForgeRockRealm(baseURL: emulator.baseURL, path: "/alpha")
        let driver = TreeDriver(
            realm: realm,
            tree: tree,
            handlers: handlers,
            allowsConsent: allowsConsent,
            host: host
        )
        return AuthClient(
            client: OAuthClient(
                server: AuthorizationServer(
                    ForgeRockProvider(realm: realm, acrValues: acrValues, requiresACR: requiresACR),
                    transport: transport ?? self.transport,
                    host: host
                ),
                registration: try ClientRegistration(clientID: "authflow-demo") {
                    $0.redirectURIs = [RedirectURI("http://127.0.0.1:8400/callback")]
                    $0.scopes = scopes
                    $0.parameters = [.authorization: parameters]
                    $0.postLogoutRedirectURI = RedirectURI("http://127.0.0.1:8400/callback")
                }
            ),
            methods: [
                .userAgent(
                    HeadlessUserAgent(
                        driver: driver,
                        sharedCookies: cookies,
                        transport: transport ?? self.transport,
                        host: host
                    )
                )
            ],
            observer: observer
        )
    }

    func cookies(
        _ store: any TokenStore,
        names: [String] = ["session-jwt"],
        atRisk: Bool = false,
        user: String? = nil
    ) throws -> SharedCookies {
        SharedCookies(
            store: SharedCredentialStore(group: "acme", store: store),
            origin: try Endpoint(origin),
            names: names,
            sharingSessionCookiesAtRisk: atRisk,
            user: user
        )
    }
}
