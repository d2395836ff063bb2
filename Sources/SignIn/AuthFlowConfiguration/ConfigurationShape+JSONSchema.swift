public import AuthFlowJSON

extension ConfigurationFile {
    /// The JSON Schema (draft 2020-12), used by editors, for files that a program with these components accepts.
    /// - Parameters:
    ///   - resourceServer: The keys of `resource_server`; default: none.
    ///   - server: The keys of `server`; default: none.
    public static func jsonSchema(
        providers: [ProviderFactory],
        userAgents: [UserAgentFactory],
        stores: [TokenStoreFactory] = TokenStoreFactory.standard,
        assertions: [AssertionSourceFactory] = AssertionSourceFactory.standard,
        presets: [ProviderPreset] = [],
        resourceServer: [any AnyConfigurationKey] = [],
        server: [any AnyConfigurationKey] = []
    ) -> JSON {
        func components(_ providers: [ProviderFactory]) -> ProfileComponents {
            ProfileComponents(providers: providers, userAgents: userAgents, stores: stores, assertions: assertions)
        }
        // The keys of a profile depend on its provider, which is identified by its name.
        let own = providers.map { provider in
            let choices = ProfileChoices(components([provider]))
            return ConfigurationShape.object(Profile.declarations(choices, provider: provider)).jsonSchema
        }
        let profiles =
            own
            + zip(providers, own).compactMap { provider, schema in
                let ownPresets = presets.filter { $0.members["provider"]?.string == provider.name }
                return ProviderPreset.jsonSchema(ownPresets, profile: schema)
            }
        let choices = ProfileChoices(components([]))
        let resourceClient = ConfigurationShape.object(ResourceClientSettings.declarations(choices))
        let shape = ConfigurationShape.object(
            keys(
                profile: .any,
                resourceClient: resourceClient,
                resourceServer: .object(resourceServer.map(\.declaration)),
                server: .object(server.map(\.declaration))
            )
        )
        var schema = shape.jsonSchema.object ?? [:]
        schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
        schema["title"] = "AuthFlow configuration"
        var properties = schema["properties"]?.object ?? [:]
        properties["profiles"] = [
            "type": "object", "minProperties": 1, "description": "The profiles, by name.",
            "additionalProperties": ["anyOf": .array(profiles)],
        ]
        schema["properties"] = .object(properties)
        return SharedSchemas(of: schema, names: [ConfigurationShape.secret.jsonSchema: "secret"]).schema
    }
}

extension ConfigurationShape {
    fileprivate var jsonSchema: JSON {
        switch self {
        case .any: [:]
        case .typedObject:
            [
                "type": "object", "required": ["type"],
                "properties": [
                    "type": [
                        "type": "string", "minLength": 1,
                        "description": "The type, which determines the other members (RFC 9396 section 2).",
                    ]
                ],
            ]
        case .text, .path: ["type": "string", "minLength": 1]
        case .formatted(let format?, _): ["type": "string", "format": .string(format)]
        case .formatted(nil, _): ["type": "string", "minLength": 1]
        case .number(let range):
            [
                "type": "integer", "minimum": .integer(Int64(range.lowerBound)),
                "maximum": .integer(Int64(range.upperBound)),
            ]
        case .flag: ["type": "boolean"]
        case .choice(let names): ["enum": .array(names.map(JSON.string))]
        case .secret:
            [
                "type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": false,
                "properties": [
                    "env": ["type": "string"], "file": ["type": "string"],
                    "command": ["type": "array", "minItems": 1, "items": ["type": "string"]],
                ],
            ]
        case .list(let element, false): ["type": "array", "minItems": 1, "items": element.jsonSchema]
        case .list(let element, true): ["type": "array", "items": element.jsonSchema]
        case .map(let value, _): ["type": "object", "additionalProperties": value.jsonSchema]
        case .object(let keys):
            [
                "type": "object", "additionalProperties": false,
                "required": .array(keys.filter(\.isRequired).map { .string($0.name) }),
                "properties": .object(
                    Dictionary(
                        uniqueKeysWithValues: keys.map { key in
                            var schema = key.shape.jsonSchema.object ?? [:]
                            schema["description"] = .string(key.summary)
                            schema["default"] = key.defaultValue
                            return (key.name, .object(schema))
                        }
                    )
                ),
            ]
        case .named(let variants):
            [
                "anyOf": .array(
                    [
                        [
                            "enum": .array(
                                variants.filter { !$0.keys.contains(where: \.isRequired) }.map { .string($0.name) }
                            )
                        ]
                    ]
                        + variants.map { ConfigurationShape.object($0.allKeys).jsonSchema }
                )
            ]
        case .either(let first, let second): ["anyOf": [first.jsonSchema, second.jsonSchema]]
        }
    }
}

extension ProviderPreset {
    /// The schema of a profile that names one of these presets: keys that every one of the presets sets are not required.
    /// - Parameter profile: The schema of a profile for the provider that the presets configure.
    /// - Returns: The schema; nil if there are no presets.
    fileprivate static func jsonSchema(_ presets: [ProviderPreset], profile: JSON) -> JSON? {
        guard !presets.isEmpty, var schema = profile.object, var properties = schema["properties"]?.object else {
            return nil
        }
        // The keys that every preset sets.
        let presetKeys =
            presets.map { Set(($0.members.object ?? [:]).keys) }
            .reduce(nil as Set<String>?) { $0?.intersection($1) ?? $1 } ?? []
        let required = (schema["required"]?.strings ?? []).filter { !presetKeys.contains($0) }
        schema["required"] = .array((["preset"] + required).map(JSON.string))
        let names = presets.filter { $0.parameters.allSatisfy { $0.defaultValue != nil } }.map(\.name)
        let objects = presets.map { preset -> JSON in
            var members: [String: JSON] = ["name": ["enum": [.string(preset.name)]]]
            for parameter in preset.parameters {
                var member: [String: JSON] = ["type": "string", "description": .string(parameter.summary)]
                member["default"] = parameter.defaultValue.map(JSON.string)
                members[parameter.name] = .object(member)
            }
            let needed = ["name"] + preset.parameters.filter { $0.defaultValue == nil }.map(\.name)
            return [
                "type": "object", "additionalProperties": false, "properties": .object(members),
                "required": .array(needed.map(JSON.string)),
            ]
        }
        properties["preset"] = [
            "description": "The preset for the provider: its name, or an object with its name and parameters.",
            "anyOf": .array((names.isEmpty ? [] : [["enum": .array(names.map(JSON.string))]]) + objects),
        ]
        schema["properties"] = .object(properties)
        return .object(schema)
    }
}
