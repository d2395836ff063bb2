import AuthFlow
import Foundation

/// A program that is started and left to itself: without our streams, our terminal, our signals or our environment.
enum DetachedProcess {
    /// Starts a program.
    /// - Parameters:
    ///   - command: The path of the program and its arguments.
    ///   - environment: All that it is given of the environment.
    static func start(_ command: [String], environment: [String: String]) throws(AuthError) {
        #if os(Linux)
        let identifier = try spawn(command, environment: environment)
        // Somebody has to take note of its end, or it stays in the process table.
        Thread.detachNewThread {
            var status: Int32 = 0
            while unsafe waitpid(identifier, &status, 0) == -1, errno == EINTR {}
        }
        #else
        let process = Process()
        process.executableURL = URL(fileURLWithPath: command[0])
        process.arguments = Array(command.dropFirst())
        process.environment = environment
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        do {
            try process.run()
        } catch {
            throw AuthError(.userAgentFailed, "\(command[0]) could not be started", underlyingError: error)
        }
        #endif
    }
}
