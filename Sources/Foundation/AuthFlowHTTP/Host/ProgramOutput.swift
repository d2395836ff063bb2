import AuthFlowEssentials
import Synchronization

#if canImport(Glibc)
import Glibc
#endif

/// Runs a program for what it prints.
package enum ProgramOutput {
    /// Runs a program to its end. Cancelling ends the program and everything it has started.
    /// - Parameters:
    ///   - command: The path of the program and its arguments.
    ///   - environment: The whole environment of the program.
    ///   - maximumSize: The most that it may print, in bytes.
    /// - Returns: Its exit status and what it printed; nil for the output when that was more.
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
        throw AuthError(.unsupported, "Programs are run for their output on Linux only.")
        #endif
    }

    /// Runs a program to its end on this thread, where a task cannot be waited for.
    /// - Parameters:
    ///   - command: The path of the program and its arguments.
    ///   - environment: The whole environment of the program.
    ///   - maximumSize: The most that it may print, in bytes.
    ///   - limit: How long it may run. It is ended then, with everything it has started.
    /// - Returns: Its exit status and what it printed; nil for the output when that was more, or it took too long.
    package static func waiting(
        for command: [String],
        environment: [String: String],
        maximumSize: Int,
        limit: Duration
    ) throws -> (status: Int32, bytes: [UInt8]?) {
        #if os(Linux)
        try Child().run(command, environment: environment, maximumSize: maximumSize, until: .now + limit)
        #else
        throw AuthError(.unsupported, "Programs are run for their output on Linux only.")
        #endif
    }
}

#if os(Linux)
/// A program that runs in a session of its own, until it has been awaited: its number may then be another's.
private final class Child: Sendable {
    private enum State {
        case notStarted
        case running(pid_t)
        /// Whether it was ended from outside or by itself, it is not to be ended any more.
        case over
    }

    private let state = Mutex(State.notStarted)

    /// How long a program that has ended may leave its output open, in milliseconds: what it started may have it still.
    private static let patience: Int32 = 100

    /// Ends the program and what it has started, also when it has not been started yet.
    func kill() {
        state.withLock { state in
            if case .running(let identifier) = state { Glibc.kill(-identifier, SIGKILL) }
            if case .notStarted = state { state = .over }
        }
    }

    /// Runs the program to its end, on a thread that may wait.
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
                    state = .running(try ChildProgram.spawn(command, environment: environment, output: output))
                } catch {
                    throw AuthError(.assertionUnusable, error.message, underlyingError: error)
                }
            }
        }
        let bytes = contents(of: input, maximumSize: maximumSize, until: end)
        if bytes == nil { kill() }
        return (awaitEnd(), bytes)
    }

    /// What the program prints until it ends; nil when that is more than allowed. A program that it leaves behind may keep the pipe
    /// open, so that the end of the program counts and not that of the pipe.
    private func contents(of input: Int32, maximumSize: Int, until end: ContinuousClock.Instant?) -> [UInt8]? {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16 * 1024)
        while bytes.count <= maximumSize {
            var watched = pollfd(fd: input, events: Int16(POLLIN), revents: 0)
            let hasEnded = hasEnded
            if let end, .now > end { return nil }
            let ready = unsafe poll(&watched, 1, Self.patience)
            if ready == 0 {
                if hasEnded { return bytes }
                continue
            }
            if ready < 0, errno == EINTR { continue }
            let count = unsafe buffer.withUnsafeMutableBytes { unsafe read(input, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return bytes }
            bytes += buffer[..<count]
        }
        return nil
    }

    private var hasEnded: Bool {
        state.withLock { state in
            guard case .running(let identifier) = state else { return true }
            var information = unsafe siginfo_t()
            return unsafe waitid(P_PID, id_t(identifier), &information, WEXITED | WNOWAIT | WNOHANG) == 0
                && information.si_signo == SIGCHLD
        }
    }

    /// Waits for its end.
    private func awaitEnd() -> Int32 {
        guard case .running(let identifier) = state.withLock({ $0 }) else { return 1 }
        var information = unsafe siginfo_t()
        // Not reaped yet, so that the number stays its own until it is not ended any more.
        while unsafe waitid(P_PID, id_t(identifier), &information, WEXITED | WNOWAIT) == -1, errno == EINTR {}
        return state.withLock { state in
            state = .over
            return ChildProgram.end(of: identifier)
        }
    }
}
#endif
