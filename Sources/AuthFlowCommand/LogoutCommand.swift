import ArgumentParser
import AuthFlow

struct LogoutCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "logout",
        abstract: "Forget the credential on this machine. The session at the provider goes on."
    )

    @OptionGroup var options: ProfileOptions

    func run() async throws {
        let wasSignedIn = try await options.client().signOutLocally()
        Terminal.talk(wasSignedIn ? "Signed out on this machine." : "Nobody was signed in.")
    }
}
