import AuthFlow
import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif
#if canImport(Glibc)
import Glibc
#endif

/// Runs a program for what it prints.
enum ProgramOutput {
    /// Runs a program to its end. Cancelling ends the program and everything it has started.
    /// - Parameters:
    ///   - command: The path of the program and its arguments.
    ///   - environment: The whole environment of the program.
    ///   - maximumSize: The most that it may print, in bytes.
    /// - Returns: Its exit status and what it printed; nil for the output when that was more.
    static func of(
        _ command: [String],
        environment: [String: String],
        maximumSize: Int
    ) async throws -> (status: Int32, bytes: [UInt8]?) {
        #if os(Linux)
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else {
            throw AuthError(.unsupported, "\(command[0]) could not be started: there are too many open files.")
        }
        let (input, output) = (ends[0], ends[1])
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        let spawned = Result { try DetachedProcess.spawn(command, environment: environment, output: output) }
        close(output)
        let child: Child
        do {
            child = Child(try spawned.get())
        } catch {
            close(input)
            throw error
        }
        return try await BlockingCall.run {
            defer { close(input) }
            let bytes = BoundedFile.contents(of: input, maximumSize: maximumSize)
            if bytes == nil { child.kill() }
            return (child.end(), bytes)
        } onCancel: {
            child.kill()
        }
        #else
        throw AuthError(.unsupported, "Programs are run for their output on Linux only.")
        #endif
    }
}

#if os(Linux)
/// A program that runs in a session of its own, until it has been awaited: its number may then be another's.
private final class Child: Sendable {
    private let identifier: pid_t
    private let hasEnded = Mutex(false)

    init(_ identifier: pid_t) { self.identifier = identifier }

    /// Ends the program and what it has started.
    func kill() {
        hasEnded.withLock { if !$0 { Glibc.kill(-identifier, SIGKILL) } }
    }

    /// Waits for its end.
    func end() -> Int32 {
        var information = siginfo_t()
        // Not reaped yet, so that the number stays its own until no one ends it any more.
        while unsafe waitid(P_PID, id_t(identifier), &information, WEXITED | WNOWAIT) == -1, errno == EINTR {}
        return hasEnded.withLock { hasEnded in
            hasEnded = true
            return DetachedProcess.end(of: identifier)
        }
    }
}
#endif
