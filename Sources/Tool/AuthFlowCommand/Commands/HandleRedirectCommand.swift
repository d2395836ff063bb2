import ArgumentParser
import AuthFlow
import AuthFlowDesktop
import AuthFlowEssentials

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

struct HandleRedirectCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "handle-redirect",
        abstract: "Deliver a redirect to the login that waits for it. The desktop runs this for a profile's URI scheme."
    )

    @Argument(help: "The complete redirect URL; default: read from standard input.")
    var url: String?

    func run() async throws {
        let url = try url ?? Self.line()
        let outcome = try RedirectHandOver().deliver(url)
        guard outcome != .taken else { return Notification.show("Return to the program that started the sign-in.") }
        let reason =
            outcome == .nobody
            ? "No login of this user on this machine waits for this redirect. Start authflow login again, or, if it waits on another machine, paste the URL there."
            : "A login waits for a different redirect URI. Start authflow login again."
        // When the desktop starts this, the user does not see the output.
        Notification.show(reason)
        throw AuthError(.invalidCallback, reason)
    }

    private static func line() throws -> String {
        guard let line = readLine(), !line.isEmpty else { throw AuthError(.invalidCallback, "No URL was given.") }
        return line
    }
}

/// Shows a desktop notification, where possible.
private enum Notification {
    static func show(_ text: String) {
        guard isatty(STDERR_FILENO) == 0 else { return }
        let environment = ToolEnvironment.host.environment
        guard let program = LaunchEnvironment.find("notify-send", environment) else { return }
        try? DetachedProcess.start([program, "--app-name=AuthFlow", "AuthFlow", text], environment: environment) { _ in
        }
    }
}
