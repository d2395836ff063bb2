import ArgumentParser
import AuthFlow
import AuthFlowTerminal

struct ConfigCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config",
        abstract: "Check a configuration file, or print the JSON Schema for editors.",
        subcommands: [Check.self, Schema.self]
    )

    struct Check: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Check every profile, or one, without asking anybody. Secrets must be there to be referred to."
        )

        @OptionGroup var options: ProfileOptions

        func run() async throws {
            let file = try options.file()
            var issues: [ConfigurationIssue] = []
            for name in try options.profile.map({ [try file.profile($0).name] }) ?? file.profileNames {
                do {
                    _ = try AuthClient(
                        profile: try file.profile(name),
                        providers: Known.providers,
                        userAgents: Known.userAgents,
                        devicePresenter: TerminalDevicePresenter()
                    )
                    Terminal.talk("  ok  \(name)")
                } catch let error as ConfigurationError {
                    issues += error.issues
                }
            }
            if !issues.isEmpty { throw ConfigurationError(issues: issues) }
        }
    }

    struct Schema: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Print the JSON Schema of configuration files.")

        func run() async throws {
            try Terminal.result(
                ConfigurationFile.jsonSchema(providers: Known.providers, userAgents: Known.userAgents)
            )
        }
    }
}
