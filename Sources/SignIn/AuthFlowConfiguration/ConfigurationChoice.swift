public import AuthFlowOAuth
public import AuthFlowStorage

/// A component that a configuration selects by its name, with its options.
public struct ConfigurationChoice<Factory: Sendable>: Sendable {
    let name: String
    let factory: Factory
    let options: ConfigurationObject
}

extension ConfigurationValue {
    /// One of several named components: its name, or an object with `name` and the options of the component.
    static func named<Factory>(
        _ factories: [(factory: Factory, name: String, keys: [ConfigurationKeyDeclaration])]
    ) -> Self where Value == ConfigurationChoice<Factory> {
        Self(.named(factories.map { ConfigurationVariant(name: $0.name, keys: $0.keys) })) {
            node throws(ConfigurationError) in
            let name = try node.required(node.json.string ?? node.json["name"]?.string)
            let factory = try node.required(factories.first { $0.name == name }).factory
            let options = node.json.object == nil ? node.with([:], at: node.path) : node
            return ConfigurationChoice(name: name, factory: factory, options: ConfigurationObject(options))
        }
    }
}

extension ConfigurationValue<ConfigurationChoice<TokenStoreFactory>> {
    /// One of these token stores, with its options.
    public static func store(of factories: [TokenStoreFactory]) -> Self {
        .named(factories.map { ($0, $0.name, $0.keys) })
    }
}

extension ConfigurationChoice<TokenStoreFactory> {
    /// Creates the token store.
    /// - Throws: ``ConfigurationError``, or any error from creating the store.
    public func make(host: HostServices) throws -> any TokenStore { try factory.make(options, host) }
}

extension ConfigurationChoice<AssertionSourceFactory> {
    /// Creates the source.
    /// - Throws: ``ConfigurationError``, or any error from creating the source.
    func make(in context: AssertionSourceFactory.Context) throws -> AssertionSource {
        try factory.make(options, context)
    }
}
