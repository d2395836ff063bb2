import AuthFlow
import AuthFlowHeadless
import AuthFlowJSON
import AuthFlowOkta
import AuthFlowTesting
import Foundation
import HTTPTypes
import Testing

/// An emulated Okta org, its transport, and a vendor's apps.
struct OktaEnvironment: Sendable {
    let emulator: OktaEmulator
    let transport: any HTTPTransport
    let shared = MemoryTokenStore()

    static func with<Return: Sendable>(
        _ setting: EmulatorEnvironment.Setting,
        now: @escaping @Sendable () -> Date = { Date() },
        _ body: @Sendable (OktaEnvironment) async throws -> Return
    ) async throws -> Return {
        switch setting {
        case .inProcess:
            let emulator = try OktaEmulator(origin: "https://dev-1.okta.com", now: now)
            return try await body(OktaEnvironment(emulator: emulator, transport: InProcessTransport(emulator)))
        case .sockets:
            return try await EmulatorServer.run {
                try OktaEmulator(origin: $0, now: now)
            } _: { emulator in
                try await body(OktaEnvironment(emulator: emulator, transport: SystemTransport()))
            }
        }
    }

    var issuer: String { emulator.custom.issuer }

    func settings(_ app: String) throws -> ClientRegistration.Values {
        try ClientRegistration(clientID: app) {
            $0.redirectURIs = [RedirectURI("http://127.0.0.1:8400/callback")]
            $0.scopes = ["openid", "profile", "device_sso", "offline_access"]
            $0.postLogoutRedirectURI = RedirectURI("http://127.0.0.1:8400/callback")
        }.values
    }

    func provider(_ signOut: OktaProvider.SignOut = .allApps) -> OktaProvider {
        OktaProvider(issuer: issuer, audience: "api://default", signOut: signOut)
    }

    /// An app in the group. Without a user, it can sign in only with a device secret that another app has shared.
    func app(
        _ name: String,
        settings: ClientRegistration.Values? = nil,
        provider: OktaProvider? = nil,
        user: OIDCEmulator.User? = nil,
        store: any TokenStore = MemoryTokenStore(),
        sharedStore: (any TokenStore)? = nil,
        host: HostServices = .system,
        observer: @escaping @Sendable (FlowEvent) -> Void = { _ in }
    ) throws -> AuthClient {
        let driver = HTMLFormDriver(
            username: user?.username ?? "",
            password: Secret(user?.password ?? ""),
            origins: user == nil ? [] : [try Endpoint(emulator.origin)]
        )
        return AuthClient(
            client: OAuthClient(
                server: AuthorizationServer(provider ?? self.provider(), transport: transport, host: host),
                registration: try ClientRegistration(try settings ?? self.settings(name)),
                sharedCredentials: SharedCredentialStore(group: "acme", store: sharedStore ?? shared)
            ),
            methods: [.userAgent(HeadlessUserAgent(driver: driver, transport: transport))],
            store: store,
            options: .named(name),
            observer: observer
        )
    }
}
