import AuthFlowJSON

/// The shape that a value in a configuration file must have, independent of its Swift type: the basis of validation and of
/// the JSON Schema.
indirect enum ConfigurationShape: Sendable {
    /// Any value, which is validated elsewhere.
    case any
    /// An object with a `type`, a non-empty string, and any other members.
    case typedObject
    /// A string with at least one character.
    case text
    /// A string for which `problem` returns nil, optionally in a JSON Schema format.
    case formatted(String?, problem: @Sendable (String) -> String?)
    /// The path of a file or directory.
    case path
    /// An integer within bounds.
    case number(ClosedRange<Int>)
    /// `true` or `false`.
    case flag
    /// One of these strings.
    case choice([String])
    /// A secret by reference: `{"env": "NAME"}`, `{"file": "path"}` or `{"command": ["program"]}`. Never the secret itself.
    case secret
    /// An array whose elements have this shape.
    case list(ConfigurationShape, canBeEmpty: Bool)
    /// An object with member names for which `problem` returns nil, and values of this shape.
    case map(ConfigurationShape, problem: @Sendable (String) -> String?)
    /// An object with these keys and no others.
    case object([ConfigurationKeyDeclaration])
    /// One of several named components: its name, or an object with `name` and the options of the component.
    case named([ConfigurationVariant])
    /// Either of two shapes: only the second is an object or a secret, or only the second is an array.
    case either(ConfigurationShape, ConfigurationShape)

    /// Whether a value has this shape, the second shape of ``either(_:_:)``. The first shape may be an object if this shape is an array.
    func isStructured(_ json: JSON) -> Bool {
        switch self {
        case .secret, .object: json.object != nil
        default: json.array != nil
        }
    }
}

/// One of several named components that a configuration can select, with its options.
struct ConfigurationVariant: Sendable {
    /// The name that selects the component.
    let name: String
    /// The keys of the component's options.
    let keys: [ConfigurationKeyDeclaration]

    /// The key that selects the component, and the keys of its options.
    var allKeys: [ConfigurationKeyDeclaration] {
        [ConfigurationKey("name", required: .choice([name]), "Chooses \(name).").declaration] + keys
    }
}
