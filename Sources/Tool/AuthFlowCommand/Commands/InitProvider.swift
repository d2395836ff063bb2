import AuthFlow
import AuthFlowTerminal

/// The provider for which a configuration is written: a preset with its values, or an issuer.
struct InitProvider {
    /// The members of the profile that describe the provider.
    let members: [String: JSON]
    private let preset: ProviderPreset?
    /// The members, including the preset's.
    private let expanded: [String: JSON]

    /// Prompts for the values that the options do not specify.
    init(preset name: String?, settings: [String], issuer: String?) async throws {
        if let issuer {
            let found = try await DiscoverCommand.issuer(issuer)
            do throws(AuthError) { _ = try Endpoint(issuer: found) } catch {
                throw AuthError(.invalidConfiguration, "--issuer: \(error.message)")
            }
            self = Self(issuer: found)
        } else if let name {
            guard let preset = Known.presets.first(where: { $0.name == name }) else {
                throw AuthError(
                    .invalidConfiguration,
                    "There is no preset \"\(DisplayText.sanitized(name, limit: 60))\". Known: \(Known.presets.map(\.name).joined(separator: ", "))."
                )
            }
            var values: [String: String] = [:]
            for setting in settings {
                let parts = setting.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                values[String(parts[0])] = String(parts[1])
            }
            self = try await Self(preset, values)
        } else {
            let presets = Known.presets.sorted { $0.title.lowercased() < $1.title.lowercased() }
            if LaunchEnvironment.current().hasTerminal {
                for (index, preset) in presets.enumerated() {
                    Terminal.printMessage("\(Terminal.column("  \(index + 1))", width: 6))\(preset.title)")
                }
            }
            while true {
                let answer = try await Self.ask(
                    "Provider (a number, or the issuer of another provider)",
                    option: "--preset or --issuer"
                )
                if let number = Int(answer), presets.indices.contains(number &- 1) {
                    self = try await Self(presets[number - 1], [:])
                    return
                }
                if answer.contains("@") || (try? Endpoint(answer)) != nil {
                    self = Self(issuer: try await DiscoverCommand.issuer(answer))
                    return
                }
                Terminal.printMessage(
                    "Enter a number from 1 to \(presets.count), or an issuer such as https://id.example.com."
                )
            }
        }
    }

    private init(issuer: String) {
        preset = nil
        members = ["provider": "oidc", "issuer": .string(issuer)]
        expanded = members
    }

    private init(_ preset: ProviderPreset, _ given: [String: String]) async throws {
        var values = given
        let names = preset.parameters.map(\.name)
        for name in given.keys.sorted() where !names.contains(name) {
            let known = names.isEmpty ? "It has none." : "Known: \(names.joined(separator: ", "))."
            throw AuthError(
                .invalidConfiguration,
                "The preset \(preset.name) has no value \"\(DisplayText.sanitized(name, limit: 60))\". \(known)"
            )
        }
        let missing = preset.parameters.filter { given[$0.name] == nil && $0.defaultValue == nil }
        guard missing.isEmpty || LaunchEnvironment.current().hasTerminal else {
            let options = missing.map { "--set \($0.name)=..." }.joined(separator: " ")
            throw AuthError(.invalidConfiguration, "There is no terminal for prompts. Specify \(options)")
        }
        for parameter in preset.parameters where values[parameter.name] == nil {
            let usual = parameter.defaultValue.map { " [\($0)]" } ?? ""
            guard LaunchEnvironment.current().hasTerminal || parameter.defaultValue == nil else { continue }
            let answer = try await Self.ask(
                "\(parameter.summary.last == "." ? String(parameter.summary.dropLast()) : parameter.summary) (\(parameter.name))\(usual)",
                option: "--set \(parameter.name)=..."
            )
            if !answer.isEmpty { values[parameter.name] = answer }
        }
        expanded = try preset.members(values).object ?? [:]
        self.preset = preset
        var choice = values.mapValues(JSON.string)
        choice["name"] = .string(preset.name)
        members = ["preset": values.isEmpty ? .string(preset.name) : .object(choice)]
    }

    /// Prompts at the terminal.
    /// - Parameter option: The option that specifies the value if there is no terminal.
    static func ask(_ question: String, option: String) async throws -> String {
        guard LaunchEnvironment.current().hasTerminal else {
            throw AuthError(.invalidConfiguration, "There is no terminal for prompts. Specify \(option).")
        }
        do {
            return try await TerminalPrompt.ask(question, isSecret: false).trimmingWhitespace()
        } catch let error as AuthError where error.message == TerminalPrompt.closed {
            throw CancellationError()
        }
    }

    /// The redirect URI of the profile.
    var redirectURI: String { expanded["redirect_uri"]?.string ?? "http://127.0.0.1/callback" }

    /// The scopes that the preset requests; nil for the default scopes.
    var presetScopes: [String]? { expanded["scopes"]?.strings }

    /// The provider's authorization server.
    func server(_ members: [String: JSON]) throws -> AuthorizationServer {
        // The metadata can be requested without a registered client, so a placeholder client is sufficient.
        let unknown = expanded.merging(members) { $1 }.merging(["client_id": "unknown", "store": "memory"]) { $1 }
        let profile = unknown.filter { !["preset", "client_authentication"].contains($0.key) }
        let file = try ConfigurationFile(text: try JSON.object(["profiles": ["p": .object(profile)]]).serialized())
        return try Known.client(of: try file.profile(), transport: ToolEnvironment.transport).client.server
    }

    /// The features that the provider supports, on one line.
    func found(_ metadata: ProviderMetadata) -> String {
        var things: [String] = []
        if metadata.authorizationEndpoint != nil, metadata.tokenEndpoint != nil { things.append("authorization code") }
        if metadata.deviceAuthorizationEndpoint != nil { things.append("device grant") }
        if metadata.pushedAuthorizationRequestEndpoint != nil { things.append("pushed requests") }
        if metadata.registrationEndpoint != nil { things.append("client registration") }
        if metadata.revocationEndpoint != nil { things.append("revocation") }
        if metadata.endSessionEndpoint != nil { things.append("sign-out at the provider") }
        let list = things.isEmpty ? "no supported flow" : things.joined(separator: ", ")
        return "Found \(DisplayText.sanitized(metadata.issuer)): \(list)."
    }

    /// The scopes for the profile; nil for its default scopes.
    func scopes(_ metadata: ProviderMetadata, asked: [String]) -> [String]? {
        if !asked.isEmpty { return asked }
        guard preset == nil, let known = metadata.scopes else { return nil }
        // The scopes for the user's identity and for a refresh token.
        let usual = ["openid", "profile", "email", "offline_access"].filter(known.contains)
        return usual == ["openid"] || usual.isEmpty ? nil : usual
    }

    /// Prints the values to enter at the provider.
    /// - Parameter hasSecret: Whether the user has specified the file with the client's secret.
    func explain(_ redirectURI: String, hasSecret: Bool) {
        Terminal.printMessage("")
        let client =
            hasSecret
            ? "a confidential client (with the secret from --client-secret-file)"
            : "a public client (a native application, without a client secret)"
        for sentence in preset?.registration ?? ["Register \(client)."] {
            Terminal.printMessage("  - \(sentence)")
        }
        // The steps of most presets describe a public client.
        if preset != nil, hasSecret {
            Terminal.printMessage(
                "  - If a step describes a client without a secret, register a confidential client instead, because of --client-secret-file."
            )
        }
        if let console = preset?.console { Terminal.printMessage("  - At: \(console)") }
        Terminal.printMessage("  - The redirect URI to enter:\n\n\(redirectURI)\n")
    }
}
