import AuthFlowCredentials
public import AuthFlowHTTP
import AuthFlowJSON
import AuthFlowOAuth
public import AuthFlowResourceClient
public import AuthFlowSignIn
public import AuthFlowStorage

/// The settings of a configuration file for protected resources of which only the address is known, not yet made into a client.
public struct ResourceClientSettings: Sendable {
    private let section: ConfigurationSection

    /// The settings without a file: the defaults.
    public init() {
        let source = ConfigurationSource(file: "settings", directory: ".", text: [])
        self.init(ConfigurationSection(json: [:], path: JSONPath(), source: source))
    }

    init(_ section: ConfigurationSection) { self.section = section }

    private static let clientName = ConfigurationKey(
        "client_name",
        .text,
        default: ResourceClient.Options().clientName,
        "The name that authorization servers show to the user when the client registers itself."
    )
    private static let clientID = ConfigurationKey(
        "client_id",
        .parsed("uri") { text throws(AuthError) in
            try ClientMetadataDocument.checkAddress(text)
            return text
        },
        "The URL of the client ID metadata document, which is the client_id at servers that support such documents. Default: none, and the client registers itself."
    )
    private static let usesDPoP = ConfigurationKey(
        "dpop",
        .flag,
        "Whether tokens are DPoP-bound (RFC 9449). Default: when the resource and its authorization server support it."
    )

    private static let issuers = ConfigurationKey(
        "issuers",
        .list(.text),
        default: [],
        "The issuers of authorization servers that are trusted although their endpoints are at other origins and their responses do not name their issuer (RFC 9207). Default: none."
    )

    static func declarations(_ choices: ProfileChoices) -> [ConfigurationKeyDeclaration] {
        let own: [any AnyConfigurationKey] = [
            clientName, clientID, issuers, ProfileKeys.redirectURI, usesDPoP, choices.userAgents, choices.store,
            ProfileKeys.freshnessMargin, ProfileKeys.timeout,
        ]
        return own.map(\.declaration) + NetworkSettings.Keys.declarations
    }

    /// The settings, checked.
    /// - Throws: ``ConfigurationError`` with every fault.
    fileprivate func checked(_ choices: ProfileChoices, _ host: HostServices) throws -> ConfigurationObject {
        try section.checked(Self.declarations(choices), environment: host.environment)
    }

    /// The transport that the settings describe, with its proxy and its certificates.
    /// - Throws: ``ConfigurationError`` with the place of what is wrong.
    public func transport(environment: [String: String] = HostServices.system.environment) throws -> any HTTPTransport {
        try section.transport(environment: environment)
    }

    /// The store that the settings name; default: the first of the list.
    /// - Throws: ``ConfigurationError``, or what making the store throws.
    public func store(
        of stores: [TokenStoreFactory] = TokenStoreFactory.standard,
        userAgents: [UserAgentFactory],
        host: HostServices = .system
    ) throws -> any TokenStore {
        let choices = ProfileChoices(providers: [], userAgents: userAgents, stores: stores, assertions: [])
        let configuration = try checked(choices, host)
        return try choices.makeStore(configuration, stores, host)
    }

    /// The redirect URI that registrations are kept by.
    /// - Throws: ``ConfigurationError``.
    public func redirectURI(
        of stores: [TokenStoreFactory] = TokenStoreFactory.standard,
        userAgents: [UserAgentFactory],
        host: HostServices = .system
    ) throws -> RedirectURI {
        let choices = ProfileChoices(providers: [], userAgents: userAgents, stores: stores, assertions: [])
        return try checked(choices, host)[ProfileKeys.redirectURI]?.first ?? .loopback
    }

    fileprivate func apply(_ configuration: ConfigurationObject, to options: inout ResourceClient.Options) throws {
        options.clientName = try configuration[Self.clientName]
        options.clientMetadataDocument = try configuration[Self.clientID]
        if let redirectURIs = try configuration[ProfileKeys.redirectURI] { options.redirectURIs = redirectURIs }
        options.trustedIssuers = try configuration[Self.issuers]
        options.usesDPoP = try configuration[Self.usesDPoP] ?? options.usesDPoP
        options.freshnessMargin = try configuration[ProfileKeys.freshnessMargin]
        options.timeout = try configuration[ProfileKeys.timeout]
    }
}

extension ResourceClient {
    /// Creates a client from the settings of a configuration file, or from the defaults.
    /// - Parameters:
    ///   - address: The address of the resource.
    ///   - settings: The settings; default: the defaults.
    ///   - userAgents: The user agents to choose from.
    ///   - stores: The token stores to choose from.
    ///   - launchEnvironment: Where the program runs; default: detected.
    ///   - userAgent: The name of the user agent in place of the settings' choice; default: theirs.
    ///   - options: What the settings do not say.
    ///   - transport: The client's transport; default: the one that the settings describe. User agents always use that.
    ///   - host: Time, randomness and environment.
    ///   - observer: Receives every event of every flow, in order. It must not block.
    /// - Throws: ``ConfigurationError`` with the place of every fault; ``AuthError`` with `invalid_configuration`.
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
        let choices = ProfileChoices(providers: [], userAgents: userAgents, stores: stores, assertions: [])
        let configuration = try settings.checked(choices, host)
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
            store: try settings.store(of: stores, userAgents: userAgents, host: host),
            options: options,
            transport: transport ?? network,
            host: host,
            observer: observer
        )
    }

    /// Creates a client whose registration, sign-in methods and store are those of another: for a resource whose authorization server
    /// is configured in a profile.
    /// - Parameters:
    ///   - address: The address of the resource. It has to trust the client's authorization server.
    ///   - client: The client.
    ///   - options: What the client does not say. Name, timeout and freshness margin are the client's.
    ///   - transport: Sends the requests to the resource.
    ///   - observer: Receives every event of every flow, in order. It must not block.
    /// - Throws: ``AuthError`` with `invalid_configuration`.
    public convenience init(
        _ address: String,
        client: AuthClient,
        options: Options = Options(),
        transport: any HTTPTransport,
        observer: (@Sendable (FlowEvent) -> Void)? = nil
    ) throws {
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
