import AuthFlowSystem

/// Suppresses SIGPIPE. Writing to a connection that its peer has closed raises this signal in the writing thread,
/// and by default the signal terminates the process.
package enum BrokenPipeSignal {
    /// Blocks SIGPIPE in the calling thread, so that such writes fail with an error instead. hiredis does not suppress the signal itself, and
    /// libcurl before version 7.87 does not suppress it when it closes a TLS connection.
    package static func blockInCurrentThread() {
        var signals = sigset_t()
        unsafe sigemptyset(&signals)
        unsafe sigaddset(&signals, SIGPIPE)
        unsafe pthread_sigmask(SIG_BLOCK, &signals, nil)
    }
}
