public import AuthFlow

extension AuthClient {
    /// Creates a client of an OpenID Connect provider without a configuration file, for an app or a tool.
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
    ///   - issuer: The issuer, exactly as in the provider's metadata.
    ///   - clientID: `client_id`, as registered with the provider.
    ///   - scopes: The scopes to request. Many providers issue a refresh token only for `offline_access`.
    ///   - userAgents: The user agents, in order of preference: if one cannot be used, the next one is tried.
    ///   - devicePresenter: Shows the user code of the device flow (RFC 8628) when no user agent can be used; default: none.
    ///   - store: The store for the tokens; default: memory, so users must sign in each time the program starts.
    ///   - options: The options; default: the defaults of ``/AuthFlow/AuthClient/Options``.
    ///   - transport: The transport for every request, for example through a proxy; default: the system's.
    ///   - observer: Receives every event of every flow, in order. It must not block.
    ///   - registration: Sets the other values of the registration: the redirect URI (default: a loopback URI with any
    ///     free port), the client authentication (default: a public client), and DPoP.
    /// - Throws: ``/AuthFlow/AuthError`` with `invalid_configuration`; any error that `registration` throws.
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
