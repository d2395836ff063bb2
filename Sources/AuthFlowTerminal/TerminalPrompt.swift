import AuthFlow
import Foundation

/// Asks a person at a terminal, whatever standard input and output are connected to.
public enum TerminalPrompt {
    /// Asks a question and waits for a line.
    /// - Parameters:
    ///   - question: What to ask. Control characters are taken out of it.
    ///   - isSecret: Whether the answer is kept off the screen.
    /// - Returns: The line.
    /// - Throws: ``AuthFlow/AuthError`` with `user_agent_failed` when there is no terminal, or it was closed.
    public static func ask(_ question: String, isSecret: Bool) async throws -> String {
        try await withCheckedThrowingContinuation { continuation in
            // Reading a terminal blocks for as long as the person likes.
            Thread.detachNewThread {
                continuation.resume(with: Result { try read(DisplayText.sanitized(question, limit: 2000), isSecret) })
            }
        }
    }

    private static func read(_ question: String, _ isSecret: Bool) throws(AuthError) -> String {
        let terminal = unsafe open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)
        guard terminal >= 0 else {
            throw AuthError(
                .userAgentFailed,
                "\"\(question)\" is asked, and there is no terminal to ask at. Give the answer in the configuration."
            )
        }
        defer { close(terminal) }
        var settings = termios()
        let hasSettings = unsafe tcgetattr(terminal, &settings) == 0
        // A secret that would be seen is not asked for.
        guard hasSettings || !isSecret else {
            throw AuthError(.userAgentFailed, "This terminal cannot hide what is typed.")
        }
        if isSecret {
            var hidden = settings
            hidden.c_lflag &= ~tcflag_t(ECHO)
            unsafe tcsetattr(terminal, TCSAFLUSH, &hidden)
        }
        defer {
            if isSecret {
                unsafe tcsetattr(terminal, TCSAFLUSH, &settings)
                write("\n", to: terminal)
            }
        }
        write("\(question): ", to: terminal)
        var line: [UInt8] = []
        var byte: UInt8 = 0
        while line.count < 4096 {
            let count = unsafe Foundation.read(terminal, &byte, 1)
            guard count == 1 else { throw AuthError(.userAgentFailed, "The terminal was closed.") }
            if byte == UInt8(ascii: "\n") { return String(decoding: line, as: UTF8.self) }
            line.append(byte)
        }
        throw AuthError(.userAgentFailed, "The answer is too long.")
    }

    private static func write(_ text: String, to terminal: Int32) {
        let bytes = Array(text.utf8)
        _ = unsafe bytes.withUnsafeBytes { unsafe Foundation.write(terminal, $0.baseAddress, $0.count) }
    }
}
