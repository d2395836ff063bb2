public import AuthFlowHTTP
import AuthFlowJSON
import AuthFlowSignIn
package import AuthFlowStorage

/// A profile in a configuration file, from which a client can be created.
public struct Profile: Sendable {
    /// The profile's name in the file.
    public let name: String

    let section: ConfigurationSection

    /// The other profiles in the file, by name.
    let others: [String: JSON]

    /// Whether a client of this profile sends requests, and must therefore meet the provider's requirements.
    var sendsRequests = true

    /// Another profile in the same file. It cannot refer to a third profile, so profiles cannot form a cycle.
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

    /// The profile for a local sign-out, without the members that only requests need: a missing secret, key or certificate must not prevent a user
    /// from removing the stored tokens. The records of a profile that does not sign in users depend on its requests, so that profile is unchanged.
    package var forLocalSignOut: Profile {
        let flows = section.json["flow"]
        let names = flows?.strings ?? [flows?.string].compactMap(\.self)
        guard names.allSatisfy({ SignInFlow(rawValue: $0)?.hasUser ?? true }) else { return self }
        let section = section.filtered { !Self.requestMembers.contains($0) }
        return Profile(name: name, section: section, others: others, sendsRequests: false)
    }

    /// The names of the members that only requests need, and that contain secrets, keys or certificates or depend on them.
    private static let requestMembers: Set<String> = {
        let keys: [any AnyConfigurationKey] = [
            ProfileKeys.clientSecret, ProfileKeys.clientAuthentication, ProfileKeys.clientSecretIssuer,
            ProfileKeys.clientKey, ProfileKeys.dpopKey, ProfileKeys.decryptionKey, ProfileKeys.encryptedResponses,
            ProfileKeys.assertionAudience, ProfileKeys.signsRequests, ProfileKeys.requestEncryption,
            ProfileKeys.securityProfile, ProfileKeys.idTokenSigningAlgorithms,
        ]
        // The names of ``ProfileChoices``.
        let chosen = ["assertion", "client_assertion", "shared"]
        return Set((keys + NetworkSettings.Keys.all).map { $0.declaration.name } + chosen)
    }()

    /// Validates the profile, without reading secrets or starting programs, and returns its values.
    /// - Parameters:
    ///   - components: The components that the profile can select.
    ///   - environment: The environment variables to which the values may refer; default: none.
    /// - Throws: ``ConfigurationError`` with every issue.
    @discardableResult
    package func checked(
        by components: ProfileComponents,
        environment: [String: String] = [:]
    ) throws -> (choices: ProfileChoices, profile: ConfigurationObject) {
        let (json, path) = (section.json, section.path)
        let provider = json["provider"]?.string.flatMap { name in components.providers.first { $0.name == name } }
        let choices = ProfileChoices(components)
        var checker = ConfigurationChecker(source: section.source)
        checker.check(json, .object(Self.declarations(choices, provider: provider)), at: path)
        var issues = checker.issues
        if provider == nil {
            // Without the provider, its keys cannot be distinguished from misspelled keys, so only issues that do not depend on
            // the provider are reported.
            let own = Set(components.providers.flatMap(\.keys).map(\.name))
            issues.removeAll { issue in own.contains { issue.keyPath == path.member($0).description } }
        }
        guard issues.isEmpty else { throw ConfigurationError(issues: issues) }
        return (choices, section.object(environment))
    }

    /// Creates the store that the profile selects; default: the first store in the list.
    /// - Throws: ``ConfigurationError``, or any error from creating the store.
    package func makeStore(
        _ components: ProfileComponents,
        host: HostServices = .system
    ) throws -> any TokenStore {
        let (choices, configuration) = try checked(by: components, environment: host.environment)
        return try choices.makeStore(configuration, host)
    }

    /// Creates the store that the profile selects, for the sessions of a web application.
    /// - Throws: The errors of ``makeStore(_:host:)``, and ``ConfigurationError`` when the store cannot store sessions.
    package func makeSessionStore(
        _ components: ProfileComponents,
        host: HostServices = .system
    ) throws -> any SessionTokenStore {
        guard let sessions = try makeStore(components, host: host) as? any SessionTokenStore else {
            throw section.error(
                "its \"store\" cannot store the sessions of many users: choose memory, sqlite, postgresql or redis"
            )
        }
        return sessions
    }

    /// The transport that the profile describes, with its proxy and its certificates.
    /// - Parameter environment: The environment variables that specify a proxy and contain its password.
    /// - Throws: ``ConfigurationError`` with the location of the issue.
    public func transport(
        environment: [String: String] = HostServices.system.environment
    ) throws -> any HTTPTransport {
        try section.transport(environment: environment)
    }

    /// The settings of the credential helpers.
    /// - Parameter environment: The environment variables, of which `HOME` determines the paths that begin with `~/`.
    /// - Throws: ``ConfigurationError`` with the location of the issue.
    package func helpers(
        environment: [String: String] = HostServices.system.environment
    ) throws(ConfigurationError) -> CredentialHelperSettings {
        try value(of: CredentialHelperSettings.key, environment)
    }

    /// The origins of the APIs to which the access token may be sent.
    /// - Throws: ``ConfigurationError`` with the location of the issue.
    package func apiOrigins() throws(ConfigurationError) -> [Endpoint] { try value(of: ProfileKeys.apiOrigins) }

    /// The value of a key, without reading or validating other keys.
    private func value<Value>(
        of key: ConfigurationKey<Value>,
        _ environment: [String: String] = [:]
    ) throws(ConfigurationError) -> Value {
        let section = section.filtered { $0 == key.declaration.name }
        return try section.checked([key.declaration], environment: environment)[key]
    }

    /// The keys of a profile: the keys for all providers, and the keys of this provider.
    static func declarations(
        _ choices: ProfileChoices,
        provider: ProviderFactory?
    ) -> [ConfigurationKeyDeclaration] {
        choices.declarations + ProfileKeys.declarations + NetworkSettings.Keys.declarations + (provider?.keys ?? [])
    }
}
