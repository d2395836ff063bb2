package import AuthFlowHTTP
import AuthFlowJSON
import AuthFlowTransport

/// A section of a configuration file that has not been validated yet: a profile, or the settings for one purpose.
package struct ConfigurationSection: Sendable {
    let json: JSON
    let path: JSONPath
    let source: ConfigurationSource

    /// An error about the section as a whole, with its location.
    package func error(_ problem: String) -> ConfigurationError { source.error(problem, at: path) }

    /// The section, validated against its keys.
    /// - Parameters:
    ///   - keys: The keys that the section may contain.
    ///   - environment: The environment variables that secrets are read from.
    /// - Throws: ``ConfigurationError`` with every issue.
    package func checked(
        _ keys: [any AnyConfigurationKey],
        environment: [String: String]
    ) throws(ConfigurationError) -> ConfigurationObject {
        try checked(keys.map(\.declaration), environment: environment)
    }

    func checked(
        _ keys: [ConfigurationKeyDeclaration],
        environment: [String: String]
    ) throws(ConfigurationError) -> ConfigurationObject {
        var checker = ConfigurationChecker(source: source)
        checker.check(json, .object(keys), at: path)
        guard checker.issues.isEmpty else { throw ConfigurationError(issues: checker.issues) }
        return object(environment)
    }

    /// The section without the members whose names are not included.
    func filtered(_ isIncluded: (String) -> Bool) -> ConfigurationSection {
        let members = (json.object ?? [:]).filter { isIncluded($0.key) }
        return ConfigurationSection(json: .object(members), path: path, source: source)
    }

    func object(_ environment: [String: String]) -> ConfigurationObject {
        ConfigurationObject(ConfigurationNode(json: json, path: path, source: source, environment: environment))
    }

    /// The transport that the section's network settings describe, with its proxy and its certificates.
    /// - Parameter environment: The environment variables that specify a proxy and contain its password.
    /// - Throws: ``ConfigurationError`` with the location of the issue.
    package func transport(environment: [String: String]) throws(ConfigurationError) -> any HTTPTransport {
        // Validates only these keys, because other keys may belong to providers that the program does not list.
        let keys = NetworkSettings.Keys.declarations
        let section = filtered { name in keys.contains { $0.name == name } }
        #if os(Linux)
        let configuration = try section.checked(keys, environment: environment)
        return CurlTransport(try NetworkSettings(configuration: configuration, environment: environment))
        #else
        _ = try section.checked(keys, environment: environment)
        for name in (section.json.object ?? [:]).keys {
            throw source.error(
                "on this system, network settings are system-wide and cannot be set for each client",
                at: path.member(name)
            )
        }
        return SystemTransport()
        #endif
    }
}

extension ConfigurationSection: CustomStringConvertible, NonReflectable {
    /// The section's location: its file and path.
    package var description: String { "\(source.file): \(path)" }
}
