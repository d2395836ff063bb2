public import AuthFlow

extension AuthClient {
    /// Creates a client of an OpenID Connect provider from values, for an app or a tool.
    ///
    /// ```swift
    /// let client = try AuthClient(
    ///     issuer: "https://id.example.com",
    ///     clientID: "my-client",
    ///     scopes: ["openid", "profile", "offline_access"],
    ///     userAgents: [LoopbackUserAgent()],
    ///     store: FileTokenStore(application: "my-app")
    /// )
    /// ```
    /// - Parameters:
    ///   - issuer: The issuer, exactly as the provider writes it.
    ///   - clientID: `client_id`, as registered with the provider.
    ///   - scopes: The scopes to request. Many providers issue a refresh token only for `offline_access`.
    ///   - userAgents: The user agents, best first: the next one is used where one cannot work.
    ///   - devicePresenter: Shows the user the code of the device flow (RFC 8628), where no user agent can work; default: none.
    ///   - store: Keeps the tokens; default: memory, so that users sign in at each start.
    ///   - options: Default: the defaults of ``/AuthFlow/AuthClient/Options``.
    ///   - transport: Sends every request, such as one with a proxy; default: the system's.
    ///   - observer: Receives every event of every flow, in order. It must not block.
    ///   - registration: Changes the registration's other values: the redirect URI (default: a loopback address with a free port), the client's
    ///     authentication (default: a public client), DPoP.
    /// - Throws: ``/AuthFlow/AuthError`` with `invalid_configuration`; what `registration` throws.
    public convenience init(
        issuer: String,
        clientID: String,
        scopes: [String],
        userAgents: [any UserAgent],
        devicePresenter: (any DevicePresenter)? = nil,
        store: any TokenStore = MemoryTokenStore(),
        options: Options = Options(),
        transport: any HTTPTransport = SystemTransport(),
        observer: (@Sendable (FlowEvent) -> Void)? = nil,
        registration: (inout ClientRegistration.Values) throws -> Void = { _ in }
    ) throws {
        try self.init(
            OIDCProvider(issuer: issuer),
            clientID: clientID,
            scopes: scopes,
            userAgents: userAgents,
            devicePresenter: devicePresenter,
            store: store,
            options: options,
            transport: transport,
            observer: observer,
            registration: registration
        )
    }
}
