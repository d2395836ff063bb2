import AuthFlow
import AuthFlowSystem
import Synchronization

/// Runs a program in place of this one, with the same terminal, streams and signals.
enum AttachedProcess {
    /// Replaces this process with the program, which keeps the process ID and exits as if it had been started directly.
    /// - Parameters:
    ///   - command: The path of the program and its arguments.
    ///   - environment: The complete environment of the program.
    /// - Throws: ``AuthFlow/AuthError`` with `invalid_configuration` when the program cannot be started; `CancellationError` if
    ///   a signal has arrived. On success, this function does not return.
    static func replace(with command: [String], environment: [String: String]) throws -> Never {
        // execve(2) preserves ignored signals and the signal mask, and resets handled signals to their default actions.
        for number in [SIGINT, SIGTERM, SIGQUIT, SIGPIPE, SIGCHLD] {
            if Signals.wasIgnored(number) {
                signal(number, SIG_IGN)
            } else if number == SIGPIPE {
                signal(number, SIG_DFL)
            }
        }
        var none = sigset_t()
        unsafe sigemptyset(&none)
        unsafe pthread_sigmask(SIG_SETMASK, &none, nil)
        var (arguments, variables) = unsafe strings(command, environment)
        guard !Signals.hasArrived else { throw CancellationError() }
        unsafe execve(command[0], &arguments, &variables)
        throw failure(command, errno)
    }

    fileprivate static func failure(_ command: [String], _ number: Int32) -> AuthError {
        // The program was found before, so ENOENT refers to the interpreter of a script or to the dynamic loader.
        let reason =
            number == ENOENT
            ? "its interpreter or dynamic loader does not exist" : unsafe String(cString: strerror(number))
        return AuthError(.invalidConfiguration, "\(DisplayText.sanitized(command[0])) could not be started: \(reason).")
    }

    /// The arguments and the environment as C strings. They are never freed: execve(2) replaces the process, and posix_spawn(3) is called once.
    fileprivate static func strings(
        _ command: [String],
        _ environment: [String: String]
    ) -> ([UnsafeMutablePointer<CChar>?], [UnsafeMutablePointer<CChar>?]) {
        var arguments: [UnsafeMutablePointer<CChar>?] = unsafe []
        var variables: [UnsafeMutablePointer<CChar>?] = unsafe []
        // The program's arguments are the last arguments of this process.
        let first = Int(CommandLine.argc) - command.count
        for (index, text) in command.enumerated() {
            let argument = unsafe argument(text, at: first + index)
            unsafe arguments.append(argument)
        }
        for (name, value) in environment {
            let variable = unsafe variable(name, value)
            unsafe variables.append(variable)
        }
        return unsafe (arguments + [nil], variables + [nil])
    }

    /// An argument, as this process received it if it is unchanged: a `String` replaces bytes that are not UTF-8, which file names may contain.
    private static func argument(_ text: String, at index: Int) -> UnsafeMutablePointer<CChar>? {
        guard index >= 0, let received = unsafe CommandLine.unsafeArgv[index], unsafe String(cString: received) == text
        else { return unsafe strdup(text) }
        return unsafe strdup(received)
    }

    /// A variable, as this process received it if it is unchanged.
    private static func variable(_ name: String, _ value: String) -> UnsafeMutablePointer<CChar>? {
        guard let received = unsafe getenv(name), unsafe String(cString: received) == value
        else { return unsafe strdup("\(name)=\(value)") }
        let content = unsafe UnsafeMutableBufferPointer(start: received, count: strlen(received) + 1)
        let entry = unsafe Array("\(name)=".utf8CString.dropLast()) + Array(content)
        return unsafe strdup(entry)
    }
}

#if os(Linux)
extension AttachedProcess {
    /// The process ID of the running program, to which signals are forwarded; 0 if no program is running.
    private static let child = Atomic<pid_t>(0)

    /// The signals that have not been forwarded yet, as a bit mask.
    private static let pending = Atomic<UInt64>(0)

    /// The signals that are forwarded to the program.
    private static let forwarded = [SIGTERM, SIGHUP, SIGALRM, SIGUSR1, SIGUSR2]

