import ArgumentParser
import AuthFlow

struct UserInfoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "userinfo",
        abstract: "Request the claims about the signed-in user from the provider, and print them as JSON."
    )

    @OptionGroup var options: ProfileOptions

    func run() async throws {
        try Terminal.result(try await options.choice.client().userInfo())
    }
}
