import Foundation

/// A program that is started and left to itself: without our streams, our terminal, our signals or our environment.
package enum DetachedProcess {
    /// Starts a program.
    /// - Parameters:
    ///   - command: The path of the program and its arguments.
    ///   - environment: All that it is given of the environment.
    ///   - ended: Called with its exit status when it has ended, if this program is still there.
    package static func start(
        _ command: [String],
        environment: [String: String],
        ended: @escaping @Sendable (_ status: Int32) -> Void
    ) throws(AuthError) {
        #if os(Linux)
        let identifier = try spawn(command, environment: environment)
        // Somebody has to take note of its end, or it stays in the process table.
        DetachedThread.run {
            var status: Int32 = 0
            while unsafe waitpid(identifier, &status, 0) == -1, errno == EINTR {}
            // wait(2): the low seven bits are the signal that ended it, the next eight its exit status.
            ended(status & 0x7F == 0 ? (status >> 8) & 0xFF : 128 + status & 0x7F)
        }
        #else
        let process = Process()
        process.executableURL = URL(fileURLWithPath: command[0])
        process.arguments = Array(command.dropFirst())
        process.environment = environment
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        process.terminationHandler = { ended($0.terminationStatus) }
        do {
            try process.run()
        } catch {
            throw AuthError(.userAgentFailed, "\(command[0]) could not be started", underlyingError: error)
        }
        #endif
    }
}
