#if SwiftConfiguration
public import AuthFlowConfiguration
import AuthFlowHTTP
public import Configuration

extension ConfigurationFile {
    /// Reads the keys of a configuration file from swift-configuration: environment variables, command-line arguments, secret files, YAML.
    ///
    /// ```swift
    /// let reader = ConfigReader(provider: EnvironmentVariablesProvider()).scoped(to: "auth")
    /// let file = try await ConfigurationFile(
    ///     reader: reader,
    ///     profiles: ["staff"],
    ///     providers: [.oidc],
    ///     stores: [.memory, .postgreSQL],
    ///     server: SessionServer.configurationKeys
    /// )
    /// ```
    ///
    /// `profiles.staff.client_id` is `AUTH_PROFILES_STAFF_CLIENT_ID` in the environment. A secret is either the value
    /// itself (`client_secret`), which is read as a secret, or a reference, as in a file (`client_secret.file`). Values
    /// with arbitrary names, such as extra request parameters, and objects in a list cannot be looked up. A misspelled
    /// key is treated as missing.
    /// - Parameters:
    ///   - reader: The reader.
    ///   - profiles: The names of the profiles.
    ///   - providers: The provider adapters whose keys are looked up.
    ///   - stores: The token stores.
    ///   - assertions: The sources of assertions.
    ///   - resourceServer: The keys of `resource_server`, `ResourceServer.configurationKeys`; default: none are looked up.
    ///   - server: The keys of `server`, `SessionServer.configurationKeys`; default: none are looked up.
    ///   - directory: The base directory of relative paths; default: the working directory.
    /// - Throws: ``/AuthFlow/ConfigurationError`` with the key of an invalid value; the reader's error if a value
    ///   has the wrong type; ``/AuthFlow/AuthError`` with `invalid_configuration` for profile names that differ only in case and punctuation.
    public init(
        reader: ConfigReader,
        profiles: [String],
        providers: [ProviderFactory] = [],
        stores: [TokenStoreFactory] = TokenStoreFactory.standard,
        assertions: [AssertionSourceFactory] = AssertionSourceFactory.standard,
        resourceServer: [any AnyConfigurationKey] = [],
        server: [any AnyConfigurationKey] = [],
        directory: String = "."
    ) async throws {
        try await self.init(
            values: ReaderValues(reader: reader),
            profiles: profiles,
            providers: providers,
            stores: stores,
            assertions: assertions,
            resourceServer: resourceServer,
            server: server,
            directory: directory
        )
    }
}

/// The values of a reader. They are fetched rather than read, because a fetch fails if a value has the wrong type,
/// whereas a read would treat the value as missing.
private struct ReaderValues: ConfigurationValues {
    let reader: ConfigReader

    func text(_ key: [String]) async throws -> String? { try await reader.fetchString(forKey: ConfigKey(key)) }

    func number(_ key: [String]) async throws -> Int? { try await reader.fetchInt(forKey: ConfigKey(key)) }

    func flag(_ key: [String]) async throws -> Bool? { try await reader.fetchBool(forKey: ConfigKey(key)) }

    func texts(_ key: [String]) async throws -> [String]? {
        try await reader.fetchStringArray(forKey: ConfigKey(key))
    }

    func secret(_ key: [String]) async throws -> Secret? {
        try await reader.fetchString(forKey: ConfigKey(key), isSecret: true).map { Secret($0) }
    }

    func secrets(_ key: [String]) async throws -> [Secret]? {
        try await reader.fetchStringArray(forKey: ConfigKey(key), isSecret: true).map { $0.map { Secret($0) } }
    }
}
#endif
