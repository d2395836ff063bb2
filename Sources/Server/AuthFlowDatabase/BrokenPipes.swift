#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// Writing to a connection that its peer has closed raises SIGPIPE in the writing thread, which terminates the whole process.
enum BrokenPipes {
    /// Blocks SIGPIPE in the calling thread, so that such writes fail instead: hiredis does not suppress the signal itself.
    static func failInThisThread() {
        var signals = sigset_t()
        unsafe sigemptyset(&signals)
        unsafe sigaddset(&signals, SIGPIPE)
        unsafe pthread_sigmask(SIG_BLOCK, &signals, nil)
    }
}
