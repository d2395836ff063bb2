import ArgumentParser
import AuthFlow
import AuthFlowTerminal

struct LogoutCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "logout",
        abstract: "Withdraw the tokens at the provider and forget them on this machine.",
        discussion: "The credential is forgotten whatever the provider says. What could not be done is said."
    )

    @OptionGroup var options: ProfileOptions

    @Flag(help: "Ask the provider nothing, and remove everything kept for the profile, damaged or not.")
    var local = false

    @Flag(help: "End your session at the provider too, on its sign-out page.")
    var browser = false

    func validate() throws {
        guard !(local && browser) else { throw ValidationError("--local and --browser exclude each other.") }
    }

    func run() async throws {
        let redirects = TerminalRedirects()
        let client = try options.client(observer: redirects.observer)
        if local {
            Terminal.talk(try await client.signOutLocally() ? "Signed out on this machine." : "Nobody was signed in.")
            return
        }
        let signOut = try await redirects.accepting(for: client) { try await client.signOut(endingSession: browser) }
        guard let identity = signOut.identity else { return Terminal.talk("Nobody was signed in.") }
        Terminal.talk("\(identity.displayName) is signed out on this machine.")
        say(signOut.revocation, done: "The tokens were withdrawn.", otherwise: "The tokens go on until they end")
        say(
            signOut.endSession,
            done: "Your session at the provider has ended.",
            otherwise: "Your session at the provider goes on"
        )
    }

    private func say(_ outcome: SignOut.Outcome, done: String, otherwise: String) {
        switch outcome {
        case .done: Terminal.talk(done)
        case .nothingToDo: break
        case .unsupported(let reason): Terminal.talk("\(otherwise): \(reason)")
        case .failed(let error): Terminal.talk("\(otherwise): \(error)")
        }
    }
}
