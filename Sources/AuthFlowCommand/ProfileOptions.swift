import ArgumentParser
import AuthFlow
import AuthFlowForgeRock
import AuthFlowGitHub
import AuthFlowHeadless
import AuthFlowLoopback
import AuthFlowOIDC
import AuthFlowOkta
import AuthFlowTerminal
import Foundation

/// The lists that a configuration can choose from: what this program knows.
enum Known {
    static let providers: [ProviderFactory] = [.oidc, .gitHub, .okta, .forgeRock]
    static let userAgents: [UserAgentFactory] = [
        .loopback, .systemBrowser, .headless, .tree(ask: TerminalPrompt.ask, show: TerminalPrompt.show), .paste,
    ]
}

/// Which configuration, and which profile of it.
struct ProfileOptions: ParsableArguments {
    @Option(
        name: [.short, .long],
        help:
            "The configuration file. Otherwise $AUTHFLOW_CONFIG, ./authflow.json when you have trusted it (authflow config trust), or authflow/config.json where this system keeps configurations."
    )
    var config: String?

    @Option(name: [.short, .long], help: "The profile. Otherwise \"default_profile\", or the only one there is.")
    var profile: String?

    @Option(help: "The subject of the account that is meant, when several are signed in.")
    var account: String?

    @Flag(name: [.short, .long], help: "Show every event.")
    var verbose = false

    func file() throws -> ConfigurationFile {
        try ConfigurationChoice(option: config).file()
    }

    /// - Parameters:
    ///   - flows: The ways to sign in, whatever the profile says.
    ///   - userAgent: The user agent, whatever the profile says.
    ///   - surroundings: Where the program runs.
    ///   - transport: The way to the network.
    ///   - observer: Receives every event, beside the progress that is shown.
    func client(
        flows: [SignInFlow]? = nil,
        userAgent: String? = nil,
        surroundings: Surroundings = .current(),
        transport: any HTTPTransport = SystemTransport(),
        observer: @escaping @Sendable (FlowEvent) -> Void = { _ in }
    ) throws -> AuthClient {
        let progress = Progress(isVerbose: verbose, surroundings: surroundings)
        let client = try AuthClient(
            profile: try file().profile(profile),
            providers: Known.providers,
            userAgents: Known.userAgents,
            devicePresenter: TerminalDevicePresenter(),
            flows: flows,
            userAgent: userAgent,
            surroundings: surroundings,
            account: account,
            transport: transport,
            observer: { event in
                progress(event)
                observer(event)
            }
        )
        UnfinishedClients.add(client)
        return client
    }
}
