public import AuthFlowHTTP
import AuthFlowJSON
public import AuthFlowStorage
import AuthFlowTransport

/// One profile of a configuration file, not yet made into a client.
public struct Profile: Sendable {
    /// Its name in the file.
    public let name: String

    private let json: JSON
    private let path: JSONPath
    private let source: ConfigurationSource

    /// The other profiles of the file, by name.
    let others: [String: JSON]

    init(name: String, json: JSON, path: JSONPath, source: ConfigurationSource, others: [String: JSON]) {
        self.name = name
        self.others = others
        self.json = json
        self.path = path
        self.source = source
    }

    /// Another profile of the same file, which refers to no third: none waits for itself.
    func other(_ name: String) -> Profile? {
        others[name].map { json in
            Profile(
                name: name,
                json: json,
                path: JSONPath().member("profiles").member(name),
                source: source,
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
        let provider = json["provider"]?.string.flatMap { name in providers.first { $0.name == name } }
        let choices = ProfileChoices(
            providers: providers,
            userAgents: userAgents,
            stores: stores,
            assertions: assertions
        )
        var checker = ConfigurationChecker(source: source)
        checker.check(json, .object(Self.declarations(choices, provider: provider)), at: path)
        var issues = checker.issues
        if provider == nil {
            // Without the provider its own keys cannot be told from misspelt ones: only
            // faults that are certain are reported.
            let own = Set(providers.flatMap(\.keys).map(\.name))
            issues.removeAll { issue in own.contains { issue.keyPath == path.member($0).description } }
        }
        guard issues.isEmpty else { throw ConfigurationError(issues: issues) }
        return (choices, object(json, environment))
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

    private func object(_ json: JSON, _ environment: [String: String]) -> ConfigurationObject {
        ConfigurationObject(ConfigurationNode(json: json, path: path, source: source, environment: environment))
    }

    /// The transport that the profile describes, with its proxy and its certificates.
    /// - Parameter environment: The variables that name a proxy and hold its password.
    /// - Throws: ``ConfigurationError`` with the place of what is wrong.
    public func transport(
        environment: [String: String] = HostServices.system.environment
    ) throws -> any HTTPTransport {
        // Only these keys: the others may belong to providers that are not known here.
        let keys = NetworkSettings.Keys.declarations
        let members = (json.object ?? [:]).filter { member in keys.contains { $0.name == member.key } }
        var checker = ConfigurationChecker(source: source)
        checker.check(.object(members), .object(keys), at: path)
        guard checker.issues.isEmpty else { throw ConfigurationError(issues: checker.issues) }
        #if os(Linux)
        let configuration = object(.object(members), environment)
        return CurlTransport(try NetworkSettings(configuration: configuration, environment: environment))
        #else
        for name in members.keys {
            throw source.error(
                "on this system the network is configured for the whole system, not for each client",
                at: path.member(name)
            )
        }
        return SystemTransport()
        #endif
    }

    /// Which other programs may have the tokens.
    /// - Throws: ``ConfigurationError`` with the place of what is wrong.
    package func helpers() throws(ConfigurationError) -> CredentialHelperSettings {
        let key = CredentialHelperSettings.key
        let members = (json.object ?? [:]).filter { $0.key == key.declaration.name }
        var checker = ConfigurationChecker(source: source)
        checker.check(.object(members), .object([key.declaration]), at: path)
        guard checker.issues.isEmpty else { throw ConfigurationError(issues: checker.issues) }
        return try object(.object(members), [:])[key]
    }

    /// The keys of a profile: those that every provider has, and those of one.
    static func declarations(
        _ choices: ProfileChoices,
        provider: ProviderFactory?
    ) -> [ConfigurationKeyDeclaration] {
        choices.declarations + ProfileKeys.declarations + NetworkSettings.Keys.declarations + (provider?.keys ?? [])
    }
}
