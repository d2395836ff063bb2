public import AuthFlowHTTP

/// Values that are looked up by key, as is usual for services: environment variables, command-line arguments, secret files, YAML.
///
/// `AuthFlowSwiftConfiguration` looks them up in swift-configuration's `ConfigReader`. A key has one component for each level of a configuration
/// file: `profiles`, `work`, `client_id`. A missing value is nil, and a value of the wrong type is an error.
public protocol ConfigurationValues: Sendable {
    /// A string.
    func text(_ key: [String]) async throws -> String?
    /// A whole number.
    func number(_ key: [String]) async throws -> Int?
    /// `true` or `false`.
    func flag(_ key: [String]) async throws -> Bool?
    /// A list of strings.
    func texts(_ key: [String]) async throws -> [String]?
    /// A string that must not be logged.
    func secret(_ key: [String]) async throws -> Secret?
    /// A list of strings that must not be logged.
    func secrets(_ key: [String]) async throws -> [Secret]?
}
