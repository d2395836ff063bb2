import ArgumentParser
import AuthFlow

struct UserInfoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "userinfo",
        abstract: "Request the claims about the signed-in user from the provider, and print them as JSON."
    )

    @OptionGroup var options: ProfileOptions

    func run() async throws {
        let client = try options.choice.client()
        guard !client.isWithoutUser else {
            throw AuthError(
                .unsupported,
                client.hasOwner
                    ? "This profile does not sign in users. Use the profile that provides the assertion."
                    : "The tokens of this profile do not belong to a user, so there is no user information."
            )
        }
        try Terminal.result(try await client.userInfo())
    }
}
