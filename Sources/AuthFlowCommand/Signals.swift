import ArgumentParser
import AuthFlow
import Synchronization

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

/// Turns SIGINT, SIGTERM and SIGHUP into cancellation, so that ports, sockets, locks and child processes are released,
/// and a refresh in progress is stored. A second signal ends the program at once.
enum Signals {
    /// How long cancelled work may take to clean up, in milliseconds: 3 s for requests in progress, 1 s for the rest.
    private static let grace: Int32 = 4000

    /// The write end of the pipe that a handler writes to, one of the few things a handler may do (signal-safety(7)).
    private static let wakeUp = Atomic<Int32>(-1)

    /// Calls `cancel` at the first signal. Signals interrupt the thread that calls this.
    static func watch(cancel: @escaping @Sendable () -> Void) {
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else { return }
        // A handler that waits for room in the pipe would wait for itself; and no child process is to inherit the pipe.
        for index in ends.indices {
            // The low numbers are for those that a caller passes on: see authflow exec.
            let high = fcntl(ends[index], F_DUPFD_CLOEXEC, 200)
            if high >= 0 {
                close(ends[index])
                ends[index] = high
            }
            _ = fcntl(ends[index], F_SETFD, FD_CLOEXEC)
        }
        _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
        wakeUp.store(ends[1], ordering: .sequentiallyConsistent)
        let read = ends[0]
        DetachedThread.run {
            wait(for: read, milliseconds: -1)
            cancel()
            // Work that ignores cancellation must not keep the user waiting.
            wait(for: read, milliseconds: grace)
            _exit(ExitStatus.cancelled.rawValue)
        }
        // At every moment a signal either ends the program or is handled; none is lost.
        for number in [SIGINT, SIGTERM, SIGHUP] { handle(number) }
        signal(SIGPIPE, SIG_IGN)
        // Ctrl-\ ends the program as usual. Swift's runtime would treat it as a crash, and print its memory.
        signal(SIGQUIT, SIG_DFL)
        // A program inherits the blocked signals of the thread that started it.
        var all = sigset_t()
        unsafe sigfillset(&all)
        unsafe pthread_sigmask(SIG_UNBLOCK, &all, nil)
    }

    private static func handle(_ number: Int32) {
        var before = sigaction()
        // nohup(1) and similar programs start others with the signal ignored, on purpose.
        if number == SIGHUP, unsafe sigaction(number, nil, &before) == 0, isIgnored(before) { return }
        let handler: @convention(c) (Int32) -> Void = { _ in
            let errorNumber = errno
            var byte: UInt8 = 0
            _ = unsafe write(Signals.wakeUp.load(ordering: .sequentiallyConsistent), &byte, 1)
            errno = errorNumber
        }
        signal(number, handler)
    }

    private static func isIgnored(_ action: sigaction) -> Bool {
        #if canImport(Darwin)
        let handler = unsafe action.__sigaction_u.__sa_handler
        #else
        let handler = unsafe action.__sigaction_handler.sa_handler
        #endif
        return unsafe unsafeBitCast(handler, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
    }

    /// Waits until a handler has written to the pipe, and reads what it wrote.
    private static func wait(for descriptor: Int32, milliseconds: Int32) {
        var byte: UInt8 = 0
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        while true {
            let ready = unsafe poll(&entry, 1, milliseconds)
            if ready < 0, errno == EINTR { continue }
            if ready > 0 { _ = unsafe read(descriptor, &byte, 1) }
            return
        }
    }
}
