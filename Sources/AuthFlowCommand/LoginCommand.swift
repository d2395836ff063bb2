import ArgumentParser
import AuthFlow

struct LoginCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "login", abstract: "Sign in and keep the credential.")

    @OptionGroup var options: ProfileOptions

    @Flag(help: "Print who signed in as JSON.")
    var json = false

    @Flag(help: "Keep whoever is signed in already, and add the one who signs in.")
    var addAccount = false

    @Flag(help: "Forget whoever is signed in already, when somebody else signs in.")
    var replaceAccount = false

    @Flag(help: "Sign in on another screen, with a code, whatever the profile says.")
    var device = false

    func validate() throws {
        guard !(addAccount && replaceAccount) else {
            throw ValidationError("--add-account and --replace-account exclude each other.")
        }
    }

    func run() async throws {
        let policy: AuthClient.AccountPolicy =
            addAccount ? .addAccount : replaceAccount ? .replaceAccount : .sameAccount
        let signIn = try await options.client(flows: device ? [.device] : nil).signIn(policy)
        try Report.print(signIn.credential, asJSON: json)
        // The sign-in is good, but the next command will not know of it.
        if let error = signIn.storageError { throw error }
    }
}
