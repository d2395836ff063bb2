import AuthFlowJSON

/// The shape that a value in a configuration file must have, without its Swift type: what a file is checked against, and
/// what the JSON Schema says.
indirect enum ConfigurationShape: Sendable {
    /// Any value: it is checked elsewhere.
    case any
    /// A string with at least one character.
    case text
    /// A string in a format of JSON Schema, which `problem` finds no fault with.
    case formatted(String?, problem: @Sendable (String) -> String?)
    /// A path of a file or folder.
    case path
    /// A whole number within bounds.
    case number(ClosedRange<Int>)
    /// `true` or `false`.
    case flag
    /// One of these strings.
    case choice([String])
    /// A secret by reference: `{"env": "NAME"}`, `{"file": "path"}` or `{"command": ["program"]}`. Never the secret itself.
    case secret
    /// An array, each element of this shape.
    case list(ConfigurationShape, canBeEmpty: Bool)
    /// An object with any names that `problem` finds no fault with, each value of this shape.
    case map(ConfigurationShape, problem: @Sendable (String) -> String?)
    /// An object with these keys and no others.
    case object([ConfigurationKeyDeclaration])
    /// One of several named things: its name, or an object with `name` and the options of that thing.
    case named([ConfigurationVariant])
    /// Either of two shapes, of which only the second is an array or an object.
    case either(ConfigurationShape, ConfigurationShape)
}

/// One of several named things that a configuration may choose, with its options.
struct ConfigurationVariant: Sendable {
    /// The name that selects it.
    let name: String
    /// The options it takes.
    let keys: [ConfigurationKeyDeclaration]

    /// The key that chooses it, and its options.
    var allKeys: [ConfigurationKeyDeclaration] {
        [ConfigurationKey("name", required: .choice([name]), "Chooses \(name).").declaration] + keys
    }
}
