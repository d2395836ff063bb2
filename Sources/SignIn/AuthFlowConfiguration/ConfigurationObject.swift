public import AuthFlowHTTP
import AuthFlowJSON

/// An object of a configuration file that has been checked against its keys, for factories to read.
public struct ConfigurationObject: Sendable {
    private let node: ConfigurationNode

    init(_ node: ConfigurationNode) { self.node = node }

    /// Creates an object without keys, at the place of another.
    init(empty other: ConfigurationObject) { self.init(other.node.with([:], at: other.node.path)) }

    /// The value at a key.
    /// - Throws: ``ConfigurationError`` when the value cannot be had now: a variable that is not set, a file that cannot be
    ///   read.
    public subscript<Value>(key: ConfigurationKey<Value>) -> Value {
        get throws(ConfigurationError) {
            try key.read(self)
        }
    }

    func member(_ name: String) -> ConfigurationNode? { node.member(name) }

    /// An error about the value at a key, with its place; without a key, about the object.
    public func error(_ problem: String, at key: (any AnyConfigurationKey)? = nil) -> ConfigurationError {
        node.source.error(problem, at: key.map { node.path.member($0.declaration.name) } ?? node.path)
    }

    /// Runs `body`, which may refuse the value at a key, and adds the place to its error.
    public func located<Return>(
        _ key: any AnyConfigurationKey,
        _ body: () throws(AuthError) -> Return
    ) throws(ConfigurationError) -> Return {
        do throws(AuthError) { return try body() } catch { throw self.error(error.message, at: key) }
    }
}

extension ConfigurationObject: CustomStringConvertible, WithoutReflection {
    /// The object's place: its file and path.
    public var description: String { "\(node.source.file): \(node.path)" }
}
