import ArgumentParser
import AuthFlow
import AuthFlowEssentials

struct RegisterCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "register",
        abstract:
            "Register a client with a provider (RFC 7591); show, renew or remove registrations made for protected resources.",
        subcommands: [
            New.self, RegistrationCommands.Show.self, RegistrationCommands.Renew.self, RegistrationCommands.Remove.self,
        ],
        defaultSubcommand: New.self
    )
}

extension RegisterCommand {
    struct New: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "new",
            abstract: "Register a client, and write the configuration file that uses it.",
            discussion: """
                Secrets are written to separate files that only you can read, in the same directory. Existing files are not changed.
                """
        )

        /// The client authentication method.
        enum Authentication: String, ExpressibleByArgument, CaseIterable {
            case none
            case clientSecretBasic = "client_secret_basic"
            case clientSecretPost = "client_secret_post"
        }

        @Argument(help: "The issuer, or an account such as joe@example.com (WebFinger).")
        var issuer: String

        @Option(name: [.short, .long], help: "The configuration file to write.", completion: .file())
        var output = "authflow.json"

        @Option(name: [.short, .long], help: "The name of the profile in this file.")
        var profile = "default"

        @Option(help: "The client name to show on the provider's sign-in page.")
        var name: String?

        @Option(name: .customLong("redirect-uri"), help: "A redirect URI; may be given more than once.")
        var redirectURIs: [String] = ["http://127.0.0.1/callback"]

        @Option(name: .customLong("scope"), help: "A scope to request; may be given more than once.")
        var scopes: [String] = ["openid"]

        @Option(
            help:
                "The client authentication method. Default: none if the provider supports it, because a program that runs on users' devices is a public client."
        )
        var authentication: Authentication?

        @Option(
            help: "A file with the provider's initial access token, if registration requires one.",
            completion: .file()
        )
        var initialAccessTokenFile: String?

        func run() async throws {
            // Checked before the registration, because the provider sends its response only once.
            let secretFile = "\(output).client-secret"
            let registrationFile = "\(output).registration"
            guard !output.isEmpty else { throw ValidationError("--output is empty.") }
            // `attributesOfItem(atPath:)` does not follow symbolic links, so a link whose target does not exist is also
            // detected.
            for path in [output, secretFile, registrationFile]
            where (try? FileManager.default.attributesOfItem(atPath: path)) != nil {
                throw AuthError(.invalidConfiguration, "\(path) already exists. Move it, or choose another --output.")
            }
            for scope in scopes where !ClientRegistration.Values.isScopeToken(scope) {
                throw ValidationError(
                    "--scope: \"\(DisplayText.sanitized(scope, limit: 60))\" is not a scope (RFC 6749 section 3.3). Repeat the option for each scope."
                )
            }
            let writer = try ConfigurationWriter(output)
            try writer.requirePlace(for: profile)
            let token = try initialAccessTokenFile.map { path in
                guard let text = try? String(contentsOfFile: path, encoding: .utf8) else {
                    throw AuthError(.invalidConfiguration, "\(path) cannot be read.")
                }
                return Secret(text.trimmingWhitespace())
            }
            let issuer = try await DiscoverCommand.issuer(issuer)
            var request = DynamicRegistration.Request(
                redirectURIs: try redirectURIs.map { uri in try RedirectURI(uri) },
                name: name,
                scopes: scopes
            )
            if let authentication {
                request.authenticationMethods = [ClientAuthentication.Method(rawValue: authentication.rawValue)]
            }
            let registered = try await DynamicRegistration(
                server: AuthorizationServer(issuer: issuer, transport: ToolEnvironment.transport)
            ).register(request, initialAccessToken: token)
            let members = members(registered, issuer: issuer, secretFile: secretFile)
            try registered.store(at: issuer) {
                // Needed to change or remove the registration (RFC 7592).
                try create(registrationFile, registered.metadata.exposed.serialized(indented: true))
                if let secret = registered.clientSecret {
                    try create(secretFile, Array("\(secret.exposed)\n".utf8))
                }
            }
            try registered.store(at: issuer, responseFile: registrationFile) { try writer.write(members, as: profile) }
            Terminal.printMessage("Registered. The provider's response is in \(registrationFile).")
            let secrets = (registered.clientSecret == nil ? [] : [secretFile]) + [registrationFile]
            Terminal.printMessage(
                "Warning: secrets are stored in \(secrets.joined(separator: " and ")). Never commit them."
            )
            let command = ShellWord.line(["authflow", "login"] + OptionWords.of("--config", output))
            Terminal.printMessage("Sign in: \(command)")
            try Terminal.result(["profiles": .object([profile: members])])
        }

        private func members(
            _ registered: DynamicRegistration.Registered,
            issuer: String,
            secretFile: String
        ) -> JSON {
            var profile: [String: JSON] = [
                "provider": "oidc",
                "issuer": .string(issuer),
                "client_id": .string(registered.clientID),
                "redirect_uri": redirectURIs.count == 1
                    ? .string(redirectURIs[0]) : .array(redirectURIs.map(JSON.string)),
                "scopes": .array(scopes.map(JSON.string)),
            ]
            if registered.clientSecret != nil {
                profile["client_secret"] = ["file": .string(URL(fileURLWithPath: secretFile).lastPathComponent)]
                profile["client_authentication"] = .string(registered.authentication.method.rawValue)
            }
            return .object(profile)
        }

        /// Creates a file, and throws if another process has created it in the meantime.
        private func create(_ path: String, _ bytes: [UInt8]) throws {
            guard try PrivateFile(WorkingDirectory.absolute(path)).create(with: bytes) else {
                throw AuthError(.storageFailed, "\(path) was created in the meantime, and was not changed.")
            }
        }
    }
}

extension DynamicRegistration.Registered {
    /// Stores the registration, and names the client if that fails, because the client remains registered.
    /// - Parameters:
    ///   - issuer: The issuer of the authorization server.
    ///   - responseFile: The file with the provider's response, if only the profile remains to be written; default: nil.
    func store(at issuer: String, responseFile: String? = nil, _ body: () throws -> Void) throws {
        do {
            try body()
        } catch {
            let name = DisplayText.sanitized(clientID, limit: 300)
            let outcome =
                responseFile.map {
                    "and the provider's response is in \(DisplayText.sanitized($0)), but the profile could not be written, so add the profile, or remove the client at the provider"
                } ?? "but not all of its files could be written, so remove it at the provider"
            throw AuthError(
                .storageFailed,
                "The client \(name) was registered with \(DisplayText.sanitized(issuer, limit: 300)), \(outcome): \(ExitStatus.message(for: error))",
                underlyingError: error
            )
        }
    }
}
