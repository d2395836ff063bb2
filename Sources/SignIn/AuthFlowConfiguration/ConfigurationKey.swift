import AuthFlowJSON

/// One key of an object in a configuration file.
///
/// A key is declared once. The declaration drives the validation of a file, the decoding of the value, the JSON Schema and the
/// tables of `docs/configuration.md`.
///
/// ```swift
/// let tenant = ConfigurationKey("tenant", required: .text, "The tenant's name.")
/// let level = ConfigurationKey("level", .number(0...10), default: 1, "The minimum level of a sign-in.")
/// let audience = ConfigurationKey("audience", .text, "The audience, if the provider has several.")
///
/// let name: String = try profile[tenant]
/// let minimum: Int = try profile[level]
/// let optional: String? = try profile[audience]
/// ```
public struct ConfigurationKey<Value: Sendable>: AnyConfigurationKey {
    /// The declaration of the key.
    public let declaration: ConfigurationKeyDeclaration

    /// Reads the value at the key of an object.
    let read: @Sendable (ConfigurationObject) throws(ConfigurationError) -> Value

    /// Creates a required key.
    /// - Parameters:
    ///   - name: The key.
    ///   - value: The kind of its value.
    ///   - summary: The purpose of the key, in one or two sentences for editors and the manual.
    public init(_ name: String, required value: ConfigurationValue<Value>, _ summary: String) {
        let declaration = ConfigurationKeyDeclaration(name, value.shape, isRequired: true, summary)
        self.declaration = declaration
        self.read = { object throws(ConfigurationError) in
            guard let node = object.member(name) else { throw object.error(declaration.missing) }
            return try value.read(node)
        }
    }

    /// Creates an optional key with a default.
    public init(_ name: String, _ value: ConfigurationValue<Value>, default fallback: Value, _ summary: String) {
        self.declaration = ConfigurationKeyDeclaration(name, value.shape, fallback: value.write(fallback), summary)
        self.read = { object throws(ConfigurationError) in
            guard let node = object.member(name) else { return fallback }
            return try value.read(node)
        }
    }

    /// Creates an optional key without a default: the value is nil when the key is absent.
    public init<Present>(_ name: String, _ value: ConfigurationValue<Present>, _ summary: String)
    where Value == Present? {
        self.declaration = ConfigurationKeyDeclaration(name, value.shape, summary)
        self.read = { object throws(ConfigurationError) in
            guard let node = object.member(name) else { return nil }
            return try value.read(node)
        }
    }
}

/// A type-erased key, so that one array can contain keys with values of different types. Only ``ConfigurationKey``
/// conforms to it.
public protocol AnyConfigurationKey: Sendable {
    /// The declaration of the key.
    var declaration: ConfigurationKeyDeclaration { get }
}

/// The declaration of a key, without the Swift type of its value.
public struct ConfigurationKeyDeclaration: Sendable {
    /// The name of the key.
    let name: String
    /// The purpose of the key.
    let summary: String
    /// Whether the key is required.
    let isRequired: Bool
    /// The default value of an optional key, if any.
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

    /// The error message for an object that lacks this required key.
    var missing: String {
        guard case .choice(let names) = shape else { return "the key \"\(name)\" is missing. \(summary)" }
        return "the key \"\(name)\" is missing. \(summary) Known: \(names.joined(separator: ", "))"
    }
}
