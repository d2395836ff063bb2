#if os(Linux)
import AuthFlowEssentials
package import AuthFlowSystem

/// Starts child processes that do not inherit the streams, terminal, signal handling or environment of this process.
package enum ChildProcess {
    /// `POSIX_SPAWN_SETSID` from spawn.h of glibc and musl, not visible to Swift because GNU extensions are disabled.
    private static let newSession: Int32 = 0x80

    /// Starts a program in a new session.
    ///
    /// Foundation's `Process` cannot start a program in a new session, which prevents Ctrl-C in the terminal from
    /// terminating it, and cannot reset ignored signals to their default actions: a child process inherits the signals
    /// that a command-line tool ignores.
    /// - Parameter output: The descriptor for its standard output; nil to discard it.
    package static func spawn(
        _ command: [String],
        environment: [String: String],
        output: Int32? = nil
    ) throws(AuthError) -> pid_t {
        var attributes = posix_spawnattr_t()
        var actions = unsafe posix_spawn_file_actions_t()
        var signals = sigset_t()
        var none = sigset_t()
        unsafe posix_spawnattr_init(&attributes)
        unsafe posix_spawn_file_actions_init(&actions)
        defer {
            unsafe posix_spawnattr_destroy(&attributes)
            unsafe posix_spawn_file_actions_destroy(&actions)
        }
        unsafe sigfillset(&signals)
        unsafe sigemptyset(&none)
        unsafe posix_spawnattr_setsigdefault(&attributes, &signals)
        unsafe posix_spawnattr_setsigmask(&attributes, &none)
        let flags = Int32(POSIX_SPAWN_SETSIGDEF) | Int32(POSIX_SPAWN_SETSIGMASK) | newSession
        unsafe posix_spawnattr_setflags(&attributes, Int16(flags))
        for (descriptor, mode) in [(0, O_RDONLY), (1, O_WRONLY), (2, O_WRONLY)] as [(Int32, Int32)] {
            unsafe posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", mode, 0)
        }
        if let output { unsafe posix_spawn_file_actions_adddup2(&actions, output, 1) }
        unsafe closeOtherDescriptors(&actions)

        var arguments = unsafe command.map { unsafe strdup($0) } + [nil]
        var variables = unsafe environment.map { unsafe strdup("\($0.key)=\($0.value)") } + [nil]
        let strings = unsafe arguments + variables
        defer { for index in unsafe strings.indices { unsafe free(strings[index]) } }
        var identifier: pid_t = 0
        var status = unsafe posix_spawn(&identifier, command[0], &actions, &attributes, &arguments, &variables)
        // Executing a newly written script fails with ETXTBSY while another thread's forked child still holds an
        // inherited descriptor that is open for writing.
        for _ in 0..<20 where status == ETXTBSY {
            usleep(5_000)
            status = unsafe posix_spawn(&identifier, command[0], &actions, &attributes, &arguments, &variables)
        }
        guard status == 0 else {
            let reason = unsafe String(cString: strerror(status))
            throw AuthError(.userAgentFailed, "\(command[0]) could not be started: \(reason)")
        }
        return identifier
    }

    /// Waits for a program to exit without reaping it, so that its process ID is not reused.
    package static func waitForExit(of identifier: pid_t) {
        var information = unsafe siginfo_t()
        while unsafe waitid(P_PID, id_t(identifier), &information, WEXITED | WNOWAIT) == -1, errno == EINTR {}
    }

    /// Waits for a program to exit and reaps it, so that it does not remain in the process table as a zombie.
    /// - Returns: Its exit status.
    package static func end(of identifier: pid_t) -> Int32 {
        var status: Int32 = 0
        while unsafe waitpid(identifier, &status, 0) == -1 {
            // The status is unknown when SIGCHLD is ignored.
            guard errno == EINTR else { return 1 }
        }
        // wait(2): the low seven bits contain the signal that terminated it; bits 8 to 15 contain its exit status.
        return status & 0x7F == 0 ? (status >> 8) & 0xFF : 128 + status & 0x7F
    }

    /// Prevents the program from inheriting the open descriptors of this process, such as the loopback socket.
    private static func closeOtherDescriptors(_ actions: UnsafeMutablePointer<posix_spawn_file_actions_t>) {
        // A GNU extension (glibc 2.34), looked up at run time. It closes the descriptors that are open when the
        // program starts, including any that another thread has just opened.
        typealias CloseFrom = @convention(c) (UnsafeMutablePointer<posix_spawn_file_actions_t>, Int32) -> Int32
        if let address = unsafe dlsym(nil, "posix_spawn_file_actions_addclosefrom_np") {
            let closeFrom = unsafe unsafeBitCast(address, to: CloseFrom.self)
            if unsafe closeFrom(actions, 3) == 0 { return }
        }
        for descriptor in openDescriptors where descriptor > 2 {
            unsafe posix_spawn_file_actions_addclose(actions, descriptor)
        }
    }

    private static var openDescriptors: [Int32] {
        ((try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []).compactMap { Int32($0) }
    }
}
#endif
