import ArgumentParser

/// The options for which configuration, and which profile of it.
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

    /// What was chosen.
    var choice: ProfileChoice {
        ProfileChoice(config: config, profile: profile, account: account, isVerbose: verbose)
    }
}
