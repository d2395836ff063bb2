import ArgumentParser
import AuthFlow
import Synchronization

/// Selects the client of a protected resource that is identified by its URL, with or without a profile in a
/// configuration file.
struct ResourceChoice: Hashable {
    var address: String
    var choice = ProfileChoice()
    var scopes: [String] = []
    var resource: String?
    var assumesOrigin = false
    /// Whether a profile that lists the resource is used, if the file contains such a profile.
    var usesProfiles = true
    /// The user authentication that a sign-in requests.
    var authentication = RequiredAuthentication()

    /// Whether an argument is a URL.
    static func isAddress(_ text: String) -> Bool { text.contains("://") }

    /// Whether the message about an unusable file in the working directory has been printed.
    private static let hasReportedFile = Atomic(false)

    /// The configuration file and its path; nil if no file is used.
    ///
    /// A file in the working directory is used only if it is trusted. Otherwise, it is ignored, because a program may
    /// be started in any directory: an untrusted file must neither decide where tokens are sent nor make the command
    /// fail.
    static func file(_ config: String?) throws -> (content: ConfigurationFile, path: String)? {
        if let config { return (try ConfigurationChoice(option: config).file(), config) }
        for choice in ConfigurationChoice.existing() {
            do {
                return (try choice.file(), choice.path)
            } catch let error as AuthError
                where choice.origin == .workingDirectory && error.code == .invalidConfiguration
            {
                // Some commands look for the file several times.
                guard !hasReportedFile.exchange(true, ordering: .relaxed) else { continue }
                Terminal.printMessage("Not using \(ConfigurationChoice.localName): it is unreadable or not trusted.")
            }
        }
        return nil
    }

    /// - Parameters:
    ///   - userAgent: The user agent, overriding the configured user agent.
    ///   - signsInOnDemand: Whether a request may start a sign-in.
    func client(
        userAgent: String? = nil,
        launchEnvironment: LaunchEnvironment = .current(environment: ToolEnvironment.host.environment),
        signsInOnDemand: Bool = false,
        cooldownAfterFailure: Duration = .zero,
        showsSteps: Bool = true,
        transport: ((any HTTPTransport) -> any HTTPTransport)? = nil,
        observer: @escaping @Sendable (FlowEvent) -> Void = { _ in }
    ) throws -> ResourceClient {
        guard choice.withoutFile == nil else {
            throw AuthError(
                .invalidConfiguration,
                "--client-id and --issuer cannot be combined with the URL of a resource."
            )
        }
        let options = clientOptions(signsInOnDemand, cooldownAfterFailure)
        let observer = progress(launchEnvironment, showsSteps, observer)
        // Read once, so that the file that is trusted is the file that is used.
        let file = try Self.file(choice.config)
        if let name = try profileName(in: file?.content) {
            var profileChoice = choice
            profileChoice.profile = name
            // Nil if the file in the working directory was ignored.
            profileChoice.config = file?.path
            let content = try file?.content ?? profileChoice.file()
            let configured = try profileChoice.client(
                in: content,
                userAgent: userAgent,
                launchEnvironment: launchEnvironment,
                transport: transport,
                observer: observer
            )
            let network = try profileChoice.chosenProfile(in: content)
                .transport(environment: ToolEnvironment.host.environment)
            return try client(
                for: configured,
                profileChoice.arguments,
                options,
                transport?(network) ?? network,
                observer
            )
        }
        let configured = file?.content.resourceClient ?? ResourceClientSettings()
        let settings = choice.isForLocalSignOut ? configured.forLocalSignOut : configured
        return added(
            nil,
            try ResourceClient(
                address,
                settings: settings,
                userAgents: Known.userAgents,
                stores: Known.stores,
                launchEnvironment: launchEnvironment,
                userAgent: userAgent,
                options: options,
                transport: try transport.map {
                    $0(try settings.transport(environment: ToolEnvironment.host.environment))
                },
                host: ToolEnvironment.host,
                observer: observer
            )
        )
    }

    /// The client of a resource without a profile.
    static func clientWithoutProfile(of address: String, config: String?) throws -> ResourceClient {
        try ResourceChoice(address: address, choice: ProfileChoice(config: config), usesProfiles: false).client()
    }

    /// The resource client that uses a profile's client.
    func client(
        for configured: AuthClient,
        of profile: Profile,
        signsInOnDemand: Bool,
        observer: @escaping @Sendable (FlowEvent) -> Void
    ) throws -> ResourceClient {
        var named = choice
        named.profile = profile.name
        return try client(
            for: configured,
            named.arguments,
            clientOptions(signsInOnDemand),
            try profile.transport(environment: ToolEnvironment.host.environment),
            progress(.current(environment: ToolEnvironment.host.environment), true, observer)
        )
    }

    private func client(
        for configured: AuthClient,
        _ profile: [String],
        _ options: ResourceClient.Options,
        _ transport: any HTTPTransport,
        _ observer: @escaping @Sendable (FlowEvent) -> Void
    ) throws -> ResourceClient {
        added(
            profile,
            try ResourceClient(
                address,
                client: configured,
                options: options,
                transport: transport,
                observer: observer
            )
        )
    }

    private func clientOptions(
        _ signsInOnDemand: Bool,
        _ cooldownAfterFailure: Duration = .zero
    ) -> ResourceClient.Options {
        var options = ResourceClient.Options()
        options.scopes = scopes
        options.resource = resource
        options.acrValues = authentication.acrValues
        options.maxAge = authentication.maxAge.map { .seconds($0) }
        options.signsInOnDemand = signsInOnDemand
        options.cooldownAfterFailure = cooldownAfterFailure
        options.assumesAuthorizationServerAtOrigin = assumesOrigin
        return options
    }

