import ArgumentParser
import AuthFlow
import AuthFlowDesktop
import AuthFlowEssentials
import AuthFlowSystem

struct HandleRedirectCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "handle-redirect",
        abstract: "Deliver a redirect to the waiting login. The desktop runs this command for a profile's URI scheme."
    )

    @Argument(help: "The complete redirect URL; default: read from standard input.")
    var url: String?

    func run() async throws {
        // A pasted URL may be surrounded by spaces.
        let url = if let url = self.url { url.trimmingWhitespace() } else { try await Self.line().trimmingWhitespace() }
        let outcome = try RedirectHandoff().deliver(url)
        guard outcome != .taken else { return Notification.show("Return to the program that started the sign-in.") }
        let reason =
            outcome == .noListener
            ? "No login of this user on this machine is waiting for this redirect. Run authflow login again, or, if the login is waiting on another machine, paste the URL there."
            : "A login is waiting, but not for this redirect. Run authflow login again."
        // When the desktop runs this command, the user does not see the output.
        Notification.show(reason)
        throw AuthError(.invalidCallback, reason)
    }

    private static func line() async throws -> String {
        let newline = UInt8(ascii: "\n")
        let bytes = try await HelperInput.all { $0.contains(newline) }
        let line = String(decoding: bytes.prefix { $0 != newline }, as: UTF8.self)
        guard !line.trimmingWhitespace().isEmpty else { throw AuthError(.invalidCallback, "No URL was given.") }
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
