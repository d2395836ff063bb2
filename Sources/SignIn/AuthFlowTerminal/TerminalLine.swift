import AuthFlow
import AuthFlowSystem
import Synchronization

/// Reads lines from a terminal, with support for cancellation.
struct TerminalLine {
    /// The interval at which a wait checks for cancellation, in milliseconds.
    private static let interval: Int32 = 100

    let terminal: Int32
    let maximumSize: Int

    /// The error message for a closed terminal.
    static let closed = "The terminal was closed."

    /// Runs an operation that reads from a terminal on a separate thread, because it blocks until the user enters a line.
    /// - Parameter body: Receives a function that returns whether the task has been cancelled.
    /// - Returns: The result; nil if no more threads can be created.
    static func reading<Value: Sendable>(
        _ body: @escaping @Sendable (_ isCancelled: () -> Bool) -> Value
    ) async -> Value? {
        let isCancelled = Mutex(false)
        return await withTaskCancellationHandler {
            await withCheckedContinuation { (continuation: CheckedContinuation<Value?, Never>) in
                let isStarted = DetachedThread.run {
                    continuation.resume(returning: body { isCancelled.withLock { $0 } })
                }
                if !isStarted { continuation.resume(returning: nil) }
            }
        } onCancel: {
            isCancelled.withLock { $0 = true }
        }
    }

    /// Waits for a line and returns it without its newline and bracketed-paste markers.
    /// - Parameters:
    ///   - waitsInBackground: Whether to wait until the program is in the foreground. A background process that
    ///     reads is stopped (SIGTTIN).
    ///   - isCancelled: Returns whether to stop; called periodically.
    /// - Throws: `CancellationError`; ``/AuthFlow/AuthError`` with `user_agent_failed` when the terminal is closed or the line is too
    ///   long.
    func read(waitsInBackground: Bool = false, isCancelled: () -> Bool) throws -> String {
        var line: [UInt8] = []
        var byte: UInt8 = 0
        while line.count < maximumSize {
            // A cancelled task must not wait for the user.
            if isCancelled() { throw CancellationError() }
            var ready = pollfd(fd: terminal, events: Int16(POLLIN), revents: 0)
            // Also negative, if a signal has interrupted the wait. A read could then block, or fail on a non-blocking terminal.
            guard unsafe poll(&ready, 1, Self.interval) > 0 else { continue }
            if waitsInBackground, tcgetpgrp(terminal) != getpgrp() {
                usleep(UInt32(Self.interval) * 1000)
                continue
            }
            let count = unsafe SystemCall.read(terminal, &byte, 1)
            // EAGAIN: another process that shares the terminal has made it non-blocking, and has read the input.
            if count < 0, errno == EINTR || errno == EAGAIN { continue }
            guard count == 1 else { throw AuthError(.userAgentFailed, Self.closed) }
            if byte == UInt8(ascii: "\n") {
                // A terminal encloses pasted text in markers if another program has not reset bracketed-paste mode.
                return String(decoding: line, as: UTF8.self).replacing("\u{1B}[200~", with: "")
                    .replacing("\u{1B}[201~", with: "")
            }
            line.append(byte)
        }
        throw AuthError(.userAgentFailed, "The line is too long.")
    }
}
