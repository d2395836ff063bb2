import ArgumentParser
import AuthFlow
import AuthFlowSystem

/// The entry point: parses the command line, runs the command so that signals cancel it, and exits with a documented
/// status.
@main enum Main {
    /// Deliberately synchronous: an asynchronous `main` hands its thread to a queue that is not needed here, which
    /// costs another thread and makes the system load a library to terminate the main thread.
    static func main() {
        ProcessMemory.disableCoreDumps()
        StandardStreams.reopenClosed()
        OpenDescriptors.reserve(for: CommandLine.arguments)
        // The signal handlers are installed before the command runs, because the default action of a signal could terminate
        // the process after a refresh token was sent.
        guard OpenDescriptors.areAvailable, Signals.install() else {
            Terminal.printMessage("authflow: The limit on open files is too low. See: ulimit -n")
            terminate(with: ExitStatus.failure)
        }
        let work = Task.detached { try await runCommand() }
        Task.detached { await end(with: work) }
        Signals.run {
            UnfinishedClients.stopSending()
            work.cancel()
        }
    }

    /// Waits for the command, reports its outcome, and exits.
    private static func end(with work: Task<Void, any Error>) async {
        let status: ExitCode
        do {
            try await work.value
            status = ExitStatus.success
            // A bridge exits when its host does, so requests may still be in progress.
            await UnfinishedClients.drainBeforeExit()
        } catch {
            // A program that prints a secret is terminated by the cancellation, and its configuration value cannot throw another error.
            let error: any Error = work.isCancelled && error is ConfigurationError ? CancellationError() : error
            // A refresh token that has been sent may already be invalid, so the response is stored first.
            // The error explains that the tokens could not be stored.
            let storageCodes: Set<AuthError.Code> = [
                .storageFailed, .storeDamaged, .credentialUnusable, .keyUnavailable, .leaseBusy, .leaseLost,
            ]
            let isStorageError = (error as? AuthError).map { storageCodes.contains($0.code) } ?? false
            let messages = UnfinishedClients.isBusy && !isStorageError ? UnfinishedClients.messages : nil
            if let began = messages?.began { Terminal.printMessage(began) }
            let isDone = await UnfinishedClients.drain()
            if let end = isDone ? messages?.done : messages?.timedOut { Terminal.printMessage(end) }
            status = ExitStatus.of(error)
            report(error, status)
        }
        guard !Terminal.hasFailed else {
            if !Terminal.isBrokenPipe {
                Terminal.printMessage("authflow: The result could not be written to standard output.")
            }
            terminate(with: status == ExitStatus.success ? ExitStatus.failure : status)
        }
        terminate(with: status)
    }

    private static func runCommand() async throws {
        if let command = DirectCommand(CommandLine.arguments.dropFirst()) { return try await command.run() }
        let command: any ParsableCommand
        let arguments = ProgramName.arguments(CommandLine.arguments)
        // If a library changes the environment while it is being loaded, `CommandLine.arguments` may be empty. The help must
        // not be printed in that case.
        guard !arguments.isEmpty else { throw CommandLineError(error: ValidationError("No command was specified.")) }
        if let misspelled = MisspelledCommand(arguments) { throw misspelled }
        ScreenWidth.requireUsable()
        do {
            command = try AuthFlowCommand.parseAsRoot(arguments)
        } catch {
            throw CommandLineError(error: error)
        }
        do {
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                var command = command
                try command.run()
            }
        } catch  where AuthFlowCommand.exitCode(for: error).isSuccess {
            // A command that is run without its subcommand throws a help request, whose exit status is 0.
            throw CommandLineError(error: error)
        }
    }

    private static func report(_ error: any Error, _ status: ExitCode) {
        if status != ExitStatus.success { FailureReport(error)?.print() }
        switch status {
        case ExitStatus.success: Terminal.result(ExitStatus.message(for: error))
        case ExitStatus.cancelled: Terminal.printMessage("Cancelled.")
        case _ where error is HelperDeclined: break
        // The command has already reported which tokens it could not revoke, or which session it could not end.
        case ExitStatus.signedOutLocallyOnly: break
        case ExitStatus.usage where error is CommandLineError || error is MisspelledCommand:
            Terminal.printMessage(ExitStatus.message(for: error))
        default: Terminal.printMessage("authflow: \(ExitStatus.message(for: error))")
        }
    }

    /// Exits without running the libraries' exit handlers: OpenSSL's handler frees memory that the network thread uses.
    private static func terminate(with code: ExitCode) -> Never {
        _ = fflush(nil)
        _exit(code.rawValue)
    }
}

/// Git and Docker find their helpers by program name, so this program is installed under several names.
enum ProgramName {
    private static let helpers = ["git-credential-authflow": "git", "docker-credential-authflow": "docker"]

    /// The arguments, as if the tool had been invoked under its main name.
    /// - Parameter command: The arguments, including the program name.
    static func arguments(_ command: [String]) -> [String] {
        let name = command.first?.split(separator: "/").last.map { String($0) } ?? ""
        let prefix = helpers[name].map { ["credential", $0] } ?? []
        return prefix + command.dropFirst()
    }
}

/// The three standard streams.
enum StandardStreams {
    /// Opens the standard streams that were closed when the program started. Otherwise the next opened file would get
    /// the descriptor of a standard stream, and output would be written to that file.
    static func reopenClosed() {
        for descriptor in Int32(0)...2 where fcntl(descriptor, F_GETFD) == -1 {
            // open(2) returns the lowest free descriptor. It is read-only, so that writing a result fails with an error.
            _ = unsafe open("/dev/null", O_RDONLY)
        }
    }
}

/// The outcome of the command-line parser: a usage error, or the requested help.
struct CommandLineError: CommandFailure {
    let error: any Error

    // Help is not an error; everything else that the parser throws is a usage error.
    var status: ExitCode { AuthFlowCommand.exitCode(for: error).isSuccess ? ExitStatus.success : ExitStatus.usage }
    var message: String { AuthFlowCommand.fullMessage(for: error) }
}

/// The command and its subcommands.
struct AuthFlowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "authflow",
        abstract:
            "Sign in with any OAuth 2.0 or OpenID Connect provider, configured from a file or with options.",
        discussion: """
            Results go to standard output, everything else to standard error.
            Exit status: 0 ok, 1 failure, 2 usage or configuration, 4 login required, 5 denied, 6 timeout, 7 network or \
            discovery, 8 storage, 9 signed out only on this machine, 130 cancelled.
            """,
        version: "0.2.0",
        groupedSubcommands: [
            CommandGroup(
                name: "Sign in",
                subcommands: [
                    InitCommand.self, LoginCommand.self, StatusCommand.self, AccountsCommand.self, UserInfoCommand.self,
                    LogoutCommand.self,
                ]
            ),
            CommandGroup(
                name: "Use tokens",
                subcommands: [
                    TokenCommand.self, ExecCommand.self, CurlCommand.self, CredentialCommand.self, MCPCommand.self,
                ]
            ),
            CommandGroup(
                name: "Set up and troubleshoot",
                subcommands: [
                    ConfigCommand.self, DoctorCommand.self, DiscoverCommand.self, AccessTokenCommand.self,
                    RegisterCommand.self, ClientMetadataCommand.self, KeysCommand.self, StoreCommand.self,
                    SchemeCommand.self, HandleRedirectCommand.self,
                ]
            ),
            CommandGroup(name: "Try", subcommands: [TryCommand.self, DevIDPCommand.self]),
        ]
    )
}
