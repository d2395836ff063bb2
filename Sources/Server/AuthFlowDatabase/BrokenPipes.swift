#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// Writing to a connection that the other side has closed raises SIGPIPE in the thread that writes, which ends the whole process.
enum BrokenPipes {
    /// Makes such a write fail instead, in the calling thread. hiredis writes without asking for that.
    static func failInThisThread() {
        var signals = sigset_t()
        unsafe sigemptyset(&signals)
        unsafe sigaddset(&signals, SIGPIPE)
        unsafe pthread_sigmask(SIG_BLOCK, &signals, nil)
    }
}
