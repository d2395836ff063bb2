public import AuthFlowOAuth
public import AuthFlowStorage
public import AuthFlowTransport

extension AuthClient {
    /// Creates a client from values, for an app or a tool whose provider is known at build time.
    ///
    /// ```swift
    /// let client = try AuthClient(
    ///     MyProvider(),
    ///     clientID: "my-client",
    ///     scopes: ["profile"],
    ///     userAgents: [LoopbackUserAgent()],
    ///     store: FileTokenStore(application: "my-app")
    /// )
    /// ```
    /// - Parameters:
    ///   - provider: The provider's adapter.
    ///   - clientID: `client_id`, as registered with the provider.
    ///   - scopes: The scopes to request.
    ///   - userAgents: The user agents, in order of preference. The first that works in this environment is used.
    ///   - devicePresenter: Shows the user the code of the device flow (RFC 8628), if no user agent works; default: none.
    ///   - store: Stores the tokens; default: memory, so users must sign in each time the program starts.
    ///   - sharedCredentials: The store that the apps of one vendor share on this machine, for single sign-on; default: none.
    ///   - options: The options; default: the defaults of ``Options``.
    ///   - transport: Sends every request, for example through a proxy; default: the system's.
    ///   - observer: Receives every event of every flow, in order. It must not block.
    ///   - registration: Changes the registration's other values: the redirect URI (default: a loopback redirect URI
    ///     with a free port), the client authentication (default: a public client), and DPoP.
    /// - Throws: ``AuthError`` with `invalid_configuration`; any error that `registration` throws.
    public convenience init(
        _ provider: any ProviderAdapter,
        clientID: String,
        scopes: [String],
        userAgents: [any UserAgent],
        devicePresenter: (any DevicePresenter)? = nil,
        store: any TokenStore = MemoryTokenStore(),
        sharedCredentials: SharedCredentialStore? = nil,
        options: Options = Options(),
        transport: any HTTPTransport = SystemTransport(),
        observer: (@Sendable (FlowEvent) -> Void)? = nil,
        registration change: (inout ClientRegistration.Values) throws -> Void = { _ in }
    ) throws {
        let registration = try ClientRegistration(clientID: clientID) {
            $0.scopes = scopes
            try change(&$0)
        }
        self.init(
            client: OAuthClient(
                server: AuthorizationServer(provider, transport: transport),
                registration: registration,
                sharedCredentials: sharedCredentials
            ),
            methods: userAgents.map { .userAgent($0) } + (devicePresenter.map { [.device($0)] } ?? []),
            store: store,
            options: options,
            observer: observer
        )
    }
}
