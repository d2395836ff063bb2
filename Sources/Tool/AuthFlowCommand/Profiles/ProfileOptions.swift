import ArgumentParser

/// The options that select the configuration file, the profile in it and the account.
struct ProfileOptions: ParsableArguments {
    @Option(
        name: [.short, .long],
        help:
            "The configuration file. Default: $AUTHFLOW_CONFIG; otherwise ./authflow.json if it exists, which you must first trust (authflow config trust), and which authflow credential never uses; otherwise authflow/config.json in your configuration directory.",
        completion: .file()
    )
    var config: String?

    @Option(
        name: [.short, .long],
        help: "The profile. Default: \"default_profile\", or the only profile.",
        completion: .custom { words, _, _ in ProfileChoice.profileNames(in: words) }
    )
    var profile: String?

    @Option(
        help:
            "The subject of the account to use if several accounts are signed in, or its issuer and subject, separated by a space."
    )
    var account: String?

    @Option(help: "The issuer of a provider, instead of a configuration file.")
    var issuer: String?

    @Option(help: "With --issuer: the client ID at the provider.")
    var clientID: String?

    @Flag(name: [.short, .long], help: "Show every event.")
    var verbose = false

    @Flag(name: [.short, .long], help: "Show only results, questions and errors.")
    var quiet = false

    func validate() throws {
        guard !quiet || !verbose else { throw ValidationError("--quiet and --verbose cannot be combined.") }
        guard issuer == nil && clientID == nil || config == nil && profile == nil else {
            throw ValidationError("--issuer and --client-id replace --config and --profile.")
        }
    }

    /// The values of these options.
    var choice: ProfileChoice { choice(scopes: []) }

    /// The values of these options, for a helper. Other programs start helpers in any directory, so a configuration
    /// file in the working directory is not used.
    var helperChoice: ProfileChoice {
        var choice = choice
        choice.config = config ?? ConfigurationChoice.pathForHelpers
        return choice
    }

    /// The values of these options, for a sign-in.
    /// - Parameter scopes: The scopes to request when no file specifies them.
    func choice(scopes: [String]) -> ProfileChoice {
        var choice = ProfileChoice(config: config, profile: profile, account: account, isVerbose: verbose)
        choice.isQuiet = quiet
        if issuer != nil || clientID != nil {
            choice.withoutFile = ClientWithoutFile(issuer: issuer ?? "", clientID: clientID ?? "", scopes: scopes)
        }
        return choice
    }
}
