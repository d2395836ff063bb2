import ArgumentParser
import AuthFlow
import AuthFlowEssentials
import AuthFlowSystem
import Synchronization

/// Turns SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGALRM into cancellation, so that ports, sockets, locks and child processes are released, and a
/// refresh in progress is completed and stored. Pressing Ctrl-C again ends the program immediately.
enum Signals {
    /// The time limit for cancelled work.
    private static let grace = Duration.seconds(4)

    /// The time limit for the response to a pending refresh request: the time limit of a request, plus the time to
    /// store the response.
    private static let longestGrace = Duration.seconds(35)

    /// The time during which a signal counts as a duplicate of the first: timeout(1) sends each signal twice, as do a
    /// closing terminal and its shell.
    private static let copies = Duration.seconds(1)

    /// The ends of the self-pipe: the signal handler writes to it, because write(2) is async-signal-safe
    /// (signal-safety(7)).
    private static let wakeUp = Atomic<Int32>(-1)
    private static let reader = Atomic<Int32>(-1)

    private static let arrived = Atomic(false)

    /// The signals that were ignored when this process started, as a bit mask.
    private static let ignored = Atomic<UInt64>(0)

    /// Whether a signal was ignored when this process started. A program that this process starts must also ignore it: nohup(1), systemd
    /// (SIGPIPE) and shells (`trap ''`, background jobs) deliberately start programs with ignored signals.
    static func wasIgnored(_ number: Int32) -> Bool {
        ignored.load(ordering: .sequentiallyConsistent) & UInt64(1) << UInt64(number) != 0
    }

    /// Whether a signal has been received.
    static var hasArrived: Bool { arrived.load(ordering: .sequentiallyConsistent) }

    /// Installs the handlers.
    /// - Returns: Whether the handlers were installed; false when no more files can be opened.
    static func install() -> Bool {
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else { return false }
        // A handler that blocked on a full pipe would deadlock, and a child process must not inherit the pipe.
        for index in ends.indices {
            // Low numbers are reserved for descriptors that a caller passes on: see authflow exec.
            let high = fcntl(ends[index], F_DUPFD_CLOEXEC, 200)
            if high >= 0 {
                close(ends[index])
                ends[index] = high
            }
            _ = fcntl(ends[index], F_SETFD, FD_CLOEXEC)
        }
        _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
        reader.store(ends[0], ordering: .sequentiallyConsistent)
        wakeUp.store(ends[1], ordering: .sequentiallyConsistent)
        for number in Int32(1)..<64 where isIgnored(number) {
            ignored.bitwiseOr(UInt64(1) << UInt64(number), ordering: .sequentiallyConsistent)
        }
        // Includes SIGQUIT (Ctrl-\): Swift's runtime would treat it as a crash, and its default action would abort a
        // refresh in progress.
        for number in [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM] { handle(number) }
        signal(SIGPIPE, SIG_IGN)
        // While SIGCHLD is ignored, the system discards the exit statuses of child processes (wait(2)).
        signal(SIGCHLD, SIG_DFL)
        // The default action of these signals aborts a refresh. A program that replaces this one receives them, because execve(2) resets handlers.
        for number in [SIGUSR1, SIGUSR2] where !wasIgnored(number) { signal(number) { _ in } }
        // A program inherits the signal mask of the thread that started it, and that mask may block signals.
        var all = sigset_t()
        unsafe sigfillset(&all)
        unsafe pthread_sigmask(SIG_UNBLOCK, &all, nil)
        return true
    }

    /// Calls `cancel` at the first signal. Exits when the time limit for cancelled work is reached, or when the user presses Ctrl-C again.
    static func run(cancel: () -> Void) -> Never {
        _ = next(until: nil)
        let first = ContinuousClock.now
        cancel()
        var limit = grace
        while true {
            switch next(until: first + limit) {
            case nil where limit < longestGrace && UnfinishedClients.hasPendingResponse: limit = longestGrace
            case nil: _exit(ExitStatus.cancelled.rawValue)
            case SIGINT?, SIGQUIT?:
                if first.duration(to: .now) > copies { _exit(ExitStatus.cancelled.rawValue) }
            default: continue
            }
        }
    }

    /// Waits for the next signal; nil if none arrives before `end`.
    private static func next(until end: ContinuousClock.Instant?) -> Int32? {
        var byte: UInt8 = 0
        var entry = pollfd(fd: reader.load(ordering: .sequentiallyConsistent), events: Int16(POLLIN), revents: 0)
        while true {
            // Clamped first, because after weeks of system sleep the negative remainder might not fit into an `Int32`.
            let rest = end.map { Int32(max(0, ContinuousClock.now.duration(to: $0) / .milliseconds(1))) } ?? -1
            let ready = unsafe poll(&entry, 1, rest)
            if ready == 0 { return nil }
            if ready > 0, unsafe read(entry.fd, &byte, 1) == 1 { return Int32(byte) }
        }
    }

    private static func handle(_ number: Int32) {
        if [SIGHUP, SIGALRM].contains(number), wasIgnored(number) { return }
        let handler: @convention(c) (Int32) -> Void = { number in
            let errorNumber = errno
            var byte = UInt8(truncatingIfNeeded: number)
            Signals.arrived.store(true, ordering: .sequentiallyConsistent)
            _ = unsafe write(Signals.wakeUp.load(ordering: .sequentiallyConsistent), &byte, 1)
            errno = errorNumber
        }
        signal(number, handler)
    }

    private static func isIgnored(_ number: Int32) -> Bool {
        var action = sigaction()
        guard unsafe sigaction(number, nil, &action) == 0 else { return false }
        #if canImport(Darwin)
        let handler = unsafe action.__sigaction_u.__sa_handler
        #else
        let handler = unsafe action.__sigaction_handler.sa_handler
        #endif
        return unsafe unsafeBitCast(handler, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
    }
}
