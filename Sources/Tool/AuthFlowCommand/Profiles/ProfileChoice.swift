import AuthFlow
import AuthFlowDesktop
import AuthFlowEssentials
import AuthFlowForgeRock
import AuthFlowGitHub
import AuthFlowHeadless
import AuthFlowLoopback
import AuthFlowOIDC
import AuthFlowOkta
import AuthFlowPostgreSQL
import AuthFlowPresets
import AuthFlowRedis
import AuthFlowSQLite
import AuthFlowTerminal

/// The providers, user agents, stores, presets and assertion sources that a configuration can name.
enum Known {
    static let providers: [ProviderFactory] = [.oidc, .gitHub, .okta, .forgeRock]
    static let userAgents: [UserAgentFactory] = [
        .loopback(applicationName: "authflow"), .systemBrowser, .headless,
        .tree(
            host: ToolEnvironment.host,
            ask: TerminalPrompt.ask,
            show: { try await TerminalPrompt.show($0, isSecret: $1) }
        ), .paste,
    ]
    static let stores = TokenStoreFactory.standard + [.sqlite, .postgreSQL, .redis]
    static let presets = ProviderPreset.all + [.forgeRock, .gitHub, .okta]
    static let assertions = AssertionSourceFactory.standard + [.command]
    static let components = ProfileComponents(
        providers: providers,
        userAgents: userAgents,
        stores: stores,
        assertions: assertions
    )

    /// Creates the client of a profile.
    static func client(
        of profile: Profile,
        overrides: AuthClient.Overrides = AuthClient.Overrides(),
        transport: (any HTTPTransport)? = nil,
        observer: (@Sendable (FlowEvent) -> Void)? = nil
    ) throws -> AuthClient {
        try AuthClient(
            profile: profile,
            providers: providers,
            userAgents: userAgents,
            devicePresenter: TerminalDevicePresenter(),
            stores: stores,
            assertions: assertions,
            overrides: overrides,
            transport: transport,
            host: ToolEnvironment.host,
            observer: observer
        )
    }
}

/// Selects the configuration file, the profile in it and the account.
struct ProfileChoice: Hashable {
    var config: String?
    var profile: String?
    var account: String?
    var isVerbose = false
    /// Whether progress messages are suppressed.
    var isQuiet = false
    /// A client that is configured only with options.
    var withoutFile: ClientWithoutFile?
    /// Whether the client only removes stored tokens, which requires neither secrets nor keys.
    var isForLocalSignOut = false

    /// The profiles of the file that a command line names, for shell completion; none if the file cannot be read. The shells' completion
    /// scripts expand the names, so names with characters that are special in a shell are omitted.
    static func profileNames(in words: [String]) -> [String] {
        let names = (try? ProfileChoice(config: config(in: words)).file())?.profileNames ?? []
        return names.filter { $0.utf8.allSatisfy { $0.isLetterOrDigit || "._-+@".utf8.contains($0) } }
    }

    /// The value of `--config` in the words of a command line, as shells pass them to completion scripts: before expansion, and in bash with the
    /// option, "=" and the value as separate words.
    private static func config(in words: [String]) -> String? {
        for (index, word) in words.enumerated() {
            if word.hasPrefix("--config=") { return String(word.dropFirst("--config=".count)) }
            guard ["-c", "--config"].contains(word) else { continue }
            let rest = words[(index + 1)...]
            guard let value = rest.first != "=" ? rest.first : rest.dropFirst().first else { return nil }
            let home = HomeDirectory.path(environment: ToolEnvironment.host.environment)
            return value.hasPrefix("~/") ? home + value.dropFirst() : value
        }
        return nil
    }

    func file() throws -> ConfigurationFile {
        try withoutFile?.file() ?? ConfigurationChoice(option: config).file()
    }

    /// The options that choose the same profile.
    var arguments: [String] {
        if let withoutFile {
            return OptionWords.of("--issuer", withoutFile.issuer) + OptionWords.of("--client-id", withoutFile.clientID)
        }
        return OptionWords.of("--config", config) + OptionWords.of("--profile", profile)
    }

    /// The profile in a file.
    func chosenProfile(in file: ConfigurationFile) throws -> Profile {
        let chosen = try file.profile(profile)
        return isForLocalSignOut ? chosen.forLocalSignOut : chosen
    }

