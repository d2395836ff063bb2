import AuthFlowHTTP
import AuthFlowJSON

/// A value in a configuration file with its location, and the context for reading it.
struct ConfigurationNode: Sendable {
    let json: JSON
    let path: JSONPath
    let source: ConfigurationSource
    /// The environment variables that secrets are read from.
    let environment: [String: String]

    func member(_ name: String) -> ConfigurationNode? { json[name].map { with($0, at: path.member(name)) } }

    var members: [(name: String, node: ConfigurationNode)] {
        (json.object ?? [:]).sorted { $0.key < $1.key }.map { ($0.key, with($0.value, at: path.member($0.key))) }
    }

    var elements: [ConfigurationNode] { (json.array ?? []).enumerated().map { with($1, at: path.element($0)) } }

    func with(_ json: JSON, at path: JSONPath) -> ConfigurationNode {
        ConfigurationNode(json: json, path: path, source: source, environment: environment)
    }

    /// A value that must exist, because the file was validated against a shape that requires it.
    func required<Value>(_ value: Value?) throws(ConfigurationError) -> Value {
        guard let value else { throw error("this value does not match the declaration of its key") }
        return value
    }

    func error(_ problem: String) -> ConfigurationError { source.error(problem, at: path) }

    /// Runs `body`, which may reject the value, and adds the location to its error.
    func located<Return>(_ body: () throws(AuthError) -> Return) throws(ConfigurationError) -> Return {
        do throws(AuthError) { return try body() } catch { throw self.error(error.message) }
    }

    /// Makes a path absolute: a relative path is resolved against the configuration file's directory, and `~/` against
    /// the home directory.
    func absolute(_ path: String) -> String {
        if path.hasPrefix("~/") { return HomeDirectory.path(environment: environment) + path.dropFirst() }
        return path.hasPrefix("/") ? path : "\(source.directory)/\(path)"
    }

    /// A program and its arguments. A program name with a slash is a path relative to the directory of the
    /// configuration file, never to the working directory, which may be a checkout of an attacker's repository.
    func command(_ words: [String]) -> [String] {
        guard let program = words.first, program.contains("/") else { return words }
        return [absolute(program)] + words.dropFirst()
    }
}
