import ArgumentParser
import AuthFlow
import AuthFlowTerminal
import AuthFlowTrace

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

struct LoginCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "login", abstract: "Sign in and keep the credential.")

    @OptionGroup var options: ProfileOptions

    @Flag(help: "Print who signed in as JSON.")
    var json = false

    @Flag(help: "Keep the user who is signed in already, and add the one who signs in.")
    var addAccount = false

    @Flag(help: "Forget the user who is signed in already, when another one signs in.")
    var replaceAccount = false

    @Flag(help: "Sign in on another screen, with a code, whatever the profile says.")
    var device = false

    @Option(help: "The user agent, whatever the profile says: auto, loopback, system-browser, headless, tree or paste.")
    var userAgent: String?

    @Flag(help: "Open no browser: show the address only.")
    var noBrowser = false

    @Option(help: "Write what happened to this file, as a page without any secret in it.")
    var trace: String?

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
        let policy: AccountPolicy =
            addAccount ? .addAccount : replaceAccount ? .replaceAccount : .sameAccount
        var launchEnvironment = LaunchEnvironment.current()
        launchEnvironment.mayOpenBrowser = !noBrowser
        let redirects = TerminalRedirects(isEnabled: launchEnvironment.hasTerminal)
        let flows: [SignInFlow]? = device ? [.device] : userAgent != nil || noBrowser ? [.authorizationCode] : nil
        let flowTrace = FlowTrace()
        let client = try options.choice.client(
            flows: flows,
            userAgent: userAgent,
            launchEnvironment: launchEnvironment,
            transport: { trace == nil ? $0 : flowTrace.transport($0) }
        ) { event in
            redirects.observer(event)
            flowTrace.observer(event)
        }
        // A login that fails is what a trace is for.
        defer { if let trace { write(flowTrace, to: trace) } }
        let signIn = try await redirects.accepting(for: client) { try await client.signIn(policy) }
        try Report.print(signIn.credential, asJSON: json)
        // The sign-in is good, but the next command will not know of it.
        if let error = signIn.storageError { throw error }
    }

    private func write(_ trace: FlowTrace, to path: String) {
        do {
            let place = URL(fileURLWithPath: path)
            let mark = "<!-- A login, written down by authflow -->\n"
            let page = mark + trace.html(title: "authflow login")
            try PrivateFile(place.path).write(Array(page.utf8), markedBy: Array(mark.utf8))
            Terminal.talk("What happened is written down in \(path).")
        } catch {
            Terminal.talk("Warning: the trace could not be written: \(error)")
        }
    }
}
