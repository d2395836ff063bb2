import ArgumentParser
import AuthFlow

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif
#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

struct HandleRedirectCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "handle-redirect",
        abstract: "Hand a redirect to the login that waits for it. The desktop calls this, for the scheme of a profile."
    )

    @Argument(help: "The address, whole. Read from standard input unless given.")
    var url: String?

    func run() async throws {
        let url = try url ?? Self.line()
        let outcome = try RedirectHandOver().deliver(url)
        guard outcome != .taken else { return Notification.show("Signed in? Go back to the program that asked.") }
        let reason =
            outcome == .nobody
            ? "No login waits for this address, on this machine and for this user. Start authflow login again; or if it waits elsewhere, paste the address there."
            : "A login waits, for another address than this one. Start authflow login again."
        // Started by the desktop, nobody sees what is written.
        Notification.show(reason)
        throw AuthError(.invalidCallback, reason)
    }

    private static func line() throws -> String {
        guard let line = readLine(), !line.isEmpty else { throw AuthError(.invalidCallback, "No address was given.") }
        return line
    }
}

/// Says something on the desktop, where there is one and it can be told.
private enum Notification {
    static func show(_ text: String) {
        guard isatty(STDERR_FILENO) == 0 else { return }
        let environment = ToolEnvironment.host.environment
        guard let program = LaunchEnvironment.find("notify-send", environment) else { return }
        try? DetachedProcess.start([program, "--app-name=AuthFlow", "AuthFlow", text], environment: environment) { _ in
        }
    }
}
