import AuthFlow
import AuthFlowEssentials
import Synchronization

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// Runs a program in the place of this one: with its terminal, its streams and its signals.
enum AttachedProcess {
    /// Takes the program's place: it has this process' number, and ends as if it had been started itself.
    /// - Parameters:
    ///   - command: The path of the program and its arguments.
    ///   - environment: The whole environment of the program.
    /// - Throws: ``AuthFlow/AuthError`` with `invalid_configuration` when it cannot be started. Otherwise this does not return.
    static func replace(with command: [String], environment: [String: String]) throws -> Never {
        // What is ignored stays ignored in the program, and what is blocked stays blocked.
        signal(SIGPIPE, SIG_DFL)
        var none = sigset_t()
        unsafe sigemptyset(&none)
        unsafe pthread_sigmask(SIG_SETMASK, &none, nil)
        var (arguments, variables) = unsafe strings(command, environment)
        guard !Signals.hasCome else { throw CancellationError() }
        unsafe execve(command[0], &arguments, &variables)
        throw failure(command, errno)
    }

    fileprivate static func failure(_ command: [String], _ number: Int32) -> AuthError {
        AuthError(
            .invalidConfiguration,
            "\(DisplayText.sanitized(command[0])) could not be started: \(unsafe String(cString: strerror(number)))."
        )
    }

    /// The arguments and the environment as C has them. They are never freed: what they are for ends the process or is called once.
    fileprivate static func strings(
        _ command: [String],
        _ environment: [String: String]
    ) -> ([UnsafeMutablePointer<CChar>?], [UnsafeMutablePointer<CChar>?]) {
        unsafe (
            command.map { unsafe strdup($0) } + [nil],
            environment.map { unsafe strdup("\($0.key)=\($0.value)") } + [nil]
        )
    }
}

#if os(Linux)
extension AttachedProcess {
    /// The program that runs, for the signals that are meant for it; 0 when there is none.
    private static let child = Atomic<pid_t>(0)

    /// A signal that has come before there was one; 0 for none.
    private static let early = Atomic<Int32>(0)

    /// Runs the program to its end beside this one.
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
        // nohup(1) and similar programs start others with the signal ignored, on purpose.
        let ignoresHangup = isIgnored(SIGHUP)
        if ignoresHangup { unsafe sigdelset(&usual, SIGHUP) }
        unsafe posix_spawnattr_setsigdefault(&attributes, &usual)
        unsafe posix_spawnattr_setsigmask(&attributes, &none)
        unsafe posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF) | Int16(POSIX_SPAWN_SETSIGMASK))
        var (arguments, variables) = unsafe strings(command, environment)
        // A terminal sends its signals to both. The program decides what they mean, and this one ends when it does.
        signal(SIGINT, SIG_IGN)
        signal(SIGQUIT, SIG_IGN)
        for number in ignoresHangup ? [SIGTERM] : [SIGTERM, SIGHUP] {
            signal(number) { number in
                let identifier = AttachedProcess.child.load(ordering: .sequentiallyConsistent)
                // One that comes before the program runs is for the program too.
                if identifier > 0 {
                    kill(identifier, number)
                } else {
                    AttachedProcess.early.store(number, ordering: .sequentiallyConsistent)
                }
            }
        }
        // One that came before these handlers ends this process, and must not leave the program behind.
        guard !Signals.hasCome else { throw CancellationError() }
        var identifier: pid_t = 0
        unsafe pthread_sigmask(SIG_BLOCK, &all, &before)
        let status = unsafe posix_spawn(&identifier, command[0], nil, &attributes, &arguments, &variables)
        if status == 0 { child.store(identifier, ordering: .sequentiallyConsistent) }
        unsafe pthread_sigmask(SIG_SETMASK, &before, nil)
        guard status == 0 else { throw failure(command, status) }
        let missed = early.load(ordering: .sequentiallyConsistent)
        if missed != 0 { kill(identifier, missed) }
        // The program is waited for whatever happens to this task: it has the file.
        return await withCheckedContinuation { continuation in
            let wait: @Sendable () -> Void = { [identifier] in
                let status = ChildProgram.end(of: identifier)
                child.store(0, ordering: .sequentiallyConsistent)
                continuation.resume(returning: status)
            }
            if !DetachedThread.run(wait) { wait() }
        }
    }

    private static func isIgnored(_ number: Int32) -> Bool {
        var action = sigaction()
        guard unsafe sigaction(number, nil, &action) == 0 else { return false }
        return unsafe unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self)
            == unsafeBitCast(SIG_IGN, to: Int.self)
    }
}
#endif
