import ArgumentParser

/// The options that select the configuration file, the profile in it and the account.
struct ProfileOptions: ParsableArguments {
    @Option(
        name: [.short, .long],
        help:
            "The configuration file. Default: $AUTHFLOW_CONFIG, ./authflow.json if you have trusted it (authflow config trust), or authflow/config.json in your configuration directory."
    )
    var config: String?

    @Option(name: [.short, .long], help: "The profile. Default: \"default_profile\", or the only one there is.")
    var profile: String?

    @Option(help: "The subject of the account to use, when several are signed in.")
    var account: String?

    @Flag(name: [.short, .long], help: "Show every event.")
    var verbose = false

    /// The values of these options.
    var choice: ProfileChoice {
        ProfileChoice(config: config, profile: profile, account: account, isVerbose: verbose)
    }
}
