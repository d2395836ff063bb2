import ArgumentParser
import AuthFlow
import AuthFlowTerminal

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

    @Option(help: "The user agent, whatever the profile says: auto, loopback, system-browser, headless, tree or paste.")
    var userAgent: String?

    @Flag(help: "Open no browser: show the address only.")
    var noBrowser = false

    func validate() throws {
        guard !device || userAgent == nil && !noBrowser else {
            throw ValidationError(
                "--device needs no user agent, so --user-agent and --no-browser make no sense with it."
            )
        }
        guard !(addAccount && replaceAccount) else {
            throw ValidationError("--add-account and --replace-account exclude each other.")
        }
    }

    func run() async throws {
        let policy: AuthClient.AccountPolicy =
            addAccount ? .addAccount : replaceAccount ? .replaceAccount : .sameAccount
        var surroundings = Surroundings.current()
        surroundings.mayOpenBrowser = !noBrowser
        let redirects = TerminalRedirects(isEnabled: surroundings.hasTerminal)
        let flows: [SignInFlow]? = device ? [.device] : userAgent != nil || noBrowser ? [.authorizationCode] : nil
        let client = try options.client(
            flows: flows,
            userAgent: userAgent,
            surroundings: surroundings,
            observer: redirects.observer
        )
        let signIn = try await redirects.accepting(for: client) { try await client.signIn(policy) }
        try Report.print(signIn.credential, asJSON: json)
        // The sign-in is good, but the next command will not know of it.
        if let error = signIn.storageError { throw error }
    }
}
