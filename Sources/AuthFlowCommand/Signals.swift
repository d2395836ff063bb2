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

/// Turns Ctrl-C, a request to terminate and the end of the terminal into cancellation, so that ports, sockets, locks and
/// children are freed, and a refresh under way is written down. A second signal ends the program at once.
enum Signals {
    /// How long cancelled work may take to clean up, in milliseconds: what is under way has three seconds, and the rest one.
    private static let grace: Int32 = 4000

    /// The writing end of a pipe, which a handler writes to: that is one of the few things a handler may do (signal-safety(7)).
    private static let wakeUp = Atomic<Int32>(-1)

    /// Calls `cancel` at the first signal. The thread that calls this is the one that signals interrupt.
    static func watch(cancel: @escaping @Sendable () -> Void) {
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else { return }
        // A handler that waits for room would wait for itself; and no child is to keep the pipe.
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
        wakeUp.store(ends[1], ordering: .sequentiallyConsistent)
        let read = ends[0]
        DetachedThread.run {
            wait(for: read, milliseconds: -1)
            cancel()
            // What does not react to cancellation must not hold the user up.
            wait(for: read, milliseconds: grace)
            _exit(ExitStatus.cancelled.rawValue)
        }
        // From one call to the next a signal ends the program, or is handled. There is no moment in which one is lost.
        for number in [SIGINT, SIGTERM, SIGHUP] { handle(number) }
        signal(SIGPIPE, SIG_IGN)
        // Ctrl-\ ends the program as it ends others. Swift's runtime would take it for a crash, and show its memory.
        signal(SIGQUIT, SIG_DFL)
        // A program is started with the signals blocked that were in the thread that started it.
        var all = sigset_t()
        unsafe sigfillset(&all)
        unsafe pthread_sigmask(SIG_UNBLOCK, &all, nil)
    }

    private static func handle(_ number: Int32) {
        var before = sigaction()
        // nohup(1) and its kin start a program with the signal ignored, and mean it.
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

    /// Waits until a signal has been noted, and takes the note.
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
