import ArgumentParser
import AuthFlow
import AuthFlowPostgreSQL
import AuthFlowSQLite
import AuthFlowServerConfiguration

struct StoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store",
        abstract: "Prepare and check the store that a profile names, and rotate its keys.",
        subcommands: [Check.self, Migrate.self, NewKey.self, Rewrap.self, Reset.self]
    )

    static func store(_ options: ProfileOptions) throws -> (profile: Profile, store: any TokenStore) {
        var choice = options.choice
        let file = try choice.file()
        // A web application uses the store of its first provider's profile.
        let profile =
            options.profile == nil && file.hasServer
            ? try SessionServer.profiles(in: file, host: ToolEnvironment.host)[0] : try file.profile(options.profile)
        choice.profile = profile.name
        SignInAdvice.choose(choice.arguments, signIn: [])
        let store = try profile.makeStore(Known.components, host: ToolEnvironment.host)
        return (profile, store)
    }

    /// The database underneath the encryption layer; nil for any other kind of store.
    private static func database<Database: TokenStore>(
        _ options: ProfileOptions,
        as kind: Database.Type
    ) throws -> (profile: Profile, database: Database?) {
        let (profile, store) = try store(options)
        return (profile, ((store as? EncryptedSessionStore)?.base ?? store) as? Database)
    }

    struct NewKey: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "new-key",
            abstract: "Write a new key for \"encryption_keys\" to a file that only you can read."
        )

        @Argument(help: "The file to write. An existing file is left unchanged.", completion: .file())
        var path: String

        func run() async throws {
            let text = Base64URL.encode(ToolEnvironment.host.randomBytes(32)) + "\n"
            guard try PrivateFile(path).create(with: Array(text.utf8)) else {
                throw AuthError(.storageFailed, "\(path) already exists.")
            }
            Terminal.printMessage("Wrote \(path). Without this file, records encrypted with its key cannot be read.")
        }
    }

    struct Rewrap: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "rewrap",
            abstract: "Rewrap the keys of all records with the first key in \"encryption_keys\".",
            discussion: """
                To rotate a key without downtime: add the new key at the end of the list on every instance, move it to the front on every instance, run \
                this command, and finally remove the old key.
                """
        )

        @OptionGroup var options: ProfileOptions

        func run() async throws {
            let (profile, store) = try StoreCommand.store(options)
            guard let encrypted = store as? EncryptedSessionStore else {
                throw AuthError(
                    .unsupported,
                    "The store of the profile \(profile.name) has no encryption keys, or cannot list its records. Use SQLite, PostgreSQL or Redis with \"encryption_keys\"."
                )
            }
            let (rewrapped, left) = try await encrypted.rewrap()
            Terminal.printMessage("Records that were rewrapped with the first key: \(rewrapped)")
            guard left == 0 else {
                throw AuthError(
                    .leaseBusy,
                    "Records that were not rewrapped: \(left). They were in use, are damaged, are not encrypted, or are encrypted with a key that is not in the list. Run this command again. If the number does not change, run: \(SignInAdvice.storeCheck)"
                )
            }
        }
    }

    struct Reset: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "reset",
            abstract: "Rename a damaged SQLite database, so that the next sign-in starts with an empty one.",
            discussion: "A database that can be read is left unchanged. Nothing is deleted."
        )

        @OptionGroup var options: ProfileOptions

        func run() async throws {
            let (profile, store) = try StoreCommand.database(options, as: SQLiteTokenStore.self)
            guard let database = store else {
                throw AuthError(.unsupported, "The store of the profile \(profile.name) is not an SQLite database.")
            }
            let path = try await database.setDamagedDatabaseAside()
            Terminal.printMessage("Renamed to \(path). All users must sign in again.")
        }
    }

    struct Migrate: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "migrate",
            abstract: "Create the tables in PostgreSQL, or migrate tables of an earlier version.",
            discussion: "Can be run repeatedly and concurrently in several processes. Other stores need no preparation."
        )

        @OptionGroup var options: ProfileOptions

        func run() async throws {
            let (profile, store) = try StoreCommand.database(options, as: PostgreSQLTokenStore.self)
            guard let database = store else {
                return Terminal.printMessage("The store of the profile \(profile.name) needs no preparation.")
            }
            let (before, now) = try await database.migrate()
            Terminal.printMessage(
                before == now
                    ? "The tables are up to date: version \(now)."
                    : "The tables were migrated from version \(before) to version \(now)."
            )
        }
    }
}
