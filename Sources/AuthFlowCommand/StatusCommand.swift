import ArgumentParser
import AuthFlow

struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract:
            "Show who is signed in. Asks nobody; exits with 4 when nobody is, or the provider has ended the session."
    )

    @OptionGroup var options: ProfileOptions

    @Flag(help: "Print it as JSON.")
    var json = false

    func run() async throws {
        try Report.print(try await options.client().requiredCredential(), asJSON: json)
    }
}
