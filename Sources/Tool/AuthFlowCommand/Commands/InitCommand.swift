import ArgumentParser
import AuthFlow
import AuthFlowEssentials
import AuthFlowTerminal

struct InitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "init",
        abstract: "Write a configuration file: ask for the required values, check the provider, and try a sign-in.",
        discussion: """
            Every value can be passed as an option, for scripts. If the file exists, the profile is added to it.

            authflow init --preset gitlab --client-id ID
            authflow init --preset entra --set tenant=8eaef023-2b34-4da1-9baa-8bc8c9d6a490 --client-id ID
            authflow init --issuer https://id.example.com --register --login
            """
    )

    @Option(
        help: "The name of a preset; authflow config presets lists them.",
        completion: .list(Known.presets.map(\.name).sorted())
    )
    var preset: String?

    @Option(name: .customLong("set"), help: "A value for the preset, as name=value; may be given more than once.")
    var settings: [String] = []

    @Option(help: "The issuer of a provider without a preset.")
    var issuer: String?

    @Option(help: "The client ID at the provider.")
    var clientID: String?

    @Option(help: "A file with the client secret, for confidential clients.", completion: .file())
    var clientSecretFile: String?

    @Flag(help: "Register a client, if the provider supports dynamic client registration (RFC 7591).")
    var register = false

    @Option(name: .customLong("scope"), help: "A scope to request; may be given more than once.")
    var scopes: [String] = []

    @Option(name: .customLong("redirect-uri"), help: "The redirect URI, if it is not the default.")
    var redirectURI: String?

    @Option(name: [.short, .long], help: "The name of the profile.")
    var profile = "default"

    @Option(
        name: [.short, .long],
        help: "The file. Default: authflow/config.json in your configuration directory.",
        completion: .file()
    )
    var output: String?

    @Flag(
        inversion: .prefixedNo,
        help: "Sign in at the end. Default: ask if there is a terminal; otherwise, do not sign in."
    )
    var login: Bool?

    func validate() throws {
        guard preset == nil || issuer == nil else { throw ValidationError("--preset and --issuer cannot be combined.") }
        guard settings.isEmpty || preset != nil else { throw ValidationError("--set needs --preset.") }
        guard settings.allSatisfy({ $0.contains("=") }) else { throw ValidationError("--set needs name=value.") }
        guard clientID?.isEmpty != true else {
            throw ValidationError(
                "--client-id is empty. Specify the client ID, or use --register to register a client."
            )
        }
        for scope in scopes where !ClientRegistration.Values.isScopeToken(scope) {
            throw ValidationError(
                "--scope takes one scope (RFC 6749 section 3.3), and may be given more than once: \"\(DisplayText.sanitized(scope, limit: 60))\"."
            )
        }
        if let redirectURI {
            do { _ = try RedirectURI(redirectURI) } catch { throw ValidationError("--redirect-uri: \(error)") }
        }
        // The profile names the file, so a pipe, such as <(command) in a shell, would not exist when the secret is read.
        if let clientSecretFile,
            BoundedFile.contents(ofPlainFile: clientSecretFile, maximumSize: 64 * 1024)?.isEmpty != false
        {
            throw ValidationError(
                "--client-secret-file: \(clientSecretFile) is empty, cannot be read, or is not a regular file."
            )
        }
        guard !register || clientID == nil && clientSecretFile == nil else {
            throw ValidationError("--register cannot be combined with --client-id or --client-secret-file.")
        }
    }

    func run() async throws {
        let writer = try ConfigurationWriter(output ?? ConfigurationChoice.userPath(ToolEnvironment.host.environment))
        // Only the default directory is created, because a missing directory in --output is probably a typo. An existing directory may be a symbolic
        // link, for example to a repository of configuration files.
        let directory = ConfigurationFile.directory(of: writer.path)
        if output == nil, !FileManager.default.fileExists(atPath: directory) {
            try PrivateFile.createDirectory(directory)
        }
        try writer.requirePlace(for: profile)
        let provider = try await InitProvider(preset: preset, settings: settings, issuer: issuer)
        var members = provider.members
        if let redirectURI { members["redirect_uri"] = .string(redirectURI) }
        let server = try provider.server(members)
        let metadata = try await server.metadata(with: \.registrationEndpoint)
        Terminal.printMessage(provider.found(metadata))
        // Algorithms are checked only if the provider's metadata lists them; otherwise, the profile may specify them.
        let algorithms = metadata.idTokenSigningAlgorithms.map { _ in metadata.usableIDTokenAlgorithms }
        for problem in try await server.endpointProblems(idTokenAlgorithms: algorithms) {
            Terminal.printMessage("Warning: a sign-in will fail at \(problem.name). \(problem.error)")
        }
        if let scopes = provider.scopes(metadata, asked: scopes) { members["scopes"] = .array(scopes.map(JSON.string)) }
        let redirect = redirectURI ?? provider.redirectURI
        // A server may reject a request for scopes that the client has not registered.
        let registered = members["scopes"]?.strings ?? provider.presetScopes ?? ["openid"]
        let (client, registration) = try await client(provider, metadata, redirect, writer, registered)
        members.merge(client) { $1 }
        let written = JSON.object(members)
        if let registration {
            try registration.store(at: metadata.issuer, responseFile: registrationFile(writer).path) {
                try writer.write(written, as: profile)
            }
        } else {
            try writer.write(written, as: profile)
        }
        Terminal.result(writer.path)
        Terminal.printMessage("The profile \"\(profile)\" was written.")
        // A file in the working directory, or in AUTHFLOW_CONFIG, takes precedence over the default file.
        let isChosen = output == nil && ConfigurationChoice(option: nil).origin == .user
        let choice = ProfileChoice(config: isChosen ? nil : writer.path, profile: profile)
        let command = ShellWord.line(["authflow", "login"] + choice.arguments)
        guard try await wantsSignIn(orLater: command) else { return Terminal.printMessage("Sign in: \(command)") }
        UnfinishedClients.note(.signIn)
        let redirects = TerminalRedirects()
        let signIn: SignIn
        let user = try choice.client(observer: redirects.observer)
        do {
            signIn = try await redirects.accepting(for: user) { try await user.signIn() }
        } catch let error as AuthError where error.code == .noUserAgent {
            throw error.withAdvice()
        }
        try Report.print(signIn.credential, asJSON: false, coversDetails: nil)
        if let error = signIn.storageError, !(await user.storeUnsavedTokens(of: signIn)) { throw error }
    }

    /// - Parameter command: The command for signing in later.
    private func wantsSignIn(orLater command: String) async throws -> Bool {
        if let login { return login }
        guard LaunchEnvironment.current().hasTerminal else { return false }
        do {
            return try await !InitProvider.ask("Sign in now? [Y/n]", option: "--login").lowercased().hasPrefix("n")
        } catch is CancellationError {
            Terminal.printMessage("\nThe profile was saved. Sign in later: \(command)")
            throw CancellationError()
        }
    }

    /// The file for the response to a registration.
    private func registrationFile(_ writer: ConfigurationWriter) -> PrivateFile {
        PrivateFile("\(writer.path).\(profile).registration")
    }

    /// The members that identify the client: from the options, from a new registration, or from the user's input; and the new registration.
    private func client(
        _ provider: InitProvider,
        _ metadata: ProviderMetadata,
        _ redirectURI: String,
        _ writer: ConfigurationWriter,
        _ scopes: [String]
    ) async throws -> (members: [String: JSON], registration: DynamicRegistration.Registered?) {
        var identifier = clientID
        if identifier == nil, !register {
            provider.explain(redirectURI, hasSecret: clientSecretFile != nil)
            // The secret in the file belongs to an existing client.
            let canRegister = metadata.registrationEndpoint != nil && clientSecretFile == nil
            let question = canRegister ? "Client ID (leave empty to register a client now)" : "Client ID"
            identifier = try await InitProvider.ask(question, option: "--client-id")
            if identifier?.isEmpty == true, !canRegister {
                throw AuthError(.invalidConfiguration, "A client ID is required to sign in.")
            }
        }
        if let identifier, !identifier.isEmpty {
            var members: [String: JSON] = ["client_id": .string(identifier)]
            if let clientSecretFile {
                // The path is absolute: a relative path in the configuration file would be relative to that file. Symbolic links are not
                // resolved: a secret manager replaces the file that the link names when it updates the secret.
                members["client_secret"] = ["file": .string(try WorkingDirectory.absolute(clientSecretFile))]
            }
            return (members, nil)
        }
        guard metadata.registrationEndpoint != nil else {
            throw AuthError(.unsupported, "This provider does not support client registration. Specify --client-id.")
        }
        let registrationFile = registrationFile(writer)
        let secretFile = PrivateFile("\(writer.path).\(profile).client-secret")
        // Reserve the file, which is empty until the response is stored, because several commands may register a client for the same profile.
        let isReserved = { FileManager.default.contents(atPath: registrationFile.path)?.isEmpty == true }
        guard !secretFile.exists, try registrationFile.create(with: []) else {
            guard secretFile.exists || !isReserved() else {
                throw AuthError(
                    .invalidConfiguration,
                    "\(registrationFile.path) is empty: another command is registering a client, or was interrupted. If it was interrupted, remove the file, and try again."
                )
            }
            throw AuthError(
                .invalidConfiguration,
                "\(secretFile.exists ? secretFile.path : registrationFile.path) already exists. Move it, or choose another --profile."
            )
        }
        defer { if isReserved() { try? registrationFile.remove() } }
        let server = AuthorizationServer(issuer: metadata.issuer, transport: ToolEnvironment.transport)
        let registered = try await DynamicRegistration(server: server).register(
            DynamicRegistration.Request(
                redirectURIs: [try RedirectURI(redirectURI)],
                name: "authflow",
                scopes: scopes
            )
        )
        try registered.store(at: metadata.issuer) {
            // The response is needed to change or remove the registration (RFC 7592).
            try registrationFile.replace(with: try registered.metadata.exposed.serialized(indented: true))
            if let secret = registered.clientSecret {
                try secretFile.replace(with: Array("\(secret.exposed)\n".utf8))
            }
        }
        Terminal.printMessage(
            "Registered. The provider's response, which is needed to change the registration, is in \(registrationFile.path). Never commit it."
        )
        var members: [String: JSON] = ["client_id": .string(registered.clientID)]
        if registered.clientSecret != nil {
            Terminal.printMessage("Warning: \(secretFile.path) contains the client secret. Never commit it.")
            members["client_secret"] = ["file": .string(secretFile.path)]
            members["client_authentication"] = .string(registered.authentication.method.rawValue)
        }
        return (members, registered)
    }
}
