import ArgumentParser
import AuthFlow
import AuthFlowPostgreSQL

struct StoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store",
        abstract: "Prepare the store that a profile names.",
        subcommands: [Migrate.self]
    )

    struct Migrate: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create the tables in PostgreSQL, or change those of an earlier version.",
            discussion: "It may run again, and in several processes at once. The other stores need no preparation."
        )

        @OptionGroup var options: ProfileOptions

        func run() async throws {
            let profile = try options.choice.file().profile(options.profile)
            let store = try profile.makeStore(
                providers: Known.providers,
                userAgents: Known.userAgents,
                stores: Known.stores,
                assertions: Known.assertions,
                host: ToolEnvironment.host
            )
            guard let database = store as? PostgreSQLTokenStore else {
                return Terminal.talk("The store of the profile \(profile.name) needs no preparation.")
            }
            let (before, now) = try await database.migrate()
            Terminal.talk(
                before == now ? "The tables are up to date: version \(now)." : "The tables are of version \(now) now; before: \(before)."
            )
        }
    }
}
