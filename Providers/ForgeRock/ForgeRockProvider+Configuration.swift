public import AuthFlow
import AuthFlowHeadless

extension ProviderFactory {
    /// `forgerock`: ForgeRock (PingAM), where users sign in through an authentication tree.
    public static var forgeRock: ProviderFactory {
        let issuer = ConfigurationKey("issuer", .issuer, "The issuer, if it differs from the realm's URL.")
        let acrValues = ConfigurationKey(
            "acr_values",
            .list(.text),
            default: [],
            "The acr values that the server maps to trees, in order of preference."
        )
        let minimumAuthLevel = ConfigurationKey(
            "minimum_auth_level",
            .number(0...1000),
            "The minimum auth_level of a sign-in, from the ID Token or else the access token; a sign-in without an auth_level is rejected."
        )
        let requiresACR = ConfigurationKey(
            "requires_acr",
            .flag,
            default: false,
            "Whether the ID Token's acr must be one of the acr_values."
        )
        let keys: [any AnyConfigurationKey] = RealmKeys.all + [issuer, acrValues, minimumAuthLevel, requiresACR]
        return ProviderFactory("forgerock", keys: keys) { profile in
            ForgeRockProvider(
                realm: try RealmKeys.realm(profile),
                issuer: try profile[issuer],
                acrValues: try profile[acrValues],
                requiresACR: try profile[requiresACR],
                minimumAuthLevel: try profile[minimumAuthLevel]
            )
        }
    }
}

extension UserAgentFactory {
    /// `tree`: walks an authentication tree without a browser.
    /// - Parameters:
    ///   - transport: The transport; default: the profile's transport.
    ///   - host: The clock, and the environment variables that determine the stores' locations.
    ///   - ask: Asks the user for answers that are not configured; nil when no user can be asked.
    ///   - show: Shows the user a message that accompanies the questions; nil to omit messages. A secret message must not be logged.
    public static func tree(
        transport: (any HTTPTransport)? = nil,
        host: HostServices = .system,
        ask: (@Sendable (_ question: String, _ isSecret: Bool) async throws -> String)? = nil,
        show: (@Sendable (_ text: String, _ isSecret: Bool) async throws -> Void)? = nil
    ) -> UserAgentFactory {
        let keys = TreeKeys()
        return UserAgentFactory("tree", keys: RealmKeys.all + keys.all) { options, context in
            let realm = try RealmKeys.realm(options)
            let configured = ConfiguredCallbackHandler(
                username: try options[keys.username],
                password: try options[keys.password],
                answers: try options[keys.answers]
            )
            let interactive: [any CallbackHandler] = ask.map { [InteractiveCallbackHandler($0, show: show)] } ?? []
            let driver = TreeDriver(
                realm: realm,
                tree: try options[keys.tree],
                handlers: [configured] + interactive,
                allowsConsent: try options[keys.consent] == "allow",
                host: host
            )
            return HeadlessUserAgent(
                driver: driver,
                sharedCookies: try options[keys.sharedCookies]?.cookies(
                    of: realm,
                    user: try options[keys.username],
                    host: host
                ),
                transport: transport ?? context.transport,
                host: host
            )
        }
    }
}

/// The options of the `tree` user agent.
private struct TreeKeys: Sendable {
    let tree = ConfigurationKey(
        "tree",
        .text,
        "The authentication tree. Default: the tree that the provider's sign-in page specifies."
    )
    let username = ConfigurationKey("username", .text, "The user name.")
    let password = ConfigurationKey("password", .secret, "The password, by reference.")
    let answers = ConfigurationKey(
        "answers",
        .map(.either(.parsed { text in Secret(text) }, .secret)) { name throws(AuthError) in
            guard !name.isEmpty else {
                throw AuthError(
                    .invalidConfiguration,
                    "the key of an answer must be the prompt, the name or the callback type of its question"
                )
            }
        },
        default: [:],
        "The answers to other questions, by prompt, by name, or, for questions with neither, by callback type. Each answer is a string or a secret."
    )
    let consent = ConfigurationKey(
        "consent",
        .choice(["allow", "deny"]),
        default: "allow",
        "The decision when the provider asks for consent."
    )
    let sharedCookies = ConfigurationKey(
        "shared_cookies",
        .object(SharedCookieSettings.keys) { object throws(ConfigurationError) in try SharedCookieSettings(object) },
        "Cookies that several apps share. With a username, only the cookies from sign-ins with the same username are used."
    )

    var all: [any AnyConfigurationKey] { [tree, username, password, answers, consent, sharedCookies] }
}

/// The settings of a group of apps that share cookies.
private struct SharedCookieSettings: Sendable {
    private static let group = ConfigurationKey(
        "group",
        required: .text,
        "The name of the group, which must be the same in all apps of the group."
    )
    private static let store = ConfigurationKey(
        "store",
        required: .store(of: TokenStoreFactory.standard),
        "The cookie store, which must be the same in all apps of the group."
    )
    private static let names = ConfigurationKey(
        "names",
        required: .list(.text),
        "The names of the cookies to share."
    )
    private static let atRisk = ConfigurationKey(
        "session_cookies_at_risk",
        .flag,
        default: false,
        "Whether session cookies, which are not meant to outlive the browser, are shared too."
    )
    static let keys: [any AnyConfigurationKey] = [group, store, names, atRisk]

    private let group: String
    private let store: ConfigurationChoice<TokenStoreFactory>
    private let names: [String]
    private let sharesSessionCookies: Bool

    init(_ object: ConfigurationObject) throws(ConfigurationError) {
        group = try object[Self.group]
        store = try object[Self.store]
        names = try object[Self.names]
        sharesSessionCookies = try object[Self.atRisk]
    }

    func cookies(of realm: ForgeRockRealm, user: String?, host: HostServices) throws -> SharedCookies {
        SharedCookies(
            store: SharedCredentialStore(group: group, store: try store.make(host: host)),
            origin: try Endpoint(realm.origin),
            names: names,
            sharingSessionCookiesAtRisk: sharesSessionCookies,
            user: user
        )
    }
}

/// The keys that identify a realm.
private enum RealmKeys {
    private static let baseURL = ConfigurationKey(
        "base_url",
        required: .issuer,
        "The server's URL with its context path, such as https://id.example.com/am."
    )
    private static let path = ConfigurationKey("realm", .text, default: "/", "The realm.")

    static let all: [any AnyConfigurationKey] = [baseURL, path]

    static func realm(_ configuration: ConfigurationObject) throws(ConfigurationError) -> ForgeRockRealm {
        let url = try configuration[baseURL]
        let realm = try configuration[path]
        return try configuration.located(baseURL) { () throws(AuthError) in
            try ForgeRockRealm(baseURL: url, path: realm)
        }
    }
}