    /// - Parameters:
    ///   - file: The file with the profile, if it has been read: a file that is read again may have changed since it was checked.
    ///   - flows: The flows, overriding the profile; default: the profile's flows.
    ///   - userAgent: The user agent, overriding the profile; default: the profile's user agent.
    ///   - launchEnvironment: The environment in which the program runs.
    ///   - transport: Wraps the network transport; default: nil. Without it, a profile that provides assertions for this one uses its own network
    ///     settings.
    ///   - observer: Receives every event, in addition to the progress output.
    func client(
        in file: ConfigurationFile? = nil,
        flows: [SignInFlow]? = nil,
        userAgent: String? = nil,
        launchEnvironment: LaunchEnvironment = .current(environment: ToolEnvironment.host.environment),
        transport: ((any HTTPTransport) -> any HTTPTransport)? = nil,
        observer: @escaping @Sendable (FlowEvent) -> Void = { _ in }
    ) throws -> AuthClient {
        let progress = Progress(isVerbose: isVerbose, launchEnvironment: launchEnvironment, showsSteps: !isQuiet)
        let profile = try chosenProfile(in: file ?? self.file())
        var chosen = self
        chosen.profile = profile.name
        let scopes = withoutFile?.scopes ?? []
        SignInAdvice.choose(
            chosen.arguments,
            signIn: OptionWords.of("--account", account) + scopes.flatMap { OptionWords.of("--scope", $0) }
        )
        var overrides = AuthClient.Overrides(flows: flows, userAgent: userAgent, account: account)
        overrides.launchEnvironment = launchEnvironment
        // That client also sends refresh tokens, whose responses must be stored before this program exits.
        overrides.onOtherClient = { UnfinishedClients.add($0) }
        let client = try Known.client(
            of: profile,
            overrides: overrides,
            transport: try transport.map { $0(try profile.transport(environment: ToolEnvironment.host.environment)) }
        ) { event in
            progress(event)
            observer(event)
        }
        if client.options.account != nil { SignInAdvice.recordAccountSelection() }
        UnfinishedClients.add(client)
        return client
    }
}

extension ProfileChoice {
    /// Requests offline_access for a client without a configuration file, if the provider supports that scope and no scopes are given.
    mutating func addUsualScopes() async throws {
        guard withoutFile?.scopes.isEmpty == true else { return }
        var quiet = self
        quiet.isQuiet = !isVerbose
        let known = try await quiet.client().metadata().scopes ?? []
        if known.contains("offline_access") { withoutFile?.requestsOfflineAccess = true }
    }
}

/// A client that is configured only with options: "authflow login --issuer URL --client-id ID" needs no file.
struct ClientWithoutFile: Hashable {
    /// The value of `--issuer`; empty if the option is missing.
    let issuer: String
    /// The value of `--client-id`; empty if the option is missing.
    let clientID: String
    /// The values of `--scope`; empty for the default scopes.
    var scopes: [String] = []
    /// Whether the default scopes include `offline_access`.
    var requestsOfflineAccess = false

    private static let usualScopes = ["openid", "profile", "email"]

    /// Checks the values of the options. Errors name the options, because there is no file position to report.
    private func check() throws(AuthError) {
        func refuse(_ text: String) -> AuthError { AuthError(.invalidConfiguration, text) }
        guard !issuer.isEmpty else { throw refuse("--client-id needs --issuer, the URL of the provider.") }
        guard !clientID.isEmpty else {
            throw refuse("--issuer needs --client-id, the client ID at the provider.")
        }
        do throws(AuthError) { _ = try Endpoint(issuer: issuer) } catch {
            throw refuse("--issuer: \(error.message)")
        }
        for scope in scopes where !ClientRegistration.Values.isScopeToken(scope) {
            throw refuse(
                "--scope takes one scope (RFC 6749 section 3.3), and may be given more than once: \"\(DisplayText.sanitized(scope, limit: 60))\"."
            )
        }
    }

    func file() throws -> ConfigurationFile {
        try check()
        var profile: [String: JSON] = ["provider": "oidc", "issuer": .string(issuer), "client_id": .string(clientID)]
        let usual = Self.usualScopes + (requestsOfflineAccess ? ["offline_access"] : [])
        let scopes = scopes.isEmpty ? usual : scopes
        profile["scopes"] = .array(scopes.map(JSON.string))
        let json = JSON.object(["profiles": .object([issuer: .object(profile)])])
        return try ConfigurationFile(text: try json.serialized(), name: "options")
    }
}
