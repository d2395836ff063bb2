package import AuthFlow

#if os(macOS)
import Foundation
#endif

/// Starts programs that are detached from this process: they do not share its streams, terminal, signals or
/// environment.
package enum DetachedProcess {
    /// Starts a program.
    /// - Parameters:
    ///   - command: The path of the program and its arguments.
    ///   - environment: The complete environment of the program.
    ///   - ended: Called with the program's exit status when it exits, if this process is still running.
    package static func start(
        _ command: [String],
        environment: [String: String],
        ended: @escaping @Sendable (_ status: Int32) -> Void
    ) throws(AuthError) {
        #if os(Linux)
        let identifier = try ChildProcess.spawn(command, environment: environment)
        DetachedThread.run { ended(ChildProcess.end(of: identifier)) }
        #elseif os(macOS)
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
        #else
        throw AuthError(.userAgentFailed, "\(command[0]) could not be started: apps cannot start programs here")
        #endif
    }
}