    /// The signals that the terminal sends to both processes, and that are forwarded only if another process has sent them.
    private static let forwardedFromProcesses = [SIGINT, SIGQUIT]

    /// Forwards a pending signal, at most once.
    private static func forward(_ number: Int32, to identifier: pid_t) {
        let bit = UInt64(1) << UInt64(number)
        if pending.bitwiseAnd(~bit, ordering: .sequentiallyConsistent).oldValue & bit != 0 { kill(identifier, number) }
    }

    /// Forwards a signal, or stores it until the program has started. Async-signal-safe.
    private static func receive(_ number: Int32) {
        // Stored before the process ID is read, so that a signal that arrives
        // while the program is being started is forwarded here or by `run`.
        pending.bitwiseOr(UInt64(1) << UInt64(number), ordering: .sequentiallyConsistent)
        let identifier = child.load(ordering: .sequentiallyConsistent)
        if identifier > 0 { forward(number, to: identifier) }
    }

    /// Installs the handlers of the forwarded signals. A signal that was ignored when this process started remains ignored.
    private static func installHandlers() {
        for number in forwarded + forwardedFromProcesses where Signals.wasIgnored(number) { signal(number, SIG_IGN) }
        for number in forwarded where !Signals.wasIgnored(number) {
            signal(number) { AttachedProcess.receive($0) }
        }
        for number in forwardedFromProcesses where !Signals.wasIgnored(number) {
            var action = sigaction()
            action.sa_flags = SA_SIGINFO | SA_RESTART
            unsafe action.__sigaction_handler.sa_sigaction = { number, information, _ in
                // sigaction(2): the code is positive if the kernel has generated the signal, as for Ctrl-C at the terminal.
                guard unsafe (information?.pointee.si_code ?? 1) <= 0 else { return }
                AttachedProcess.receive(number)
            }
            unsafe sigaction(number, &action, nil)
        }
    }

    /// Runs the program as a child process, and waits until it exits.
    /// - Returns: Its exit status.
    static func run(_ command: [String], environment: [String: String]) async throws -> Int32 {
        try Task.checkCancellation()
        var attributes = posix_spawnattr_t()
        var (usual, all, none, before) = (sigset_t(), sigset_t(), sigset_t(), sigset_t())
        unsafe posix_spawnattr_init(&attributes)
        defer { unsafe posix_spawnattr_destroy(&attributes) }
        unsafe sigfillset(&all)
        unsafe sigfillset(&usual)
        unsafe sigemptyset(&none)
        for number in Int32(1)..<64 where Signals.wasIgnored(number) { unsafe sigdelset(&usual, number) }
        unsafe posix_spawnattr_setsigdefault(&attributes, &usual)
        unsafe posix_spawnattr_setsigmask(&attributes, &none)
        unsafe posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF) | Int16(POSIX_SPAWN_SETSIGMASK))
        var (arguments, variables) = unsafe strings(command, environment)
        // The program decides how to handle the signals, and this process exits when the program does.
        installHandlers()
        // If a signal arrived before these handlers were installed, this process exits, so the program must not start.
        guard !Signals.hasArrived else { throw CancellationError() }
        var identifier: pid_t = 0
        unsafe pthread_sigmask(SIG_BLOCK, &all, &before)
        let status = unsafe posix_spawn(&identifier, command[0], nil, &attributes, &arguments, &variables)
        if status == 0 { child.store(identifier, ordering: .sequentiallyConsistent) }
        unsafe pthread_sigmask(SIG_SETMASK, &before, nil)
        guard status == 0 else { throw failure(command, status) }
        for number in forwarded + forwardedFromProcesses { forward(number, to: identifier) }
        // Waits for the program even if this task is cancelled, because the program still uses the token file.
        return await withCheckedContinuation { continuation in
            let wait: @Sendable () -> Void = { [identifier] in
                // A signal is forwarded to the process ID, which the system may reuse once the program's status is read.
                ChildProcess.waitForExit(of: identifier)
                child.store(0, ordering: .sequentiallyConsistent)
                let status = ChildProcess.end(of: identifier)
                continuation.resume(returning: status)
            }
            if !DetachedThread.run(wait) { wait() }
        }
    }
}
#endif
