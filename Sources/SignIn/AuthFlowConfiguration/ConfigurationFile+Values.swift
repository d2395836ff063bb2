import AuthFlowHTTP
import AuthFlowJSON

extension ConfigurationFile {
    /// Reads a configuration from values that are looked up by key. A secret is either the value itself or a reference, as in
    /// a file.
    ///
    /// Values whose names are user-defined (extra request parameters) and objects in a list (`encryption_keys`) cannot be
    /// looked up. A misspelled key is treated as a missing key.
    /// - Parameters:
    ///   - values: The values.
    ///   - profiles: The names of the profiles.
    ///   - providers: The provider adapters, whose keys are looked up.
    ///   - stores: The token stores.
    ///   - assertions: The sources of assertions.
    ///   - resourceServer: The keys of `resource_server`, `ResourceServer.configurationKeys`; default: none are looked up.
    ///   - server: The keys of `server`, `SessionServer.configurationKeys`; default: none are looked up.
    ///   - name: The name of the configuration in messages.
    ///   - directory: The base directory for relative paths; default: the working directory.
    /// - Throws: ``ConfigurationError`` with the key of the invalid value; ``AuthError`` with `invalid_configuration`
    ///   for profile names that differ only in case and punctuation; any error from looking up a value.
    public init(
        values: any ConfigurationValues,
        profiles: [String],
        providers: [ProviderFactory] = [],
        stores: [TokenStoreFactory] = TokenStoreFactory.standard,
        assertions: [AssertionSourceFactory] = AssertionSourceFactory.standard,
        resourceServer: [any AnyConfigurationKey] = [],
        server: [any AnyConfigurationKey] = [],
        name: String = "configuration",
        directory: String = "."
    ) async throws {
        let choices = ProfileChoices(ProfileComponents(providers: providers, stores: stores, assertions: assertions))
        var lookup = ConfigurationLookup(values: values, name: name)
        var members: [String: JSON] = [:]
        // As environment variables, these names would be identical.
        let spellings = profiles.map { $0.lowercased().map { $0.isLetter || $0.isNumber ? $0 : "_" } }
        guard Set(spellings).count == profiles.count else {
            throw AuthError(.invalidConfiguration, "Profile names must differ in more than case and punctuation.")
        }
        for profile in profiles {
            let path = ["profiles", profile]
            let provider = try await values.text(path + ["provider"])
            let keys = Profile.declarations(choices, provider: providers.first { $0.name == provider })
            members[profile] = try await lookup.json(.object(keys), at: path) ?? [:]
        }
        var file: [String: JSON] = members.isEmpty ? [:] : ["profiles": .object(members)]
        for (section, keys) in [("resource_server", resourceServer), ("server", server)] where !keys.isEmpty {
            file[section] = try await lookup.json(.object(keys.map(\.declaration)), at: [section])
        }
        file["default_profile"] = try await values.text(["default_profile"]).map(JSON.string)
        try self.init(
            json: .object(file),
            source: ConfigurationSource(file: name, directory: directory, text: [], secrets: lookup.secrets)
        )
    }
}

/// Looks up the values of a shape.
private struct ConfigurationLookup {
    let values: any ConfigurationValues
    /// The name of the configuration in messages.
    let name: String
    /// The secrets that were found, keyed by their placeholders in the JSON.
    private(set) var secrets: [String: Secret] = [:]

    /// - Returns: The values as JSON; nil when none of them exists.
    mutating func json(_ shape: ConfigurationShape, at key: [String]) async throws -> JSON? {
        switch shape {
        case .any, .typedObject, .map: return nil
        case .text, .formatted, .path, .choice: return try await values.text(key).map(JSON.string)
        case .number: return try await values.number(key).map { .integer(Int64($0)) }
        case .flag: return try await values.flag(key).map(JSON.bool)
        case .secret:
            let secret = try await values.secret(key).map { try reference(to: $0, at: key) }
            return try single(secret, try await referenced(at: key), at: key)
        case .list(.secret, _):
            let secrets = try await values.secrets(key).map { try $0.map { try reference(to: $0, at: key) } }
            return try single(secrets.map(JSON.array), try await referenced(at: key).map { [$0] }, at: key)
        case .list(let element, _):
            guard element.isText else {
                // If the value were ignored, sessions would be stored without the configured encryption, for example. The value is looked up as
                // a secret, because it may be one.
                guard try await values.secrets(key) == nil else {
                    throw error(
                        "a list of objects cannot be looked up: set it in code or in a configuration file",
                        at: key
                    )
                }
                return nil
            }
            return try await values.texts(key).map { .array($0.map(JSON.string)) }
        case .object(let keys): return try await object(keys, at: key)
        case .named(let variants):
            let plain = try await values.text(key).map(JSON.string)
            let named = try await values.text(key + ["name"]).map(JSON.string)
            guard let name = try single(plain, named, at: key) else { return nil }
            guard let variant = variants.first(where: { $0.name == name.string }) else { return name }
            var members = try await object(variant.keys, at: key)?.object ?? [:]
            members["name"] = name
            return .object(members)
        case .either(_, .secret):
            // If the secret were looked up as a string, it would be logged.
            return try await json(.secret, at: key)
        case .either(let plain, let structured):
            // In an environment variable, a list whose elements are separated by commas is also a string.
            if case .list = structured, let list = try? await json(structured, at: key), list.array?.count ?? 0 > 1 {
                return list
            }
            let first: JSON?
            do {
                first = try await json(plain, at: key)
            } catch {
                // The value has the structured form, or neither form.
                guard let json = try? await json(structured, at: key) else { throw error }
                return json
            }
            // A list with one element can also be read in the plain form.
            if case .list = structured, first != nil { return first }
            return try single(first, try await json(structured, at: key), at: key)
        }
    }

    /// Returns the value in the form that is present. If both forms are present, it throws, because one would be ignored.
    private func single(_ first: JSON?, _ second: JSON?, at key: [String]) throws -> JSON? {
        guard first == nil || second == nil else {
            throw error("this key has both a value and nested keys: remove one of the two", at: key)
        }
        return first ?? second
    }

    private func error(_ problem: String, at key: [String]) -> ConfigurationError {
        ConfigurationError(issues: [
            ConfigurationIssue(file: name, line: 0, column: 0, keyPath: key.joined(separator: "."), problem: problem)
        ])
    }

    private mutating func object(_ keys: [ConfigurationKeyDeclaration], at path: [String]) async throws -> JSON? {
        var members: [String: JSON] = [:]
        for key in keys { members[key.name] = try await json(key.shape, at: path + [key.name]) }
        return members.isEmpty ? nil : .object(members)
    }

    private mutating func reference(to secret: Secret, at key: [String]) throws -> JSON {
        guard !secret.exposed.isEmpty else { throw error("the secret is empty", at: key) }
        let name = "\(secrets.count)"
        secrets[name] = secret
        return ["value": .string(name)]
    }

    /// A secret by reference, as in a configuration file.
    private func referenced(at key: [String]) async throws -> JSON? {
        for kind in ["env", "file"] {
            if let text = try await values.text(key + [kind]) { return [kind: .string(text)] }
        }
        return try await values.texts(key + ["command"]).map { ["command": .array($0.map(JSON.string))] }
    }
}

extension ConfigurationShape {
    /// Whether the value can be a string.
    fileprivate var isText: Bool {
        switch self {
        case .text, .formatted, .path, .choice: true
        case .either(let plain, _): plain.isText
        // A named component can be specified by its name only, instead of an object.
        case .named: true
        default: false
        }
    }
}
