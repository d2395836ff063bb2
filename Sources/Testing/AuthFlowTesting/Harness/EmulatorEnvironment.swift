public import AuthFlow
public import AuthFlowEssentials
public import AuthFlowHeadless
import AuthFlowOIDC

/// A test environment for a flow, an adapter or an app: an emulated OpenID provider, a transport to it, and its clients.
///
/// ```swift
/// @Test(arguments: EmulatorEnvironment.Setting.allCases)
/// func signsIn(_ setting: EmulatorEnvironment.Setting) async throws {
///     try await EmulatorEnvironment.with(setting) { environment in
///         let signIn = try await environment.client(adapter: MyProvider(issuer: environment.emulator.issuer)).signIn()
///         #expect(signIn.identity?.name == "Alice Example")
///     }
/// }
/// ```
public struct EmulatorEnvironment: Sendable {
    /// The location of an emulator: in this process, or behind a socket.
    public enum Setting: String, CaseIterable, Sendable {
        /// Requests are method calls.
        case inProcess
        /// Requests go over the loopback interface.
        case sockets
    }

    /// The provider.
    public let emulator: OIDCEmulator

    /// The transport for requests to the provider.
    public let transport: any HTTPTransport

    /// Creates an environment with a provider in this process.
    public init(_ emulator: OIDCEmulator) {
        self.init(emulator: emulator, transport: InProcessTransport(emulator))
    }

    private init(emulator: OIDCEmulator, transport: any HTTPTransport) {
        self.emulator = emulator
        self.transport = transport
    }

    /// Runs `body` with a provider.
    /// - Parameters:
    ///   - setting: The location of the provider.
    ///   - clients: The provider's clients; default: the demonstration client.
    ///   - now: The provider's clock; default: the system's.
    ///   - body: Uses the environment while the provider runs.
    public static func with<Return: Sendable>(
        _ setting: Setting,
        clients: [OIDCEmulator.Client] = [.demo],
        now: @escaping @Sendable () -> Date = { Date() },
        _ body: @Sendable (EmulatorEnvironment) async throws -> Return
    ) async throws -> Return {
        switch setting {
        case .inProcess:
            let emulator = try OIDCEmulator(issuer: "https://id.example.com", clients: clients, now: now)
            return try await body(EmulatorEnvironment(emulator))
        case .sockets:
            return try await EmulatorServer.run { issuer in
                try OIDCEmulator(issuer: issuer, clients: clients, now: now)
            } _: { emulator in
                try await body(EmulatorEnvironment(emulator: emulator, transport: SystemTransport()))
            }
        }
    }

    /// The registration of the demonstration client.
    public static func registration() throws -> ClientRegistration.Values {
        var values = ClientRegistration.Values(clientID: OIDCEmulator.Client.demo.id)
        values.redirectURIs = ["http://127.0.0.1:8400/callback"]
        values.scopes = ["openid", "profile", "email"]
        return values
    }

    /// The authorization server from a client's point of view.
    public func server(
        _ adapter: (any ProviderAdapter)? = nil,
        transport: (any HTTPTransport)? = nil,
        host: HostServices = .system
    ) -> AuthorizationServer {
        AuthorizationServer(
            adapter ?? OIDCProvider(issuer: emulator.issuer),
            transport: transport ?? self.transport,
            host: host
        )
    }

    /// A client of the provider, whose user agent signs a user in.
    /// - Parameters:
    ///   - registration: The registration; default: the demonstration client's.
    ///   - adapter: The adapter under test; default: the generic adapter.
    ///   - user: The user who signs in.
    ///   - consent: The user's decision.
    ///   - devicePresenter: The presenter of the user code in the device grant.
    ///   - flows: The sign-in methods, in order of preference; default: the user agent, then the device grant when there is a presenter.
    ///   - assertions: The source of assertions; required for the JWT bearer flow.
    ///   - store: The credential store.
    ///   - options: The options of the client.
    ///   - transport: The transport; default: the environment's.
    ///   - host: The clock, random number generator and environment.
    ///   - observer: Receives every event.
    public func client(
        registration: ClientRegistration.Values? = nil,
        adapter: (any ProviderAdapter)? = nil,
        user: OIDCEmulator.User = .alice,
        consent: HTMLFormDriver.Consent = .allow,
        devicePresenter: (any DevicePresenter)? = nil,
        flows: [SignInFlow] = [.authorizationCode, .device],
        assertions: AssertionSource? = nil,
        store: any TokenStore = MemoryTokenStore(),
        options: AuthClient.Options = AuthClient.Options(),
        transport: (any HTTPTransport)? = nil,
        host: HostServices = .system,
        observer: @escaping @Sendable (FlowEvent) -> Void = { _ in }
    ) throws -> AuthClient {
        let userAgent = try userAgent(user: user, consent: consent)
        return AuthClient(
            client: OAuthClient(
                server: server(adapter, transport: transport, host: host),
                registration: try ClientRegistration(try registration ?? Self.registration())
            ),
            methods: flows.compactMap { flow in
                switch flow {
                case .authorizationCode: .userAgent(userAgent)
                case .device: devicePresenter.map(SignInMethod.device)
                case .clientCredentials: .clientCredentials
                case .jwtBearer: assertions.map(SignInMethod.jwtBearer)
                }
            },
            store: store,
            options: options,
            observer: observer
        )
    }

    /// A user agent that signs a user in.
    public func userAgent(
        user: OIDCEmulator.User = .alice,
        consent: HTMLFormDriver.Consent = .allow
    ) throws -> HeadlessUserAgent {
        HeadlessUserAgent(driver: try driver(user: user, consent: consent), transport: transport)
    }

    /// A driver that signs a user in and grants or denies consent on the provider's pages.
    public func driver(
        user: OIDCEmulator.User = .alice,
        consent: HTMLFormDriver.Consent = .allow
    ) throws -> HTMLFormDriver {
        HTMLFormDriver(
            username: user.username,
            password: Secret(user.password),
            origins: [try Endpoint(emulator.issuer)],
            consent: consent
        )
    }

    /// Follows an authorization request as a browser would, and returns the redirect.
    /// - Parameters:
    ///   - url: The URL of the request.
    ///   - responseMode: The response mode, which determines how the response is delivered.
    ///   - client: The client that decrypts the response; default: the response is not encrypted.
    ///   - user: The user who signs in.
    public func visit(
        _ url: String,
        responseMode: ResponseMode = .query,
        client: OAuthClient? = nil,
        user: OIDCEmulator.User = .alice
    ) async throws -> String {
        let query = emulator.parameters(ofRequestAt: url)
        var options = RedirectOptions(
            redirectURIs: [try RedirectURI(query["redirect_uri"] ?? "")],
            state: Secret(query["state"] ?? ""),
            responseMode: responseMode,
            reporter: FlowReporter(),
            clock: ContinuousClock()
        )
        if let client { options.decrypt = client.responseDecryption }
        return try await userAgent(user: user).withRedirectSession(options) { try await $0.visit(url) }
    }
}

extension AuthClient.Options {
    /// Options with the given name and account.
    public static func named(_ name: String = "default", account: String? = nil) -> Self {
        var options = Self()
        options.name = name
        options.account = account
        return options
    }
}
