extension AuthClient {
    /// Makes a client from a profile of a configuration file and the lists of what the profile may choose from.
    ///
    /// There is no global registry: what a program lists is what its configuration can name.
    /// - Parameters:
    ///   - profile: The profile.
    ///   - providers: The provider adapters to choose from.
    ///   - userAgents: The user agents to choose from. Without `user_agent` the first that can work here is taken.
    ///   - devicePresenter: Shows the person the code for signing in on another screen; nil when that is no way to sign in.
    ///   - stores: The token stores to choose from.
    ///   - flows: The ways to sign in, whatever the profile says.
    ///   - account: The subject of the account that is meant, whatever the profile says.
    ///   - transport: The way to the network.
    ///   - host: Time, randomness and environment.
    ///   - observer: Receives every event of every flow, at once and in order. It must not block.
    /// - Throws: ``ConfigurationError`` with the place of every fault; ``AuthError`` when no user agent can work here.
    public convenience init(
        profile: Profile,
        providers: [ProviderFactory],
        userAgents: [UserAgentFactory],
        devicePresenter: (any DevicePresenter)? = nil,
        stores: [TokenStoreFactory] = TokenStoreFactory.standard,
        flows: [SignInFlow]? = nil,
        account: String? = nil,
        transport: any HTTPTransport = URLSessionTransport(),
        host: HostServices = .system,
        observer: @escaping @Sendable (FlowEvent) -> Void = { _ in }
    ) throws {
        let (provider, configuration) = try profile.checked(
            providers: providers,
            userAgents: userAgents,
            stores: stores,
            environment: host.environment
        )
        var settings = try ClientSettings(configuration: configuration, provider: provider)
        if let flows { settings.flows = flows }
        if settings.flows == [.device], devicePresenter == nil {
            throw configuration.error("this program cannot show a code for signing in on another screen", at: "flow")
        }
        self.init(
            name: profile.name,
            settings: settings,
            provider: try provider.make(configuration),
            userAgent: try Self.userAgent(
                configuration,
                userAgents,
                host,
                hasOtherFlow: settings.flows.contains(.device)
            ),
            devicePresenter: devicePresenter,
            store: try Self.store(configuration, stores, host),
            sharedCredentials: try Self.sharedCredentials(configuration, stores, host),
            account: account ?? configuration.text("account"),
            transport: transport,
            host: host,
            observer: observer
        )
    }

    private static func userAgent(
        _ configuration: ConfigurationObject,
        _ factories: [UserAgentFactory],
        _ host: HostServices,
        hasOtherFlow: Bool
    ) throws -> any UserAgent {
        var choices = configuration.choices("user_agent")
        if choices.isEmpty {
            choices = factories.filter { !$0.keys.contains(where: \.isRequired) }.map {
                ($0.name, configuration.object("user_agent"))
            }
        }
        var reasons: [String] = []
        var doubtful: ChosenUserAgent?
        for choice in choices {
            guard let factory = factories.first(where: { $0.name == choice.name }) else { continue }
            let availability = factory.availability(choice.options, host.environment)
            if case .available = availability {
                return ChosenUserAgent(name: factory.name, base: try factory.make(choice.options), passedOver: reasons)
            }
            if case .doubtful = availability, doubtful == nil {
                doubtful = ChosenUserAgent(
                    name: factory.name,
                    base: try factory.make(choice.options),
                    passedOver: reasons
                )
            }
            reasons.append("\(choice.name): \(availability.reason)")
        }
        if let doubtful, !hasOtherFlow { return doubtful }
        let error = AuthError(
            .userAgentFailed,
            "No user agent of this profile can work here. \(reasons.joined(separator: "; "))"
        )
        guard hasOtherFlow else { throw error }
        return UnavailableUserAgent(error: error)
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

/// A user agent that cannot work here, in a profile that has another way to sign in.
private struct UnavailableUserAgent: UserAgent {
    let error: AuthError

    func withRedirectSession<Return: Sendable>(
        _ options: RedirectOptions,
        _ body: (RedirectSession) async throws -> Return
    ) async throws -> Return {
        throw error
    }
}

/// A user agent that was chosen by configuration, and says so when it is used.
private struct ChosenUserAgent: UserAgent {
    let name: String
    let base: any UserAgent
    let passedOver: [String]

    func withRedirectSession<Return: Sendable>(
        _ options: RedirectOptions,
        _ body: (RedirectSession) async throws -> Return
    ) async throws -> Return {
        var details = ["name": name]
        if !passedOver.isEmpty { details["passed_over"] = passedOver.joined(separator: "; ") }
        options.reporter.report(.userAgentChoice, details: details)
        return try await base.withRedirectSession(options, body)
    }
}

extension ClientSettings {
    /// Reads the settings of a profile.
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
        let redirectURI = try configuration.text("redirect_uri").map { uri in
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
        let apiOrigins = try (configuration.texts("api_origins") ?? []).map { origin in
            try configuration.located("api_origins") { () throws(AuthError) in
                try Endpoint(origin, name: "origin of an API")
            }
        }
        let flows = (configuration.texts("flow") ?? configuration.text("flow").map { [$0] } ?? [])
            .compactMap(SignInFlow.init(rawValue:))
        let algorithms = configuration.texts("id_token_signing_algorithms")?.map(SignatureAlgorithm.init(rawValue:))
        try configuration.located("id_token_signing_algorithms") { () throws(AuthError) in
            try Self.check(algorithms, authentication)
        }
        self = try configuration.located("scopes") { () throws(AuthError) in
            try ClientSettings(
                clientID: configuration.text("client_id") ?? "",
                authentication: authentication,
                redirectURI: redirectURI ?? .loopback,
                scopes: configuration.texts("scopes") ?? ["openid"],
                parameters: Dictionary(
                    uniqueKeysWithValues: ProviderRequest.Purpose.configurable.map {
                        ($0, parameters.parameters($0.rawValue))
                    }
                ),
                flows: flows.isEmpty ? [.authorizationCode] : flows,
                timeout: .seconds(configuration.number("timeout") ?? 300),
                responseMode: configuration.text("response_mode").flatMap(ResponseMode.init(rawValue:)) ?? .query,
                idTokenSigningAlgorithms: algorithms,
                clockLeeway: .seconds(configuration.number("clock_leeway") ?? 60),
                freshnessMargin: .seconds(configuration.number("freshness_margin") ?? 60),
                postLogoutRedirectURI: postLogoutRedirectURI,
                usesDPoP: configuration.flag("dpop") ?? false,
                apiOrigins: apiOrigins
            )
        }
    }
}
