import AuthFlowJSON

/// One profile of a configuration file, not yet made into a client.
public struct Profile: Sendable {
    /// Its name in the file.
    public let name: String

    private let json: JSON
    private let path: JSONPath
    private let source: ConfigurationSource

    init(name: String, json: JSON, path: JSONPath, source: ConfigurationSource) {
        self.name = name
        self.json = json
        self.path = path
        self.source = source
    }

    /// Checks the profile against what a program lists, and makes it readable.
    /// - Throws: ``ConfigurationError`` with every fault.
    func checked(
        providers: [ProviderFactory],
        userAgents: [UserAgentFactory],
        stores: [TokenStoreFactory],
        environment: [String: String]
    ) throws -> (provider: ProviderFactory, profile: ConfigurationObject) {
        let provider = json["provider"]?.string.flatMap { name in providers.first { $0.name == name } }
        var checker = ConfigurationChecker(source: source)
        checker.check(
            json,
            .object(Self.keys(provider: provider, providers: providers, userAgents: userAgents, stores: stores)),
            at: path
        )
        var issues = checker.issues
        if provider == nil {
            // Without the provider its own keys cannot be told from misspelt ones: only
            // faults that are certain are reported.
            let own = Set(providers.flatMap(\.keys).map(\.name))
            issues.removeAll { issue in own.contains { issue.keyPath == path.member($0).description } }
        }
        guard issues.isEmpty, let provider else { throw ConfigurationError(issues: issues) }
        return (provider, ConfigurationObject(json, path: path, source: source, environment: environment))
    }

    /// The transport that the profile describes, with its proxy and its certificates.
    /// - Parameter environment: The variables that name a proxy and hold its password.
    /// - Throws: ``ConfigurationError`` with the place of what is wrong.
    public func transport(
        environment: [String: String] = HostServices.system.environment
    ) throws -> any HTTPTransport {
        // Only these keys: the others may belong to providers that are not known here.
        let names = NetworkSettings.keys.map(\.name)
        let members = (json.object ?? [:]).filter { names.contains($0.key) }
        var checker = ConfigurationChecker(source: source)
        checker.check(.object(members), .object(NetworkSettings.keys), at: path)
        guard checker.issues.isEmpty else { throw ConfigurationError(issues: checker.issues) }
        let configuration = ConfigurationObject(json, path: path, source: source, environment: environment)
        #if os(Linux)
        return CurlTransport(try NetworkSettings(configuration: configuration, environment: environment))
        #else
        for key in NetworkSettings.keys.map(\.name) where configuration.has(key) {
            throw configuration.error(
                "on this system the network is configured for the whole system, not for each client",
                at: key
            )
        }
        return SystemTransport()
        #endif
    }

    /// The keys of a profile: those that every provider has, and those of one.
    static func keys(
        provider: ProviderFactory?,
        providers: [ProviderFactory],
        userAgents: [UserAgentFactory],
        stores: [TokenStoreFactory]
    ) -> [ConfigurationKey] {
        // Every agent that `auto` may choose receives the options of `auto`.
        let automatic = userAgents.filter(\.isAutomatic).flatMap(\.keys).reduce(into: [ConfigurationKey]()) {
            keys,
            key in
            if !keys.contains(where: { $0.name == key.name }) { keys.append(key) }
        }
        let agent = ConfigurationShape.named(
            [ConfigurationVariant(UserAgentChoice.auto, keys: automatic)]
                + userAgents.map { ConfigurationVariant($0.name, keys: $0.keys) }
        )
        let store = ConfigurationShape.named(stores.map { ConfigurationVariant($0.name, keys: $0.keys) })
        let flows = SignInFlow.allCases.map(\.rawValue)
        let purposes = ProviderRequest.Purpose.configurable.map {
            ConfigurationKey($0.rawValue, .map(.text), "More parameters of \($0) requests.")
        }
        return [
            ConfigurationKey("provider", .choice(providers.map(\.name)), required: true, "The provider adapter."),
            ConfigurationKey(
                "client_id",
                .text,
                required: true,
                "The client's identifier, as registered with the provider."
            ),
            ConfigurationKey(
                "client_secret",
                .secret,
                "The client's secret, by reference. Leave it out for a public client, such as an app or a command-line tool."
            ),
            ConfigurationKey(
                "client_authentication",
                .choice(["none", "client_secret_basic", "client_secret_post"]),
                "How the client authenticates; default: none without a secret, otherwise client_secret_basic."
            ),
            ConfigurationKey(
                "flow",
                .either(.choice(flows), .list(.choice(flows))),
                "How to sign in: in a user agent (authorization_code, the default) or on another screen (device); or a list, of which the first that can begin is used."
            ),
            ConfigurationKey(
                "scopes",
                .texts,
                "The scopes to request; [] for none. Default: those of the provider's adapter, mostly [\"openid\"]."
            ),
            ConfigurationKey(
                "redirect_uri",
                .either(.text, .list(.text)),
                "Where the provider sends the user back to, as registered; or a list, of which the first that can be used is taken. Default: http://127.0.0.1/callback on a free port."
            ),
            ConfigurationKey(
                "user_agent",
                .either(agent, .list(agent)),
                "How the user is shown the provider's page: one, or a list of which the first that can work is taken; default: auto."
            ),
            ConfigurationKey("store", store, "Where the credential is stored; default: file."),
            ConfigurationKey(
                "shared",
                .object([
                    ConfigurationKey("group", .text, required: true, "The name that all apps of the group give."),
                    ConfigurationKey("store", store, required: true, "Where it is stored: the same for all of them."),
                ]),
                "What several apps share, so that a user signs in once for all of them."
            ),
            ConfigurationKey("parameters", .object(purposes), "More parameters, for requests of each purpose."),
            ConfigurationKey(
                "response_mode",
                .choice(ResponseMode.allCases.map(\.rawValue)),
                "How the provider sends the authorization response through the browser; default: query."
            ),
            ConfigurationKey(
                "id_token_signing_algorithms",
                .list(.choice((SignatureAlgorithm.asymmetric + SignatureAlgorithm.symmetric).map(\.rawValue))),
                "The algorithms that ID Tokens may be signed with; default: those the provider announces, except HS256, HS384 and HS512."
            ),
            ConfigurationKey(
                "clock_leeway",
                .number(0...300),
                "How far this machine's clock and the provider's may be apart, in seconds; default: 60."
            ),
            ConfigurationKey(
                "freshness_margin",
                .number(0...3600),
                "How long before its expiry an access token counts as expired, in seconds; default: 60."
            ),
            ConfigurationKey(
                "account",
                .text,
                "The subject of the account to use when several are signed in; default: the last one."
            ),
            ConfigurationKey(
                "post_logout_redirect_uri",
                .text,
                "Where the provider sends the user back to after a sign-out, as registered."
            ),
            ConfigurationKey(
                "client_id_at_sign_out",
                .flag,
                "Whether a sign-out at the provider names the client beside the ID Token, which some providers need to honour the return address; default: true."
            ),
            ConfigurationKey(
                "dpop",
                .flag,
                "Whether tokens are bound to a key of this client (RFC 9449); those that are not are then refused."
            ),
            ConfigurationKey(
                "api_origins",
                .list(.url),
                "The origins of the APIs that the access token may be sent to."
            ),
            ConfigurationKey(
                "timeout",
                .number(5...3600),
                "How long a sign-in may take, in seconds; default: 300."
            ),
        ] + NetworkSettings.keys + (provider?.keys ?? [])
    }
}
