import AuthFlowEssentials
package import AuthFlowHTTP
import AuthFlowJSON

/// A configuration file: named profiles, each with a provider, a client, a user agent and a store.
///
/// `docs/configuration.md` describes every key. Reading a file validates its overall structure; a profile's own keys are
/// validated when a client is created from it, because they depend on the providers and user agents that the program lists.
public struct ConfigurationFile: Sendable {
    /// The names of the profiles, sorted.
    public let profileNames: [String]

    private let json: JSON
    private let source: ConfigurationSource
    /// The value of `default_profile`; nil for none.
    package let defaultProfile: String?

    /// The maximum size of a file, in bytes.
    private static let maximumSize = 1024 * 1024

    /// Reads a file. The file determines where secrets are sent, so it must be owned by this user or root, and no other user may have
    /// write access to it or, unless the directory has the sticky bit, to its directory. The files in an app's bundle belong to another user on
    /// iOS: parse their text with ``init(text:name:directory:presets:)``.
    /// - Parameters:
    ///   - path: The file.
    ///   - presets: The presets that a profile can name; default: none.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the file cannot be read, is too large, or cannot be trusted;
    ///   ``ConfigurationError`` when its text is invalid.
    public init(path: String, presets: [ProviderPreset] = []) throws {
        try self.init(
            text: try Self.contents(ofFile: path),
            name: path,
            directory: Self.directory(of: path),
            presets: presets
        )
    }

    /// Reads a configuration file, after checking that only this user or root could have written it.
    /// - Throws: ``AuthError`` with `invalid_configuration`.
    package static func contents(ofFile path: String) throws(AuthError) -> [UInt8] {
        try TrustedFile(path).contents(maximumSize: maximumSize)
    }

    /// The base directory for relative paths in a configuration file.
    package static func directory(of path: String) -> String {
        FilePath.directory(of: path.hasPrefix("/") ? path : "\(FileManager.default.currentDirectoryPath)/\(path)")
    }

    /// Parses the text of a configuration file.
    /// - Parameters:
    ///   - text: The JSON text.
    ///   - name: The file's name, for messages.
    ///   - directory: The base directory for relative paths.
    ///   - presets: The presets that a profile can name; default: none.
    /// - Throws: ``ConfigurationError``.
    public init(
        text: [UInt8],
        name: String = "configuration",
        directory: String = ".",
        presets: [ProviderPreset] = []
    ) throws {
        let json: JSON
        do throws(JSONError) {
            json = try JSON(parsing: text)
        } catch {
            let syntaxError = JSONSyntaxError(in: text)
            let hint = syntaxError.map { SyntaxHint.text(for: $0, in: text) } ?? ""
            throw ConfigurationError(issues: [
                ConfigurationIssue(
                    file: name,
                    line: syntaxError?.position.line ?? error.line ?? 1,
                    column: syntaxError?.position.column ?? error.column ?? 1,
                    keyPath: "",
                    problem: "this is not valid JSON: \((syntaxError?.code ?? error.code).rawValue)\(hint)"
                )
            ])
        }
        let source = ConfigurationSource(file: name, directory: directory, text: text)
        try self.init(json: try ProviderPreset.expand(json, presets, source), source: source)
    }

    init(json: JSON, source: ConfigurationSource) throws {
        self.json = json
        self.source = source
        var checker = ConfigurationChecker(source: source)
        // A profile is validated later, because its keys depend on the components that the program lists.
        checker.check(
            json,
            .object(Self.keys(profile: .any, resourceClient: .any, resourceServer: .any, server: .any)),
            at: JSONPath()
        )
        guard checker.issues.isEmpty else { throw ConfigurationError(issues: checker.issues) }
        self.profileNames = (json["profiles"]?.object ?? [:]).keys.sorted()
        // A control character could add lines to the output of a program.
        if let name = profileNames.first(where: {
            $0.unicodeScalars.contains { $0.properties.generalCategory == .control }
        }) {
            throw source.error(
                "the name \"\(DisplayText.sanitized(name, limit: 60))\" contains a control character",
                at: JSONPath().member("profiles")
            )
        }
        self.defaultProfile = json["default_profile"]?.string
        guard !profileNames.isEmpty || json["resource_client"] != nil || json["resource_server"] != nil else {
            throw source.error("the file contains no profile", at: JSONPath().member("profiles"))
        }
        if let defaultProfile, !profileNames.contains(defaultProfile) {
            throw unknownProfile(defaultProfile, at: JSONPath().member("default_profile"))
        }
    }

