public import AuthFlow
import AuthFlowHeadless

extension ProviderFactory {
    /// `forgerock`: ForgeRock (PingAM), whose sign-in is a tree.
    ///
    /// ## Configuration keys
    /// - `base_url` (URL, required), `realm` (string, optional): The server and the realm.
    /// - `issuer` (URL, optional): The issuer, when it is not the realm's address.
    /// - `acr_values` (array, optional): Names that the server maps to trees.
    /// - `minimum_auth_level` (number, optional): The minimum `auth_level` of a sign-in.
    /// - `requires_acr` (boolean, optional): Whether one of the `acr_values` is required.
    public static var forgeRock: ProviderFactory {
        let keys =
            realmKeys + [
                ConfigurationKey("issuer", .url, "The issuer, when it is not the realm's address."),
                ConfigurationKey("acr_values", .list(.text), "Names that the server maps to trees, best first."),
                ConfigurationKey("minimum_auth_level", .number(0...1000), "The minimum auth_level of a sign-in."),
                ConfigurationKey(
                    "requires_acr",
                    .flag,
                    "Whether one of the acr_values is required, and must be in the ID Token."
                ),
            ]
        return ProviderFactory("forgerock", keys: keys) { profile in
            ForgeRockProvider(
                realm: try realm(profile),
                issuer: profile.text("issuer"),
                acrValues: profile.texts("acr_values") ?? [],
                requiresACR: profile.flag("requires_acr") ?? false,
                minimumAuthLevel: profile.number("minimum_auth_level")
            )
        }
    }
}

extension UserAgentFactory {
    /// `tree`: walks an authentication tree without a page.
    ///
    /// ## Configuration keys
    /// - `base_url` (URL, required), `realm` (string, optional): The server and the realm of the trees.
    /// - `tree` (string, optional): The tree; default: the one that the provider names.
    /// - `username` (string), `password` (secret), `answers` (object of strings or secrets): The answers; the user is
    ///   asked for others, when the program can ask.
    /// - `consent` (`allow` or `deny`, optional): The decision when asked for consent; default: `allow`.
    /// - `shared_cookies` (object, optional): Cookies that several apps share: `group`, `store`, `names`, and
    ///   `session_cookies_at_risk` to share cookies that are not meant to outlive the browser.
    /// - Parameters:
    ///   - transport: The transport; default: that of the profile.
    ///   - host: The clock, and the environment that locates the stores.
    ///   - ask: Asks the user; nil when no user can be asked.
    ///   - show: Shows the user a text that belongs to the questions; nil to leave it out.
    public static func tree(
        transport: (any HTTPTransport)? = nil,
        host: HostServices = .system,
        ask: (@Sendable (_ question: String, _ isSecret: Bool) async throws -> String)? = nil,
        show: (@Sendable (_ text: String) async -> Void)? = nil
    ) -> UserAgentFactory {
        let stores = TokenStoreFactory.standard
        let sharedKeys = [
            ConfigurationKey("group", .text, required: true, "The name of the group, the same in all its apps."),
            ConfigurationKey(
                "store",
                .named(stores.map { ConfigurationVariant($0.name, keys: $0.keys) }),
                required: true,
                "The store of the cookies, the same in all apps."
            ),
            ConfigurationKey("names", .list(.text), required: true, "The cookies that are shared, and no others."),
            ConfigurationKey(
                "session_cookies_at_risk",
                .flag,
                "Whether cookies that are not meant to outlive the browser are shared too."
            ),
        ]
        let keys =
            realmKeys + [
                ConfigurationKey("tree", .text, "The tree; default: the one that the provider names."),
                ConfigurationKey("username", .text, "The user name."),
                ConfigurationKey("password", .secret, "The password, by reference."),
                ConfigurationKey(
                    "answers",
                    .map(.either(.text, .secret)),
                    "Other answers, by the prompt of their question, or its type when it has none."
                ),
                ConfigurationKey(
                    "consent",
                    .choice(["allow", "deny"]),
                    "The decision when asked for consent; default: allow."
                ),
                ConfigurationKey("shared_cookies", .object(sharedKeys), "Cookies that several apps share."),
            ]
        return UserAgentFactory("tree", keys: keys) { options, context in
            let realm = try realm(options)
            let answers = options.object("answers")
            var given: [String: Secret] = [:]
            for name in options.parameters("answers").names {
                guard !name.isEmpty else {
                    throw options.error("an answer needs the prompt of its question, or its type", at: "answers")
                }
                given[name] = try answers.text(name).map(Secret.init) ?? answers.secret(name)
            }
            let configured = ConfiguredAnswers(
                username: options.text("username"),
                password: try options.secret("password"),
                answers: given
            )
            let asking: [any CallbackHandler] = ask.map { [AskingHandler($0, show: show)] } ?? []
            let driver = TreeDriver(
                realm: realm,
                tree: options.text("tree"),
                handlers: [configured] + asking,
                allowsConsent: options.text("consent") != "deny",
                host: host
            )
            let shared = options.object("shared_cookies")
            let cookies = try shared.text("group").map { group in
                SharedCookies(
                    store: SharedCredentialStore(
                        group: group,
                        store: try shared.store("store", of: stores, host: host)
                    ),
                    origin: try Endpoint(realm.origin),
                    names: shared.texts("names") ?? [],
                    sharingSessionCookiesAtRisk: shared.flag("session_cookies_at_risk") ?? false
                )
            }
            return HeadlessUserAgent(
                driver: driver,
                sharedCookies: cookies,
                transport: transport ?? context.transport,
                host: host
            )
        }
    }
}

private let realmKeys = [
    ConfigurationKey(
        "base_url",
        .url,
        required: true,
        "The server's address with its context: https://id.example.com/am."
    ),
    ConfigurationKey("realm", .text, "The realm; default: /."),
]

private func realm(_ configuration: ConfigurationObject) throws -> ForgeRockRealm {
    try configuration.located("base_url") { () throws(AuthError) in
        try ForgeRockRealm(baseURL: configuration.text("base_url") ?? "", path: configuration.text("realm") ?? "/")
    }
}
