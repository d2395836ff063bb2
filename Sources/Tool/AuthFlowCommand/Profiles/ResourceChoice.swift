import ArgumentParser
import AuthFlow
import AuthFlowTerminal

/// Selects the client of a protected resource that is given by its address: by a profile of a configuration file, or by none.
struct ResourceChoice: Hashable {
    var address: String
    var choice = ProfileChoice()
    var scopes: [String] = []
    var resource: String?
    var assumesOrigin = false

    /// Whether an argument is an address, and not something else.
    static func isAddress(_ text: String) -> Bool { text.contains("://") }

    /// The configuration file, when there is one to use.
    ///
    /// One in the working directory is used only when it is trusted. Otherwise it is left out, because a program may be started in any
    /// folder: what lies there must neither choose where tokens go nor keep this from working.
    static func file(_ config: String?) throws -> ConfigurationFile? {
        if config != nil { return try ConfigurationChoice(option: config).file() }
        for choice in ConfigurationChoice.existing() {
            do {
                return try choice.file()
            } catch let error as AuthError
                where choice.origin == .workingDirectory && error.code == .invalidConfiguration
            {
                Terminal.talk("Not using \(ConfigurationChoice.localName): it is not trusted.")
            }
        }
        return nil
    }

    /// - Parameters:
    ///   - userAgent: The user agent in place of the configured one.
    ///   - signsInOnDemand: Whether a request may begin a sign-in.
    func client(
        userAgent: String? = nil,
        launchEnvironment: LaunchEnvironment = .current(environment: ToolEnvironment.host.environment),
        signsInOnDemand: Bool = false,
        restAfterFailure: Duration = .zero,
        showsSteps: Bool = true,
        transport: (any HTTPTransport) -> any HTTPTransport = { $0 },
        observer: @escaping @Sendable (FlowEvent) -> Void = { _ in }
    ) throws -> ResourceClient {
        guard choice.withoutFile == nil else {
            throw AuthError(
                .invalidConfiguration,
                "--client-id takes the place of a profile, with --issuer: an address needs none."
            )
        }
        var options = ResourceClient.Options()
        options.scopes = scopes
        options.resource = resource
        options.signsInOnDemand = signsInOnDemand
        options.restAfterFailure = restAfterFailure
        options.assumesAuthorizationServerAtOrigin = assumesOrigin
        let file = try Self.file(choice.config)
        let client: ResourceClient
        if let profile = try profileName(in: file) {
            var profileChoice = choice
            profileChoice.profile = profile
            let configured = try profileChoice.client(
                userAgent: userAgent,
                launchEnvironment: launchEnvironment,
                transport: transport,
                observer: observer
            )
            client = try ResourceClient(
                address,
                client: configured,
                options: options,
                transport: transport(
                    try profileChoice.file().profile(profile).transport(environment: ToolEnvironment.host.environment)
                ),
                observer: progress(launchEnvironment, showsSteps, observer)
            )
        } else {
            let settings = file?.resourceClient ?? ResourceClientSettings()
            client = try ResourceClient(
                address,
                settings: settings,
                userAgents: Known.userAgents,
                stores: Known.stores,
                launchEnvironment: launchEnvironment,
                userAgent: userAgent,
                options: options,
                transport: transport(try settings.transport(environment: ToolEnvironment.host.environment)),
                host: ToolEnvironment.host,
                observer: progress(launchEnvironment, showsSteps, observer)
            )
        }
        SignInAdvice.choose(profileWords, address: shownAddress, signIn: signInWords)
        UnfinishedClients.add(client)
        return client
    }

    /// The address, or a word for one that may have a key in its query, which is not repeated.
    private var shownAddress: String { address.contains("?") ? "ADDRESS" : address }

    private var profileWords: [String] {
        (choice.config.map { ["--config", $0] } ?? []) + (choice.profile.map { ["--profile", $0] } ?? [])
    }

    private var signInWords: [String] {
        scopes.flatMap { ["--scope", $0] } + (resource.map { ["--resource", $0] } ?? [])
            + (assumesOrigin ? ["--assume-origin"] : [])
    }

    /// The sentence that says how a user signs in for this choice.
    var loginAdvice: String {
        let command = ShellWord.line(["authflow", "login", shownAddress] + profileWords + signInWords)
        return "Run: \(command)"
            + (shownAddress == address ? "" : ", with the address that your host is configured with.")
    }

    /// The transport that requests to the resource go by.
    func transport() throws -> any HTTPTransport {
        let file = try Self.file(choice.config)
        let environment = ToolEnvironment.host.environment
        if let file, let profile = try profileName(in: file) {
            return try file.profile(profile).transport(environment: environment)
        }
        return try (file?.resourceClient ?? ResourceClientSettings()).transport(environment: environment)
    }

    /// The profile that was named, or the only one that is for this resource.
    private func profileName(in file: ConfigurationFile?) throws -> String? {
        if let named = choice.profile { return named }
        let names = file?.profileNames(for: address) ?? []
        guard names.count < 2 else {
            throw AuthError(
                .invalidConfiguration,
                "Several profiles are for \(address): \(names.joined(separator: ", ")). Name one with --profile."
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
        progress.showsSteps = showsSteps
        return { [progress] event in
            progress(event)
            observer(event)
        }
    }
}

/// The options of commands that take the address of a protected resource in place of a profile.
struct ResourceOptions: ParsableArguments {
    @Argument(help: "The address of a protected resource, such as an API or an MCP server, in place of a profile.")
    var url: String?

    @Option(
        help:
            "With an address: the resource identifier to ask tokens for, where the resource has no metadata. With a profile of several resources (authflow token): the one that the token is for."
    )
    var resource: String?

    @Flag(
        help:
            "With an address: where the resource has no metadata, take its own origin for the authorization server, as MCP servers before 2025-06 expect. Nothing then says that this is right."
    )
    var assumeOrigin = false

    func validate() throws {
        if let url, !ResourceChoice.isAddress(url) {
            throw ValidationError("\"\(url)\" is not an address. A profile is named with --profile.")
        }
    }

    /// Passes for options that have an effect together.
    /// - Parameter scopes: The scopes to ask for.
    func check(_ profile: ProfileOptions, scopes: [String] = []) throws {
        guard url != nil else {
            guard scopes.isEmpty || profile.issuer != nil, resource == nil, !assumeOrigin else {
                throw ValidationError(
                    "--scope, --resource and --assume-origin need the address of a resource, and --scope that or --issuer."
                )
            }
            return
        }
        guard profile.issuer == nil else {
            throw ValidationError("--issuer takes the place of a profile: an address needs none.")
        }
        guard profile.account == nil else {
            throw ValidationError("--account needs a profile: at an address there is one account.")
        }
    }

    /// The choice of a resource; nil when a profile was chosen.
    func choice(_ profile: ProfileOptions, scopes: [String] = []) -> ResourceChoice? {
        url.map {
            ResourceChoice(
                address: $0,
                choice: profile.choice,
                scopes: scopes,
                resource: resource,
                assumesOrigin: assumeOrigin
            )
        }
    }
}

/// The scopes that a command requests.
struct ScopeOptions: ParsableArguments {
    @Option(
        name: .customLong("scope"),
        help:
            "With an address: a scope to request together with those of the challenge. With --issuer: a scope to request; default: openid, profile and email. May be given more than once."
    )
    var scopes: [String] = []
}
