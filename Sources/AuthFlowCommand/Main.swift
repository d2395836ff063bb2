import ArgumentParser
import AuthFlow

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif
#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// The entry point: parses the command line, runs the command so that signals cancel it, and exits with a documented
/// status.
@main enum Main {
    /// Not an asynchronous `main`, which hands its thread over to a queue that is not needed here: that takes a thread more, and has the
    /// system load a library for ending this one.
    static func main() {
        ProcessMemory.keepToItself()
        StandardStreams.openMissing()
        let work = Task.detached { try await runCommand() }
        Signals.watch { work.cancel() }
        Task.detached { await end(with: work) }
        while true { pause() }
    }

    /// Waits for the command, says how it ended, and exits.
    private static func end(with work: Task<Void, any Error>) async {
        let status: ExitCode
        do {
            try await work.value
            status = ExitStatus.success
        } catch {
            // A refresh whose answer is on its way has used up the old refresh token: it is written down first.
            if UnfinishedClients.isBusy {
                Terminal.talk(
                    "Finishing what was sent to the provider, so that no token is lost. Ctrl-C again ends at once, and may end your session."
                )
                Terminal.talk(
                    await UnfinishedClients.drain()
                        ? "It is finished, and what it brought is stored: authflow status"
                        : "It could not be finished in time. The next command may have to sign in again."
                )
            }
            status = ExitStatus.of(error)
            report(error, status)
        }
        guard !Terminal.hasFailed else {
            Terminal.talk("authflow: The result could not be written to standard output.")
            leave(with: status == ExitStatus.success ? ExitStatus.failure : status)
        }
        leave(with: status)
    }

    private static func runCommand() async throws {
        if let command = DirectCommand(CommandLine.arguments.dropFirst()) { return try await command.run() }
        let command: any ParsableCommand
        do {
            command = try AuthFlowCommand.parseAsRoot()
        } catch {
            throw CommandLineError(error: error)
        }
        if var asynchronous = command as? any AsyncParsableCommand {
            try await asynchronous.run()
        } else {
            var command = command
            try command.run()
        }
    }

    private static func report(_ error: any Error, _ status: ExitCode) {
        switch status {
        case ExitStatus.success: Terminal.result(ExitStatus.message(for: error))
        case ExitStatus.cancelled: Terminal.talk("Cancelled.")
        // What was not ended has been said already.
        case ExitStatus.signedOutHereOnly: break
        case ExitStatus.usage where error is CommandLineError: Terminal.talk(ExitStatus.message(for: error))
        default: Terminal.talk("authflow: \(ExitStatus.message(for: error))")
        }
    }

    /// Leaves without what libraries have registered for the end: OpenSSL would free what the thread of the network still uses.
    private static func leave(with code: ExitCode) -> Never {
        _ = unsafe fflush(nil)
        _exit(code.rawValue)
    }
}

/// The three streams that every program has.
enum StandardStreams {
    /// Opens those that the program was started without: the next file that is opened would get the number of one, and what is
    /// printed would be written into it.
    static func openMissing() {
        for descriptor in Int32(0)...2 where fcntl(descriptor, F_GETFD) == -1 {
            // The lowest free number is this one. It is not open for writing, so a result that has no place to go is an error.
            _ = unsafe open("/dev/null", O_RDONLY)
        }
    }
}

/// What the parser of the command line has to say: a mistake, or the help that was asked for.
struct CommandLineError: Error {
    let error: any Error
}

/// The command and its subcommands.
struct AuthFlowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "authflow",
        abstract: "Signs you in with any OAuth 2.0 or OpenID Connect provider, from a configuration file.",
        discussion: """
            Results go to standard output, everything else to standard error.
            Exit status: 0 ok, 1 failure, 2 usage or configuration, 4 login required, 5 denied, 6 timeout, 7 network or \
            discovery, 8 storage, 9 signed out here and not everywhere, 130 cancelled.
            """,
        version: "0.2.0",
        subcommands: [
            LoginCommand.self, StatusCommand.self, AccountsCommand.self, TokenCommand.self, UserInfoCommand.self,
            LogoutCommand.self, SchemeCommand.self, HandleRedirectCommand.self, DoctorCommand.self,
            DiscoverCommand.self, RegisterCommand.self, ConfigCommand.self, DevIDPCommand.self, TryCommand.self,
        ]
    )
}
