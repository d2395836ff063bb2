public import AuthFlow
public import AuthFlowHeadless
import AuthFlowOIDC
public import AuthFlowTesting
public import Foundation

/// Where an emulator is: in this process, or behind a socket.
public enum Setting: String, CaseIterable, Sendable {
    case inProcess
    case sockets
}

/// An emulated provider, the way to it, and clients of it.
public struct Scene: Sendable {
    /// The provider.
    public let emulator: OIDCEmulator
    /// The way to it.
    public let transport: any HTTPTransport

    /// Creates a scene with a provider in this process.
    public init(_ emulator: OIDCEmulator) {
        self.init(emulator: emulator, transport: InProcessTransport(emulator))
    }

    private init(emulator: OIDCEmulator, transport: any HTTPTransport) {
        self.emulator = emulator
        self.transport = transport
    }

    /// Runs `body` with a provider.
    public static func with<Return: Sendable>(
        _ setting: Setting,
        clients: [OIDCEmulator.Client] = [.demo],
        now: @escaping @Sendable () -> Date = { Date() },
        _ body: @Sendable (Scene) async throws -> Return
    ) async throws -> Return {
        switch setting {
        case .inProcess:
            let emulator = try OIDCEmulator(issuer: "https://id.example.com", clients: clients, now: now)
            return try await body(Scene(emulator))
        case .sockets:
            return try await EmulatorServer.run { issuer in
                try OIDCEmulator(issuer: issuer, clients: clients, now: now)
            } _: { emulator in
                try await body(Scene(emulator: emulator, transport: SystemTransport()))
            }
        }
    }

    /// The settings of the demonstration client.
    public static func settings() throws -> ClientSettings.Values {
        var values = ClientSettings.Values(clientID: "authflow-demo")
        values.redirectURIs = [try RedirectURI("http://127.0.0.1:8400/callback")]
        values.scopes = ["openid", "profile", "email"]
        return values
    }

    /// A client of the provider, whose user agent signs a person in.
    public func client(
        settings: ClientSettings.Values? = nil,
        provider: (any ProviderAdapter)? = nil,
        user: OIDCEmulator.User = .alice,
        consent: HTMLFormDriver.Consent = .allow,
        devicePresenter: (any DevicePresenter)? = nil,
        store: any TokenStore = MemoryTokenStore(),
        account: String? = nil,
        transport: (any HTTPTransport)? = nil,
        host: HostServices = .system,
        observer: @escaping @Sendable (FlowEvent) -> Void = { _ in }
    ) throws -> AuthClient {
        AuthClient(
            settings: try ClientSettings(try settings ?? Self.settings()),
            provider: provider ?? OIDCProvider(issuer: emulator.issuer),
            userAgent: try userAgent(user: user, consent: consent),
            devicePresenter: devicePresenter,
            store: store,
            account: account,
            transport: transport ?? self.transport,
            host: host,
            observer: observer
        )
    }

    /// A user agent that signs a person in.
    public func userAgent(
        user: OIDCEmulator.User = .alice,
        consent: HTMLFormDriver.Consent = .allow
    ) throws -> HeadlessUserAgent {
        HeadlessUserAgent(driver: try driver(user: user, consent: consent), transport: transport)
    }

    /// Does what a person would do on the provider's pages.
    public func driver(
        user: OIDCEmulator.User = .alice,
        consent: HTMLFormDriver.Consent = .allow
    ) throws -> HTMLFormDriver {
        HTMLFormDriver(
            userName: user.userName,
            password: Secret(user.password),
            origins: [try Endpoint(emulator.issuer)],
            consent: consent
        )
    }

    /// Does what a browser would with an authorization request, and returns the redirect.
    public func visit(_ url: String, responseMode: ResponseMode = .query) async throws -> String {
        let query = FormURLEncoding.decode(url.drop { $0 != "?" }.dropFirst())
        let options = RedirectOptions(
            redirectURIs: [try RedirectURI(query?["redirect_uri"] ?? "")],
            state: Secret(query?["state"] ?? ""),
            responseMode: responseMode,
            reporter: FlowReporter(),
            clock: ContinuousClock()
        )
        return try await userAgent().withRedirectSession(options) { try await $0.visit(url) }
    }
}