    /// Returns a profile by its name; without a name, the `default_profile`, or the only profile of the file.
    /// - Throws: ``ConfigurationError`` when the profile does not exist, or when no name is given for several profiles without a default.
    public func profile(_ name: String? = nil) throws -> Profile {
        let only = profileNames.count == 1 ? profileNames.first : nil
        guard !profileNames.isEmpty else { throw source.error("the file contains no profile", at: JSONPath()) }
        guard let name = name ?? defaultProfile ?? only else {
            throw source.error(
                "there are several profiles (\(profileNames.joined(separator: ", "))) and no \"default_profile\": select a profile, or set \"default_profile\"",
                at: JSONPath().member("profiles")
            )
        }
        guard let profile = json["profiles"]?[name] else {
            throw unknownProfile(name, at: JSONPath().member("profiles"))
        }
        return Profile(
            name: name,
            section: ConfigurationSection(
                json: profile,
                path: JSONPath().member("profiles").member(name),
                source: source
            ),
            others: (json["profiles"]?.object ?? [:]).filter { $0.key != name }
        )
    }

    /// The names of the profiles for a protected resource: the profiles that list it in `resources`.
    package func profileNames(for resource: String) -> [String] {
        profileNames.filter { name in
            json["profiles"]?[name]?["resources"]?.strings?.contains { $0.isIdentical(to: resource) } == true
        }
    }

    /// Whether the file has settings for protected resources that are known only by their URL.
    package var hasResourceClient: Bool { json["resource_client"] != nil }

    /// The settings for protected resources that are known only by their URL; the defaults when the file has none.
    public var resourceClient: ResourceClientSettings {
        section("resource_client").map(ResourceClientSettings.init) ?? ResourceClientSettings()
    }

    /// The settings of a resource server, an API that receives access tokens; nil when the file has none. `AuthFlowResourceServerConfiguration` reads them.
    package var resourceServer: ConfigurationSection? { section("resource_server") }

    /// The settings of a web application that signs users in; empty when the file has none. `AuthFlowServerConfiguration` reads them.
    package var server: ConfigurationSection {
        section("server") ?? ConfigurationSection(json: [:], path: JSONPath().member("server"), source: source)
    }

    /// Whether the file has settings for a web application.
    package var hasServer: Bool { json["server"] != nil }

    /// An error about the file as a whole.
    package func error(_ problem: String) -> ConfigurationError { source.error(problem, at: JSONPath()) }

    private func section(_ name: String) -> ConfigurationSection? {
        json[name].map { ConfigurationSection(json: $0, path: JSONPath().member(name), source: source) }
    }

    private func unknownProfile(_ name: String, at path: JSONPath) -> ConfigurationError {
        let hint = NearestName.advice(name, among: profileNames)
        let shown = DisplayText.sanitized(name, limit: 60)
        return source.error("there is no profile \"\(shown)\". \(hint)", at: path)
    }

    /// The keys of the whole file.
    static func keys(
        profile: ConfigurationShape,
        resourceClient: ConfigurationShape,
        resourceServer: ConfigurationShape,
        server: ConfigurationShape
    ) -> [ConfigurationKeyDeclaration] {
        let schema = ConfigurationKey("$schema", .text, "The JSON Schema of this file, for editors.")
        let defaultProfile = ConfigurationKey(
            "default_profile",
            .text,
            "The profile to use by default; not needed when there is only one."
        )
        let profiles = ConfigurationShape.map(profile) { _ in nil }
        return [
            schema.declaration, defaultProfile.declaration,
            ConfigurationKeyDeclaration("profiles", profiles, "The profiles, by name."),
            ConfigurationKeyDeclaration(
                "resource_client",
                resourceClient,
                "The client for protected resources that are known only by their URL. Without it, the defaults apply."
            ),
            ConfigurationKeyDeclaration(
                "resource_server",
                resourceServer,
                "A resource server (an API that receives access tokens): its issuers and rules."
            ),
            ConfigurationKeyDeclaration(
                "server",
                server,
                "A web application whose users sign in with the providers of its profiles."
            ),
        ]
    }
}
