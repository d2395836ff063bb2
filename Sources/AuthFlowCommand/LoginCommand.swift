import ArgumentParser
import AuthFlow

struct LoginCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "login", abstract: "Sign in and keep the credential.")

    @OptionGroup var options: ProfileOptions

    @Flag(help: "Print who signed in as JSON.")
    var json = false

    func run() async throws {
        let signIn = try await options.client().signIn()
        try Report.print(signIn.credential, asJSON: json)
        // The sign-in is good, but the next command will not know of it.
        if let error = signIn.storageError { throw error }
    }
}
