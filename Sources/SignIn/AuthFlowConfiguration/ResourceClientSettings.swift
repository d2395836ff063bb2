import AuthFlowCredentials
public import AuthFlowOAuth
public import AuthFlowResourceClient
public import AuthFlowSignIn
package import AuthFlowStorage

/// The settings of a configuration file for protected resources that are known only by their URL.
public struct ResourceClientSettings: Sendable {
    private let section: ConfigurationSection

    /// Creates the default settings, without a file.
    public init() {
        let source = ConfigurationSource(file: "settings", directory: ".", text: [])
        self.init(ConfigurationSection(json: [:], path: JSONPath(), source: source))
    }

    init(_ section: ConfigurationSection) { self.section = section }

    private static let clientName = ConfigurationKey(
        "client_name",
        .text,
        default: ResourceClient.Options().clientName,
        "The client_name for dynamic client registration, which authorization servers may show to the user."
    )
    private static let clientID = ConfigurationKey(
        "client_id",
        .parsed("uri") { text throws(AuthError) in
            try ClientMetadataDocument.checkURL(text)
            return text
        },
        "The URL of the client ID metadata document, which serves as the client_id at servers that support such documents. Default: none; the client then uses dynamic registration."
    )
    private static let usesDPoP = ConfigurationKey(
        "dpop",
        .flag,
        "Whether tokens are DPoP-bound (RFC 9449). Default: true if the resource requires it, or if the authorization server and the resource support it."
    )

    private static let issuers = ConfigurationKey(
        "issuers",
        .list(.text),
        default: [],
        "The issuers of authorization servers that are trusted although their endpoints are at other origins and their responses contain no iss parameter (RFC 9207). Such an issuer may be at a private address even if the resource is public. Default: none."
    )

    static func declarations(_ choices: ProfileChoices) -> [ConfigurationKeyDeclaration] {
        let own: [any AnyConfigurationKey] = [
            clientName, clientID, issuers, ProfileKeys.redirectURI, usesDPoP, choices.userAgents, choices.store,
            ProfileKeys.freshnessMargin, ProfileKeys.timeout,
        ]
        return own.map(\.declaration) + NetworkSettings.Keys.declarations
    }

    /// Validates the settings, without reading secrets or starting programs.
    /// - Throws: ``ConfigurationError`` with every issue.
    package func check(by components: ProfileComponents) throws {
        _ = try checked(ProfileChoices(components), environment: [:])
    }

    /// The settings, validated.
    /// - Throws: ``ConfigurationError`` with every issue.
    fileprivate func checked(_ choices: ProfileChoices, environment: [String: String]) throws -> ConfigurationObject {
        try section.checked(Self.declarations(choices), environment: environment)
    }

    /// The settings for a local sign-out, which sends no requests: a missing certificate or password must not prevent a user from removing the
    /// stored tokens.
    package var forLocalSignOut: ResourceClientSettings {
        let names = Set(NetworkSettings.Keys.all.map { $0.declaration.name })
        return ResourceClientSettings(section.filtered { !names.contains($0) })
    }

    /// The transport that the settings describe, with its proxy and its certificates.
    /// - Throws: ``ConfigurationError`` with the location of the issue.
    package func transport(environment: [String: String] = HostServices.system.environment) throws -> any HTTPTransport
    {
        try section.transport(environment: environment)
    }

    /// The store that the settings select, default: the first store in the list; and the redirect URI under which
    /// registrations are stored.
    /// - Throws: ``ConfigurationError``, or any error from creating the store.
    package func registrationStore(
        _ components: ProfileComponents,
        host: HostServices = .system
    ) throws -> (store: any TokenStore, redirectURI: RedirectURI) {
        let choices = ProfileChoices(components)
        let configuration = try checked(choices, environment: host.environment)
        return (
            try choices.makeStore(configuration, host),
            try configuration[ProfileKeys.redirectURI]?.first ?? .loopback
        )
    }

