import AuthFlowJSON

/// One key of an object in a configuration file.
///
/// A key is declared once. From the declaration come the check of a file, the reading of the value, the JSON Schema and the
/// tables of `docs/configuration.md`.
///
/// ```swift
/// let tenant = ConfigurationKey("tenant", required: .text, "The tenant's name.")
/// let level = ConfigurationKey("level", .number(0...10), default: 1, "The minimum level of a sign-in.")
/// let audience = ConfigurationKey("audience", .text, "The audience, where the provider has several.")
/// ...
/// try profile[tenant]     // String
/// try profile[level]      // Int
/// try profile[audience]   // String?
/// ```
public struct ConfigurationKey<Value: Sendable>: AnyConfigurationKey {
    /// What is declared of the key.
    public let declaration: ConfigurationKeyDeclaration

    /// Reads the value at the key of an object.
    let read: @Sendable (ConfigurationObject) throws(ConfigurationError) -> Value

    /// Creates a key that must be present.
    /// - Parameters:
    ///   - name: The key.
    ///   - value: The kind of its value.
    ///   - summary: Its purpose, in a sentence or two that an editor and the manual show.
    public init(_ name: String, required value: ConfigurationValue<Value>, _ summary: String) {
        let declaration = ConfigurationKeyDeclaration(name, value.shape, isRequired: true, summary)
        self.declaration = declaration
        self.read = { object throws(ConfigurationError) in
            guard let node = object.member(name) else { throw object.error(declaration.missing) }
            return try value.read(node)
        }
    }

    /// Creates a key that may be absent, with the value that it then has.
    public init(_ name: String, _ value: ConfigurationValue<Value>, default fallback: Value, _ summary: String) {
        self.declaration = ConfigurationKeyDeclaration(name, value.shape, fallback: value.write(fallback), summary)
        self.read = { object throws(ConfigurationError) in
            guard let node = object.member(name) else { return fallback }
            return try value.read(node)
        }
    }

    /// Creates a key that may be absent, and is then nil.
    public init<Present>(_ name: String, _ value: ConfigurationValue<Present>, _ summary: String)
    where Value == Present? {
        self.declaration = ConfigurationKeyDeclaration(name, value.shape, summary)
        self.read = { object throws(ConfigurationError) in
            guard let node = object.member(name) else { return nil }
            return try value.read(node)
        }
    }
}

/// A key of any type, so that keys of several types fit into one list. ``ConfigurationKey`` is the only one.
public protocol AnyConfigurationKey: Sendable {
    /// What is declared of the key.
    var declaration: ConfigurationKeyDeclaration { get }
}

/// What is declared of a key, besides the Swift type of its value.
public struct ConfigurationKeyDeclaration: Sendable {
    /// The key.
    let name: String
    /// Its purpose.
    let summary: String
    /// Whether it must be present.
    let isRequired: Bool
    /// The value that stands for its absence, if there is one.
    let defaultValue: JSON?

    let shape: ConfigurationShape

    init(
        _ name: String,
        _ shape: ConfigurationShape,
        isRequired: Bool = false,
        fallback: JSON? = nil,
        _ summary: String
    ) {
        self.name = name
        self.shape = shape
        self.isRequired = isRequired
        self.defaultValue = fallback
        self.summary = summary
    }

    /// What is wrong with an object that needs the key and does not have it.
    var missing: String { "the key \"\(name)\" is missing. \(summary)" }
}
