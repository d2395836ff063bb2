package import AuthFlowHTTP
public import AuthFlowJSON
import AuthFlowStorage

/// The settings that all profiles for a provider have in common: the issuer, the usual scopes, and provider-specific settings.
///
/// A profile names the preset (`"preset": "example"`, or an object with its parameters), and adds the client. A preset is only data: a
/// profile could contain all of its members, and a member of the profile overrides the same member of the preset.
public struct ProviderPreset: Sendable {
    /// A parameter of the preset, such as a tenant or a host.
    public struct Parameter: Sendable {
        /// The type of a value.
        public enum Kind: Sendable {
            /// A name: letters, digits, hyphens, underscores and dots.
            case name
            /// A host, with its port unless that is the default port.
            case host
            /// The URL of a server, without a trailing slash.
            case url
            /// One of these values.
            case choice([String])
        }

        /// The name of the parameter.
        package let name: String
        /// The type of its value.
        package let kind: Kind
        /// The description, as a sentence.
        package let summary: String
        /// The default value; nil when the parameter is required.
        package let defaultValue: String?

        /// Creates a parameter.
        public init(_ name: String, _ kind: Kind, default defaultValue: String? = nil, _ summary: String) {
            self.name = name
            self.kind = kind
            self.defaultValue = defaultValue
            self.summary = summary
        }

        func check(_ value: String) throws(AuthError) {
            let isName = value.utf8.allSatisfy { $0.isLetterOrDigit || "-_.".utf8.contains($0) }
            let isValid =
                switch kind {
                case .name: isName && value != "." && value != ".."
                case .host: (try? Endpoint("https://\(value)/")).map { $0.origin == "https://\(value)" } ?? false
                case .choice(let values): values.contains(value)
                case .url: (try? Endpoint(value)).map { $0.query == nil && !value.hasSuffix("/") } ?? false
                }
            guard isValid, !value.isEmpty, value.utf8.count <= 200 else {
                let kind =
                    switch kind {
                    case .name: "name"
                    case .host: "host"
                    case .url: "URL, or ends with a slash"
                    case .choice(let values): "value: expected \(values.joined(separator: " or "))"
                    }
                throw AuthError(
                    .invalidConfiguration,
                    "\"\(DisplayText.sanitized(value, limit: 60))\" is not a valid \(kind) (\(name): \(summary))"
                )
            }
        }
    }

    /// The name that selects the preset in a profile.
    package let name: String

    /// The provider's display name.
    package let title: String

    /// The parameters, whose values a profile specifies.
    package let parameters: [Parameter]

    /// The members of a profile. A parameter name in braces is replaced with the parameter's value.
    package let members: JSON

    /// The steps at the provider before the first sign-in, one sentence each.
    package let registration: [String]

    /// The URL of the console where clients are registered; nil when each customer of the provider has a different URL.
    package let console: String?

    /// The URL of the provider's documentation that the preset is based on.
    package let source: String

    /// Creates a preset.
    /// - Parameters:
    ///   - name: The name that selects the preset in a profile.
    ///   - title: The provider's display name.
    ///   - parameters: The parameters of the preset; default: none.
    ///   - members: The members of a profile, including `provider`. A name in braces is replaced with its value.
    ///   - registration: The steps at the provider before the first sign-in, one sentence each.
    ///   - console: The URL of the console where clients are registered; nil (the default) when each customer of the
    ///     provider has a different URL.
    ///   - source: The URL of the provider's documentation that the preset is based on.
    public init(
        _ name: String,
        title: String,
        parameters: [Parameter] = [],
        members: JSON,
        registration: [String],
        console: String? = nil,
        source: String
    ) {
        self.name = name
        self.title = title
        self.parameters = parameters
        self.members = members
        self.registration = registration
        self.console = console
        self.source = source
    }

    /// The members of a profile, with the values of the parameters.
    /// - Throws: ``AuthError`` with `invalid_configuration` when a value is missing, unknown or invalid.
    package func members(_ values: [String: String]) throws(AuthError) -> JSON {
        for name in values.keys.sorted() where !parameters.contains(where: { $0.name == name }) {
            throw AuthError(
                .invalidConfiguration,
                "the preset \(self.name) has no parameter \"\(DisplayText.sanitized(name, limit: 60))\""
            )
        }
        var known: [(placeholder: String, value: String)] = []
        for parameter in parameters {
            guard let value = values[parameter.name] ?? parameter.defaultValue else {
                throw AuthError(
                    .invalidConfiguration,
                    "the preset \(name) needs \"\(parameter.name)\": \(parameter.summary)"
                )
            }
            try parameter.check(value)
            known.append(("{\(parameter.name)}", value))
        }
        return Self.filled(members, known)
    }

    private static func filled(_ json: JSON, _ values: [(placeholder: String, value: String)]) -> JSON {
        if let text = json.string {
            return .string(values.reduce(text) { $0.replacing($1.placeholder, with: $1.value) })
        }
        if let object = json.object { return .object(object.mapValues { filled($0, values) }) }
        if let array = json.array { return .array(array.map { filled($0, values) }) }
        return json
    }
}

extension ProviderPreset {
    /// Merges the members of presets into the profiles that name them.
    static func expand(_ json: JSON, _ presets: [ProviderPreset], _ source: ConfigurationSource) throws -> JSON {
        guard var file = json.object, let profiles = file["profiles"]?.object else { return json }
        file["profiles"] = .object(
            try profiles.reduce(into: [:]) { expanded, entry in
                let path = JSONPath().member("profiles").member(entry.key).member("preset")
                guard var members = entry.value.object, let choice = members.removeValue(forKey: "preset") else {
                    expanded[entry.key] = entry.value
                    return
                }
                expanded[entry.key] = .object(try self.members(choice, presets, source, path).merging(members) { $1 })
            }
        )
        return .object(file)
    }

    private static func members(
        _ choice: JSON,
        _ presets: [ProviderPreset],
        _ source: ConfigurationSource,
        _ path: JSONPath
    ) throws -> [String: JSON] {
        var values = choice.object ?? [:]
        guard let name = choice.string ?? values.removeValue(forKey: "name")?.string else {
            throw source.error("this must be the name of a preset, or an object with its name", at: path)
        }
        guard let preset = presets.first(where: { $0.name == name }) else {
            let names = presets.map(\.name)
            let hint = names.isEmpty ? "This program has no presets" : NearestName.advice(name, among: names)
            throw source.error(
                "there is no preset \"\(DisplayText.sanitized(name, limit: 60))\". \(hint)",
                at: path
            )
        }
        var texts: [String: String] = [:]
        for (name, value) in values {
            guard let text = value.string else { throw source.error("this must be a string", at: path.member(name)) }
            texts[name] = text
        }
        do throws(AuthError) {
            return try preset.members(texts).object ?? [:]
        } catch {
            throw source.error(error.message, at: path)
        }
    }
}
