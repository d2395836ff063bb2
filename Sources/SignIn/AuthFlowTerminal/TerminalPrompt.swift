import AuthFlow
import AuthFlowSystem

/// Prompts the user at a terminal, regardless of what standard input and output are connected to.
///
/// Cancelling the task ends the prompt and restores the terminal's echo. A program that is killed while a secret is being
/// typed cannot restore the echo, so handle SIGINT (Ctrl-C) by cancelling the task.
public enum TerminalPrompt {
    /// The error message when the terminal was closed or the user pressed Ctrl-D (end of file).
    package static var closed: String { TerminalLine.closed }

    /// Asks a question and waits for a line.
    /// - Parameters:
    ///   - question: The question. Control characters are replaced with spaces.
    ///   - isSecret: Whether the input is hidden.
    /// - Returns: The line.
    /// - Throws: ``/AuthFlow/AuthError`` with `user_agent_failed` when the terminal is absent, unusable or closed; `CancellationError`.
    public static func ask(_ question: String, isSecret: Bool) async throws -> String {
        let question = DisplayText.sanitized(question, limit: 2000)
        let line = await TerminalLine.reading { isCancelled in
            Result { try read(question, isSecret, isCancelled: isCancelled) }
        }
        guard let line else {
            throw AuthError(.userAgentFailed, "The terminal could not be read, because no more threads can be created.")
        }
        return try line.get()
    }

    /// Displays text on the terminal, or on standard error when there is no terminal.
    /// - Parameters:
    ///   - text: The text. Control characters, including newlines, are replaced with spaces.
    ///   - isSecret: Whether the text is secret, and is therefore shown only on a terminal: standard error may be logged.
    /// - Throws: ``/AuthFlow/AuthError`` with `user_agent_failed` when the text is secret and there is no terminal.
    public static func show(_ text: String, isSecret: Bool = false) async throws {
        let line = "\(DisplayText.sanitized(text, limit: 4000))\n"
        let terminal = unsafe open("/dev/tty", O_WRONLY | O_NOCTTY | O_CLOEXEC)
        guard terminal >= 0 else {
            guard !isSecret else {
                throw AuthError(
                    .userAgentFailed,
                    "The provider sent a secret for the user, such as the key of a new authenticator app, but there is no terminal on which to show it."
                )
            }
            return write(line, to: STDERR_FILENO)
        }
        defer { close(terminal) }
        write(line, to: terminal)
    }

    private static func read(_ question: String, _ isSecret: Bool, isCancelled: () -> Bool) throws -> String {
        let terminal = unsafe open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)
        guard terminal >= 0 else {
            throw AuthError(
                .userAgentFailed,
                "There is no terminal for the prompt \"\(question)\". Set the value in the configuration."
            )
        }
        defer { close(terminal) }
        var settings = termios()
        let hasSettings = unsafe tcgetattr(terminal, &settings) == 0
        // Never ask for a secret that would be visible.
        guard hasSettings || !isSecret else { throw Self.echoes }
        if isSecret {
            var hidden = settings
            hidden.c_lflag &= ~tcflag_t(ECHO)
            guard unsafe tcsetattr(terminal, TCSAFLUSH, &hidden) == 0 else { throw Self.echoes }
        }
        defer {
            if isSecret {
                unsafe tcsetattr(terminal, TCSAFLUSH, &settings)
                write("\n", to: terminal)
            }
        }
        write("\(question): ", to: terminal)
        return try TerminalLine(terminal: terminal, maximumSize: 4096).read(isCancelled: isCancelled)
    }

    private static var echoes: AuthError { AuthError(.userAgentFailed, "This terminal cannot hide the input.") }

    static func write(_ text: String, to terminal: Int32) { _ = SystemCall.write(Array(text.utf8), to: terminal) }
}
