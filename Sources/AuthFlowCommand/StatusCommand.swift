import ArgumentParser
import AuthFlow

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

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
        try await StatusRequest(choice: options.choice, asJSON: json).run()
    }
}

/// What `authflow status` is asked for.
struct StatusRequest: Hashable {
    var choice = ProfileChoice()
    var asJSON = false

    func run() async throws {
        let credential = try await choice.client().requiredCredential()
        try Report.print(credential, asJSON: asJSON)
        let tokens = credential.tokens
        guard tokens.refreshToken != nil || tokens.expiresAt.map({ Date() < $0 }) ?? true else {
            throw AuthError(
                .loginRequired,
                "The access token has expired, and there is no refresh token to get another one with. Sign in again."
            )
        }
    }
}
