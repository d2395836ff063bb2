extension AuthClient {
    /// What a program's user chooses in place of a profile's settings.
    public struct Overrides: Sendable {
        /// The flows to sign in with; default: those of the profile.
        public var flows: [SignInFlow]?
        /// The name of the user agent, which gets the profile's options for it, if there are any; default: the profile's choice.
        public var userAgent: String?
        /// The subject of the account to use; default: that of the profile.
        public var account: String?
        /// Where the program runs; default: detected.
        public var launchEnvironment: LaunchEnvironment?

        /// Creates overrides.
        public init(flows: [SignInFlow]? = nil, userAgent: String? = nil, account: String? = nil) {
            self.flows = flows
            self.userAgent = userAgent
            self.account = account
        }
    }

    /// Creates a client from a profile of a configuration file and the lists of what the profile may choose from.
    ///
    /// There is no global registry: what a program lists is what its configuration can name.
    /// - Parameters:
    ///   - profile: The profile.
    ///   - providers: The provider adapters to choose from.
    ///   - userAgents: The user agents to choose from. Without `user_agent`, or with `auto`, the first that can work here is
    ///     used.
    ///   - devicePresenter: Shows the user the code for signing in on another screen; nil for no device grant.
    ///   - stores: The token stores to choose from.
    ///   - overrides: The choices of the program's user in place of the profile's; default: none.
    ///   - transport: The client's transport; default: the one that the profile describes. User agents always use that.
    ///   - host: Time, randomness and environment.
    ///   - observer: Receives every event of every flow, immediately and in order. It must not block.
    /// - Throws: ``ConfigurationError`` with the place of every fault; ``AuthError`` when an override cannot be used.
    public convenience init(
        profile: Profile,
        providers: [ProviderFactory],
        userAgents: [UserAgentFactory],
        devicePresenter: (any DevicePresenter)? = nil,
        stores: [TokenStoreFactory] = TokenStoreFactory.standard,
        overrides: Overrides = Overrides(),
        transport: (any HTTPTransport)? = nil,
        host: HostServices = .system,
        observer: @escaping @Sendable (FlowEvent) -> Void = { _ in }
    ) throws {
        let (factory, configuration) = try profile.checked(
            providers: providers,
            userAgents: userAgents,
            stores: stores,
            environment: host.environment
        )
        let registration = try ClientRegistration(configuration: configuration, provider: factory)
        let network = try profile.transport(environment: host.environment)
        let flows = overrides.flows ?? configuration.signInFlows
        if flows == [.device], devicePresenter == nil {
            throw configuration.error("this program cannot show a code for signing in on another screen", at: "flow")
        }
        guard !flows.isEmpty else { throw AuthError(.invalidConfiguration, "The list of flows is empty.") }
        let choice = try UserAgentChoice(
            of: overrides.userAgent,
            in: configuration,
            factories: userAgents,
            context: UserAgentContext(
                launchEnvironment: overrides.launchEnvironment ?? .current(environment: host.environment),
                redirectURIs: registration.redirectURIs,
                transport: network
            )
        )
        let server = AuthorizationServer(
            try factory.make(configuration),
            transport: transport ?? network,
            host: host
        )
        var options = try Options(configuration)
        options.name = profile.name
        if let account = overrides.account { options.account = account }
        self.init(
            client: OAuthClient(
                server: server,
                registration: registration,
                sharedCredentials: try Self.sharedCredentials(configuration, stores, host)
            ),
            methods: try choice.methods(flows, devicePresenter: devicePresenter),
            store: try Self.store(configuration, stores, host),
            options: options,
            observer: observer
        )
    }

    private static func store(
        _ configuration: ConfigurationObject,
        _ factories: [TokenStoreFactory],
        _ host: HostServices
    ) throws -> any TokenStore {
        let choice = configuration.choices("store").first
        let name = choice?.name ?? factories.first?.name
        guard let factory = factories.first(where: { $0.name == name }) else { return MemoryTokenStore() }
        return try factory.make(choice?.options ?? configuration.object("store"), host)
    }
}

extension AuthClient {
    fileprivate static func sharedCredentials(
        _ configuration: ConfigurationObject,
        _ factories: [TokenStoreFactory],
        _ host: HostServices
    ) throws -> SharedCredentialStore? {
        let shared = configuration.object("shared")
        guard let group = shared.text("group") else { return nil }
        return SharedCredentialStore(group: group, store: try shared.store("store", of: factories, host: host))
    }
}

