import AuthFlowEssentials
import AuthFlowSystem
import Synchronization

/// Runs a program and captures its output.
package enum ProgramOutput {
    /// Runs a program and waits for it to exit. Cancellation kills the program's process group.
    /// - Parameters:
    ///   - command: The path of the program and its arguments.
    ///   - environment: The complete environment of the program.
    ///   - maximumSize: The maximum size of its output, in bytes.
    /// - Returns: Its exit status and its output; nil for the output when it is larger than `maximumSize`.
    package static func of(
        _ command: [String],
        environment: [String: String],
        maximumSize: Int
    ) async throws -> (status: Int32, bytes: [UInt8]?) {
        #if os(Linux)
        try Task.checkCancellation()
        let child = Child()
        return try await BlockingCall.run {
            try child.run(command, environment: environment, maximumSize: maximumSize, until: nil)
        } onCancel: {
            child.kill()
        }
        #else
        throw AuthError(.unsupported, "Capturing the output of a program is supported only on Linux.")
        #endif
    }

    /// Runs a program and blocks this thread until it exits, for callers that cannot await a task. Cancellation of the current task kills
    /// the program's process group.
    /// - Parameter limit: The timeout, after which the program's process group is killed.
    /// - Returns: Its exit status and its output; nil for the output when it is larger than `maximumSize`, or the
    ///   program timed out.
    package static func waiting(
        for command: [String],
        environment: [String: String],
        maximumSize: Int,
        limit: Duration
    ) throws -> (status: Int32, bytes: [UInt8]?) {
        #if os(Linux)
        try Task.checkCancellation()
        let result = try Child().run(command, environment: environment, maximumSize: maximumSize, until: .now + limit)
        try Task.checkCancellation()
        return result
        #else
        throw AuthError(.unsupported, "Capturing the output of a program is supported only on Linux.")
        #endif
    }
}

#if os(Linux)
/// A child process that runs in a separate session. Its process ID may be reused once the program has been reaped.
private final class Child: Sendable {
    private enum State {
        case notStarted
        case running(pid_t)
        /// The program has exited, or was cancelled before it started, and must no longer be killed.
        case over
    }

    private let state = Mutex(State.notStarted)

    /// The time to wait for more output after the program has exited, in milliseconds, because its children may hold
    /// the pipe open.
    private static let outputGracePeriod: Int32 = 100

    /// Kills the program's process group; if the program has not been started yet, prevents it from starting.
    func kill() {
        state.withLock { state in
            if case .running(let identifier) = state { SystemCall.kill(-identifier, SIGKILL) }
            if case .notStarted = state { state = .over }
        }
    }

    /// Runs the program until it exits, on a thread that may block.
    func run(
        _ command: [String],
        environment: [String: String],
        maximumSize: Int,
        until end: ContinuousClock.Instant?
    ) throws -> (status: Int32, bytes: [UInt8]?) {
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else {
            throw AuthError(.assertionUnusable, "\(command[0]) could not be started: there are too many open files.")
        }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        let input = ends[0]
        defer { close(input) }
        do {
            defer { close(ends[1]) }
            let output = ends[1]
            try state.withLock { state in
                guard case .notStarted = state else { throw CancellationError() }
                do throws(AuthError) {
                    state = .running(try ChildProcess.spawn(command, environment: environment, output: output))
                } catch {
                    throw AuthError(.assertionUnusable, error.message, underlyingError: error)
                }
            }
        }
        var bytes = contents(of: input, maximumSize: maximumSize, until: end)
        if bytes != nil, let end, !exits(before: end) { bytes = nil }
        if bytes == nil { kill() }
        return (waitForExit(), bytes)
    }

    /// Waits for the program to exit, because it may close its output earlier.
    private func exits(before end: ContinuousClock.Instant) -> Bool {
        var pause: Int32 = 1
        while !hasEnded {
            guard .now < end, !Task.isCancelled else { return false }
            _ = poll(nil, 0, pause)
            pause = min(pause * 2, Self.outputGracePeriod)
        }
        return true
    }

    /// The program's output up to its exit; nil if the output is too large, the program timed out, or the task that the program blocks was
    /// cancelled. A process that the program leaves behind may hold the pipe open, so reading stops when the program exits, or earlier at
    /// end of file.
    private func contents(of input: Int32, maximumSize: Int, until end: ContinuousClock.Instant?) -> [UInt8]? {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16 * 1024)
        while bytes.count <= maximumSize {
            var watched = pollfd(fd: input, events: Int16(POLLIN), revents: 0)
            let hasEnded = hasEnded
            if let end, .now > end || Task.isCancelled { return nil }
            let ready = unsafe poll(&watched, 1, Self.outputGracePeriod)
            if ready == 0 {
                if hasEnded { return bytes }
                continue
            }
            if ready < 0, errno == EINTR { continue }
            let count = SystemCall.read(from: input, into: &buffer)
            guard count > 0 else { return bytes }
            bytes += buffer[..<count]
        }
        return nil
    }

    private var hasEnded: Bool {
        state.withLock { state in
            guard case .running(let identifier) = state else { return true }
            var information = unsafe siginfo_t()
            guard unsafe waitid(P_PID, id_t(identifier), &information, WEXITED | WNOWAIT | WNOHANG) == 0 else {
                // If the application ignores SIGCHLD, the system has reaped the program.
                return errno == ECHILD
            }
            return unsafe information.si_signo == SIGCHLD
        }
    }

    /// Waits for the program to exit.
    private func waitForExit() -> Int32 {
        guard case .running(let identifier) = state.withLock({ $0 }) else { return 1 }
        // The program is not reaped yet, so that its process ID is not reused while the program can still be killed.
        ChildProcess.waitForExit(of: identifier)
        return state.withLock { state in
            state = .over
            return ChildProcess.end(of: identifier)
        }
    }
}
#endif
