public import AuthFlowHTTP
import AuthFlowJSON
public import AuthFlowStorage

/// One profile of a configuration file, not yet made into a client.
public struct Profile: Sendable {
    /// Its name in the file.
    public let name: String

    private let section: ConfigurationSection

    /// The other profiles of the file, by name.
    let others: [String: JSON]

    init(name: String, section: ConfigurationSection, others: [String: JSON]) {
        self.name = name
        self.section = section
        self.others = others
    }

    /// Another profile of the same file, which refers to no third: none waits for itself.
    func other(_ name: String) -> Profile? {
        others[name].map { json in
            let path = JSONPath().member("profiles").member(name)
            return Profile(
                name: name,
                section: ConfigurationSection(json: json, path: path, source: section.source),
                others: [:]
            )
        }
    }

    /// Checks the profile against what a program lists, and makes it readable.
    /// - Throws: ``ConfigurationError`` with every fault.
    func checked(
        providers: [ProviderFactory],
        userAgents: [UserAgentFactory],
        stores: [TokenStoreFactory],
        assertions: [AssertionSourceFactory],
        environment: [String: String]
    ) throws -> (choices: ProfileChoices, profile: ConfigurationObject) {
        let (json, path) = (section.json, section.path)
        let provider = json["provider"]?.string.flatMap { name in providers.first { $0.name == name } }
        let choices = ProfileChoices(
            providers: providers,
            userAgents: userAgents,
            stores: stores,
            assertions: assertions
        )
        var checker = ConfigurationChecker(source: section.source)
        checker.check(json, .object(Self.declarations(choices, provider: provider)), at: path)
        var issues = checker.issues
        if provider == nil {
            // Without the provider its own keys cannot be told from misspelt ones: only
            // faults that are certain are reported.
            let own = Set(providers.flatMap(\.keys).map(\.name))
            issues.removeAll { issue in own.contains { issue.keyPath == path.member($0).description } }
        }
        guard issues.isEmpty else { throw ConfigurationError(issues: issues) }
        return (choices, section.object(json, environment))
    }

    /// The store that the profile names; default: the first of the list.
    /// - Parameters:
    ///   - providers: The provider adapters to choose from.
    ///   - userAgents: The user agents to choose from.
    ///   - stores: The token stores to choose from.
    ///   - assertions: The sources of assertions to choose from.
    ///   - host: Time, randomness and environment.
    /// - Throws: ``ConfigurationError``, or what making the store throws.
    public func makeStore(
        providers: [ProviderFactory],
        userAgents: [UserAgentFactory],
        stores: [TokenStoreFactory] = TokenStoreFactory.standard,
        assertions: [AssertionSourceFactory] = AssertionSourceFactory.standard,
        host: HostServices = .system
    ) throws -> any TokenStore {
        let (choices, configuration) = try checked(
            providers: providers,
            userAgents: userAgents,
            stores: stores,
            assertions: assertions,
            environment: host.environment
        )
        return try choices.makeStore(configuration, stores, host)
    }

    /// As ``makeStore(providers:userAgents:stores:assertions:host:)``, for the sessions of a web application.
    /// - Throws: ``ConfigurationError`` when the store keeps no sessions, too.
    public func makeSessionStore(
        providers: [ProviderFactory],
        stores: [TokenStoreFactory] = TokenStoreFactory.standard,
        assertions: [AssertionSourceFactory] = AssertionSourceFactory.standard,
        host: HostServices = .system
    ) throws -> any SessionTokenStore {
        let store = try makeStore(
            providers: providers,
            userAgents: [],
            stores: stores,
            assertions: assertions,
            host: host
        )
        guard let sessions = store as? any SessionTokenStore else {
            throw section.error(
                "its \"store\" keeps no sessions of many users: choose memory, sqlite, postgresql or redis"
            )
        }
        return sessions
    }

    /// The transport that the profile describes, with its proxy and its certificates.
    /// - Parameter environment: The variables that name a proxy and hold its password.
    /// - Throws: ``ConfigurationError`` with the place of what is wrong.
    public func transport(
        environment: [String: String] = HostServices.system.environment
    ) throws -> any HTTPTransport {
        try section.transport(environment: environment)
    }

    /// Which other programs may have the tokens.
    /// - Throws: ``ConfigurationError`` with the place of what is wrong.
    package func helpers() throws(ConfigurationError) -> CredentialHelperSettings {
        let key = CredentialHelperSettings.key
        let members = JSON.object((section.json.object ?? [:]).filter { $0.key == key.declaration.name })
        try section.check(members, [key.declaration])
        return try section.object(members, [:])[key]
    }

    /// The keys of a profile: those that every provider has, and those of one.
    static func declarations(
        _ choices: ProfileChoices,
        provider: ProviderFactory?
    ) -> [ConfigurationKeyDeclaration] {
        choices.declarations + ProfileKeys.declarations + NetworkSettings.Keys.declarations + (provider?.keys ?? [])
    }
}
