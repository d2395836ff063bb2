/// The shape that a value in a configuration file must have.
///
/// The shapes are the one source for three things: checking a file (`ConfigurationChecker.swift`), the JSON Schema that
/// editors use (`ConfigurationShape+JSONSchema.swift`), and the reading of values, which can then no longer fail.
public indirect enum ConfigurationShape: Sendable {
    /// Any value: it is checked elsewhere.
    case any
    /// A string with at least one character.
    case text
    /// An absolute URL: `https`, or `http` on this machine.
    case url
    /// A whole number within bounds.
    case number(ClosedRange<Int>)
    /// `true` or `false`.
    case flag
    /// One of these strings.
    case choice([String])
    /// A secret by reference: `{"env": "NAME"}` or `{"file": "path"}`. Never the secret itself.
    case secret
    /// An array, each element of this shape, with at least one.
    case list(ConfigurationShape)
    /// An array of strings, which may be empty.
    case texts
    /// An object with any names, each value of this shape.
    case map(ConfigurationShape)
    /// An object with these keys and no others.
    case object([ConfigurationKey])
    /// One of several named things: its name, or an object with `name` and the options of that thing.
    case named([ConfigurationVariant])
    /// Either of two shapes.
    case either(ConfigurationShape, ConfigurationShape)
}

/// One key of an object in a configuration file.
public struct ConfigurationKey: Sendable {
    /// The key.
    public let name: String
    /// The shape that its value must have.
    public let shape: ConfigurationShape
    /// Whether it is required.
    public let isRequired: Bool
    /// Its purpose, in one sentence.
    public let summary: String

    /// Creates a key.
    public init(_ name: String, _ shape: ConfigurationShape, required: Bool = false, _ summary: String) {
        self.name = name
        self.shape = shape
        self.isRequired = required
        self.summary = summary
    }
}

/// One of several named things that a configuration may choose, with its options.
public struct ConfigurationVariant: Sendable {
    /// The name to choose it by.
    public let name: String
    /// The options it takes.
    public let keys: [ConfigurationKey]

    /// Creates a variant.
    public init(_ name: String, keys: [ConfigurationKey]) {
        self.name = name
        self.keys = keys
    }

    /// The key that chooses it, and its options.
    var allKeys: [ConfigurationKey] {
        [ConfigurationKey("name", .choice([name]), required: true, "Chooses \(name).")] + keys
    }
}
