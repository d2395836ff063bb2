import ArgumentParser
import AuthFlow
import Foundation

struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract:
            "Show who is signed in. The provider is not asked; exits with 4 when no user is, or the session is over."
    )

    @OptionGroup var options: ProfileOptions

    @Flag(help: "Print it as JSON.")
    var json = false

    func run() async throws {
        let credential = try await options.client().requiredCredential()
        try Report.print(credential, asJSON: json)
        let tokens = credential.tokens
        guard tokens.refreshToken != nil || tokens.expiresAt.map({ Date() < $0 }) ?? true else {
            throw AuthError(
                .loginRequired,
                "The access token has expired, and there is no refresh token to get another one with. Sign in again."
            )
        }
    }
}
