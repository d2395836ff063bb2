import AuthFlow
import Foundation

/// Lets another program show the page: the program reads the URL from standard input, and writes the URL of the final
/// redirect to standard output. Neither URL ever appears on a command line.
///
/// The program can be a browser in a test, a kiosk, or a script that asks a user in a chat.
struct CommandUserAgent: UserAgent {
    let command: [String]

    nonisolated(nonsending) func withRedirectSession<Return: Sendable>(
        _ options: RedirectOptions,
        _ body: nonisolated(nonsending) (RedirectSession) async throws -> Return
    ) async throws -> Return {
        let redirectURI = options.redirectURI.uri
        return try await body(
            RedirectSession(redirectURI: redirectURI) { url in
                options.reporter.report(.userAgentVisit, details: ["agent": "command", "program": command.first ?? ""])
                let response = try await run(url)
                // The engine checks the authorization response; an agent only returns it.
                guard options.accepts(response, at: redirectURI) else {
                    throw AuthError(.userAgentFailed, "The program did not return the authorization response.")
                }
                return response
            }
        )
    }

    private func run(_ url: String) async throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["--"] + command
        let (input, output) = (Pipe(), Pipe())
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        // A program may exit without reading the URL. Writing the URL then fails and raises SIGPIPE, which terminates
        // this process unless it is ignored. The program's output determines the outcome.
        signal(SIGPIPE, SIG_IGN)
        try? input.fileHandleForWriting.write(contentsOf: Data("\(url)\n".utf8))
        try? input.fileHandleForWriting.close()
        // If the response arrives in another way, or the user presses Ctrl-C, this task is cancelled and the program
        // is terminated.
        let response = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                Thread.detachNewThread {
                    let bytes = try? output.fileHandleForReading.readToEnd()
                    continuation.resume(returning: String(decoding: bytes ?? Data(), as: UTF8.self))
                }
            }
        } onCancel: {
            process.terminate()
        }
        process.waitUntilExit()
        try Task.checkCancellation()
        guard process.terminationStatus == 0 else {
            throw AuthError(.userAgentFailed, "\(command[0]) exited with status \(process.terminationStatus).")
        }
        return response.trimmingCharacters(in: .whitespacesAndNewlines)
    }
}

extension UserAgentFactory {
    /// `command`: another program shows the page.
    static var command: UserAgentFactory {
        let command = ConfigurationKey("command", required: .command, "The program and its arguments.")
        return UserAgentFactory("command", keys: [command]) { options, context in
            context.launchEnvironment.environment["PATH"] == nil
                ? .unavailable(reason: "PATH is not set") : .available(because: "the profile names a program")
        } make: { options, _ in
            CommandUserAgent(command: try options[command])
        }
    }
}