    /// - Parameter profile: The options that choose the client's profile; nil if there is none.
    private func added(_ profile: [String]?, _ client: ResourceClient) -> ResourceClient {
        SignInAdvice.choose(profile, resource: [shownAddress] + profileArguments, signIn: signInArguments)
        UnfinishedClients.add(client)
        return client
    }

    /// The URL, or a placeholder for a URL with a query, which may contain a key and must not be repeated.
    private var shownAddress: String { address.contains("?") ? "URL" : address }

    private var profileArguments: [String] {
        OptionWords.of("--config", choice.config) + OptionWords.of("--profile", choice.profile)
    }

    private var signInArguments: [String] {
        scopes.flatMap { OptionWords.of("--scope", $0) } + OptionWords.of("--resource", resource)
            + (assumesOrigin ? ["--assume-origin"] : []) + authentication.arguments
    }

    /// The instruction to the user for signing in with this choice after an error; nil if the error's requirements do not fit on a command line.
    func loginAdvice(after error: any Error) -> String? {
        SignInAdvice.extended(loginCommand, for: error).map {
            "Run: \($0)" + (shownAddress == address ? "" : ", with the URL from your host's configuration.")
        }
    }

    /// The command that signs in with this choice.
    var loginCommand: String {
        ShellWord.line(["authflow", "login", shownAddress] + profileArguments + signInArguments)
    }

    /// The transport for requests to the resource.
    func transport() throws -> any HTTPTransport {
        let file = try Self.file(choice.config)?.content
        let environment = ToolEnvironment.host.environment
        if let file, let profile = try profileName(in: file) {
            return try file.profile(profile).transport(environment: environment)
        }
        return try (file?.resourceClient ?? ResourceClientSettings()).transport(environment: environment)
    }

    /// The selected profile, or the only profile for this resource.
    private func profileName(in file: ConfigurationFile?) throws -> String? {
        if let named = choice.profile { return named }
        guard usesProfiles else { return nil }
        let names = file?.profileNames(for: address) ?? []
        guard names.count < 2 else {
            throw AuthError(
                .invalidConfiguration,
                "Several profiles match \(Redaction.url(address)): \(names.joined(separator: ", ")). Select one with --profile."
            )
        }
        return names.first
    }

    private func progress(
        _ launchEnvironment: LaunchEnvironment,
        _ showsSteps: Bool,
        _ observer: @escaping @Sendable (FlowEvent) -> Void
    ) -> @Sendable (FlowEvent) -> Void {
        var progress = Progress(isVerbose: choice.isVerbose, launchEnvironment: launchEnvironment)
        progress.showsSteps = showsSteps && !choice.isQuiet
        return { [progress] event in
            progress(event)
            observer(event)
        }
    }
}

/// The options of commands that accept the URL of a protected resource instead of a profile.
struct ResourceOptions: ParsableArguments {
    @Argument(help: "The URL of a protected resource, such as an API or an MCP server, instead of a profile.")
    var url: String?

    @Option(
        help:
            "With a URL: the identifier with which to request tokens, if the resource has no metadata. With a profile for several resources (authflow token): the token's resource."
    )
    var resource: String?

    @Flag(
        help:
            "With a URL: if the resource has no metadata, use its own origin as the authorization server, as MCP servers before 2025-06 expect. The identity of the authorization server is then not verified."
    )
    var assumeOrigin = false

    /// Whether a URL was given.
    var hasAddress: Bool { url.map(ResourceChoice.isAddress) ?? false }

    /// Checks that the options can be combined.
    /// - Parameter scopes: The scopes to request.
    func check(_ profile: ProfileOptions, scopes: [String] = []) throws {
        // Reported by `choice`.
        guard url.map(ResourceChoice.isAddress) ?? true else { return }
        guard url != nil else {
            guard !assumeOrigin else { throw ValidationError("--assume-origin needs the URL of a resource.") }
            guard resource == nil else { throw ValidationError("--resource needs the URL of a resource.") }
            guard scopes.isEmpty || profile.issuer != nil else {
                throw ValidationError("--scope needs the URL of a resource, or --issuer.")
            }
            return
        }
        guard profile.account == nil else {
            throw ValidationError("--account needs a profile, because a URL has only one account.")
        }
    }

    /// The choice of a resource; nil when a profile was chosen.
    /// - Throws: ``AuthError`` with `invalid_configuration` if the argument is not a URL. This is not checked in `validate`, which runs before
    ///   unknown options are detected: for `login --timeout 1`, the error would concern the value `1` instead of the option.
    func choice(_ profile: ProfileOptions, scopes: [String] = []) throws -> ResourceChoice? {
        guard let url else { return nil }
        guard ResourceChoice.isAddress(url) else {
            throw AuthError(
                .invalidConfiguration,
                "\"\(DisplayText.sanitized(url))\" is not a URL: it must begin with https://. Select a profile with --profile."
            )
        }
        return ResourceChoice(
            address: url,
            choice: profile.choice,
            scopes: scopes,
            resource: resource,
            assumesOrigin: assumeOrigin
        )
    }
}

/// The scopes that a command requests.
struct ScopeOptions: ParsableArguments {
    @Option(
        name: .customLong("scope"),
        help:
            "With a URL (except in authflow token): a scope to request in addition to the scopes in the challenge. With a profile's --resource (authflow token): a scope of the token. With --issuer (authflow login): a scope to request; default: openid, profile and email, and offline_access if the provider supports it. May be given more than once."
    )
    var scopes: [String] = []
}
