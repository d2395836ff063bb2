public import AuthFlowHTTP
import AuthFlowJSON

/// An object in a configuration file that was validated against its keys, for factories to read.
public struct ConfigurationObject: Sendable {
    private let node: ConfigurationNode

    init(_ node: ConfigurationNode) { self.node = node }

    /// Creates an object without keys, at the location of another object.
    init(empty other: ConfigurationObject) { self.init(other.node.with([:], at: other.node.path)) }

    /// The value at a key.
    /// - Throws: ``ConfigurationError`` when the value is rejected, or is unavailable: an environment variable is not set, a file cannot be
    ///   read, or a program fails.
    public subscript<Value>(key: ConfigurationKey<Value>) -> Value {
        get throws(ConfigurationError) {
            try key.read(self)
        }
    }

    func member(_ name: String) -> ConfigurationNode? { node.member(name) }

    /// An error, with its location, about the value at a key, or about the object if there is no key.
    public func error(_ problem: String, at key: (any AnyConfigurationKey)? = nil) -> ConfigurationError {
        node.source.error(problem, at: key.map { node.path.member($0.declaration.name) } ?? node.path)
    }

    /// Runs `body`, which may reject the value at a key, and adds the location to its error.
    public func located<Return>(
        _ key: any AnyConfigurationKey,
        _ body: () throws(AuthError) -> Return
    ) throws(ConfigurationError) -> Return {
        do throws(AuthError) { return try body() } catch { throw self.error(error.message, at: key) }
    }
}

extension ConfigurationObject {
    /// Runs `body`, which may reject the combination of several values, and adds the location of the object to its error.
    func located<Return>(_ body: () throws(AuthError) -> Return) throws(ConfigurationError) -> Return {
        try node.located(body)
    }
}

extension ConfigurationObject: CustomStringConvertible, NonReflectable {
    /// The object's location: its file and path.
    public var description: String { "\(node.source.file): \(node.path)" }
}
