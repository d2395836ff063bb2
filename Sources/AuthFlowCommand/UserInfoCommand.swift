import ArgumentParser
import AuthFlow

struct UserInfoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "userinfo",
        abstract: "Ask the provider about the person who is signed in, and print the claims as JSON."
    )

    @OptionGroup var options: ProfileOptions

    func run() async throws {
        try Terminal.result(try await options.choice.client().userInfo())
    }
}