extension AuthClient.Options {
    fileprivate init(_ configuration: ConfigurationObject) throws {
        self.init()
        account = configuration.text("account")
        if let timeout = configuration.number("timeout") { self.timeout = .seconds(timeout) }
        if let margin = configuration.number("freshness_margin") { freshnessMargin = .seconds(margin) }
        apiOrigins = try (configuration.texts("api_origins") ?? []).map { origin in
            try configuration.located("api_origins") { () throws(AuthError) in
                try Endpoint(origin, name: "origin of an API")
            }
        }
    }
}

extension ConfigurationObject {
    /// The flows that a profile names with `flow`, best first; default: the authorization code grant.
    public var signInFlows: [SignInFlow] {
        let flows = (texts("flow") ?? text("flow").map { [$0] } ?? []).compactMap(SignInFlow.init(rawValue:))
        return flows.isEmpty ? [.authorizationCode] : flows
    }
}

extension ClientRegistration {
    /// Reads the registration of a profile.
    /// - Throws: ``ConfigurationError``.
    init(configuration: ConfigurationObject, provider: ProviderFactory) throws {
        let secret = try configuration.secret("client_secret")
        let authentication: ClientAuthentication
        switch (configuration.text("client_authentication"), secret) {
        case ("none", _?):
            throw configuration.error(
                "\"none\" sends no secret, but there is a \"client_secret\"",
                at: "client_authentication"
            )
        case (nil, nil), ("none", nil): authentication = .none
        case (let method, let secret?):
            authentication =
                (method ?? provider.secretMethod.rawValue) == ClientAuthentication.Method.clientSecretPost.rawValue
                ? .clientSecretPost(secret) : .clientSecretBasic(secret)
        case (let method?, nil):
            throw configuration.error("\"\(method)\" needs a \"client_secret\"", at: "client_authentication")
        }
        let uris = configuration.texts("redirect_uri") ?? configuration.text("redirect_uri").map { [$0] } ?? []
        let redirectURIs = try uris.map { uri in
            try configuration.located("redirect_uri") { () throws(AuthError) in try RedirectURI(uri) }
        }
        let parameters = configuration.object("parameters")
        for purpose in ProviderRequest.Purpose.configurable {
            for name in parameters.parameters(purpose.rawValue).names where ProviderRequest.reservedNames.contains(name)
            {
                throw parameters.object(purpose.rawValue).error(
                    "this parameter is set by AuthFlow and cannot be given",
                    at: name
                )
            }
        }
        let postLogoutRedirectURI = try configuration.text("post_logout_redirect_uri").map { uri in
            try configuration.located("post_logout_redirect_uri") { () throws(AuthError) in try RedirectURI(uri) }
        }
        let algorithms = configuration.texts("id_token_signing_algorithms")?.map(SignatureAlgorithm.init(rawValue:))
        try configuration.located("id_token_signing_algorithms") { () throws(AuthError) in
            try ClientRegistration.Values.check(algorithms, authentication)
        }
        var values = ClientRegistration.Values(clientID: configuration.text("client_id") ?? "")
        values.authentication = authentication
        if !redirectURIs.isEmpty { values.redirectURIs = redirectURIs }
        values.scopes = configuration.texts("scopes") ?? provider.defaultScopes
        values.parameters = Dictionary(
            uniqueKeysWithValues: ProviderRequest.Purpose.configurable.map {
                ($0, parameters.parameters($0.rawValue))
            }
        )
        values.responseMode = configuration.text("response_mode").flatMap(ResponseMode.init(rawValue:)) ?? .query
        values.idTokenSigningAlgorithms = algorithms
        values.clockLeeway = .seconds(configuration.number("clock_leeway") ?? 60)
        values.postLogoutRedirectURI = postLogoutRedirectURI
        values.sendsClientIDAtSignOut = configuration.flag("client_id_at_sign_out") ?? true
        values.usesDPoP = configuration.flag("dpop") ?? false
        self = try configuration.located("scopes") { [values] () throws(AuthError) in try ClientRegistration(values) }
        try provider.check(self, configuration)
    }
}