    /// Sets the options that the settings contain. The default of a key does not replace an option that the program has set.
    fileprivate func apply(_ configuration: ConfigurationObject, to options: inout ResourceClient.Options) throws {
        func value<Value>(_ key: ConfigurationKey<Value>) throws(ConfigurationError) -> Value? {
            guard configuration.member(key.declaration.name) != nil else { return nil }
            return try configuration[key]
        }
        if let clientName = try value(Self.clientName) { options.clientName = clientName }
        if let clientID = try configuration[Self.clientID] { options.clientMetadataDocument = clientID }
        if let redirectURIs = try configuration[ProfileKeys.redirectURI] { options.redirectURIs = redirectURIs }
        if let issuers = try value(Self.issuers) { options.trustedIssuers = issuers }
        if let usesDPoP = try configuration[Self.usesDPoP] { options.usesDPoP = usesDPoP }
        if let margin = try value(ProfileKeys.freshnessMargin) { options.freshnessMargin = margin }
        if let timeout = try value(ProfileKeys.timeout) { options.timeout = timeout }
    }
}

extension ResourceClient {
    /// Creates a client from the settings of a configuration file, or from the defaults.
    /// - Parameters:
    ///   - address: The URL of the resource.
    ///   - settings: The settings; default: the default settings.
    ///   - userAgents: The user agents to choose from. The first sign-in creates the agent, and reads its secrets.
    ///   - stores: The token stores to choose from.
    ///   - launchEnvironment: The environment that the program runs in; default: detected.
    ///   - userAgent: The name of the user agent, which overrides the choice in the settings; default: the settings' choice.
    ///   - options: The options; those that the settings contain are replaced.
    ///   - transport: The client's transport; default: the transport that the settings describe. User agents always use the transport of the settings.
    ///   - host: The clock, random number generator and environment.
    ///   - observer: Receives every event of every flow, in order. It must not block.
    /// - Throws: ``ConfigurationError`` with the location of every issue; ``AuthError`` with `invalid_configuration`.
    public convenience init(
        _ address: String,
        settings: ResourceClientSettings = ResourceClientSettings(),
        userAgents: [UserAgentFactory],
        stores: [TokenStoreFactory] = TokenStoreFactory.standard,
        launchEnvironment: LaunchEnvironment? = nil,
        userAgent: String? = nil,
        options: Options = Options(),
        transport: (any HTTPTransport)? = nil,
        host: HostServices = .system,
        observer: (@Sendable (FlowEvent) -> Void)? = nil
    ) throws {
        let choices = ProfileChoices(ProfileComponents(userAgents: userAgents, stores: stores))
        let configuration = try settings.checked(choices, environment: host.environment)
        var options = options
        try settings.apply(configuration, to: &options)
        let network = try settings.transport(environment: host.environment)
        let choice = try UserAgentChoice(
            of: userAgent,
            in: configuration,
            choices.userAgents,
            factories: userAgents,
            context: UserAgentContext(
                launchEnvironment: launchEnvironment ?? .current(environment: host.environment),
                redirectURIs: options.redirectURIs,
                transport: network
            )
        )
        try self.init(
            address,
            methods: try choice.methods([.authorizationCode], devicePresenter: nil, assertions: nil),
            registered: nil,
            store: try choices.makeStore(configuration, host),
            options: options,
            transport: transport ?? network,
            host: host,
            observer: observer
        )
    }

    /// Creates a client with the registration, the sign-in methods and the store of another client, for a resource
    /// whose authorization server is configured in a profile.
    /// - Parameters:
    ///   - address: The URL of the resource, which must trust the client's authorization server.
    ///   - client: The client.
    ///   - options: The remaining options. The name, the timeout and the freshness margin are taken from the client.
    ///   - transport: Sends the requests to the resource.
    ///   - observer: Receives every event of every flow, in order. It must not block.
    /// - Throws: ``AuthError`` with `invalid_configuration`, including when the client has ``AuthClient/Options/account``.
    public convenience init(
        _ address: String,
        client: AuthClient,
        options: Options = Options(),
        transport: any HTTPTransport,
        observer: (@Sendable (FlowEvent) -> Void)? = nil
    ) throws {
        // The user of a resource is not identified, so sign-ins of other users could not be rejected.
        guard client.options.account == nil else {
            throw AuthError(
                .invalidConfiguration,
                "A client for one account (\"account\") cannot be used for a protected resource, whose users are not identified."
            )
        }
        var options = options
        options.name = client.options.name
        options.timeout = client.options.timeout
        options.freshnessMargin = client.options.freshnessMargin
        try self.init(
            address,
            methods: client.methods,
            registered: client.client,
            store: client.credentials.store,
            options: options,
            transport: transport,
            host: client.client.host,
            observer: observer
        )
    }
}
