import AuthFlowSystem

/// Notifies a user at a terminal that a command is waiting, for example for a provider that does not respond.
struct DelayNotice {
    /// The delay after which the notice is printed.
    var delay = Duration.seconds(3)
    /// Prints the notice; nil if standard error is not a terminal.
    var notify: (@Sendable (String) -> Void)? =
        isatty(STDERR_FILENO) != 0 ? { @Sendable text in Terminal.printMessage(text) } : nil

    /// Performs an operation that prints nothing while it waits.
    func during<Success>(_ operation: () async throws -> Success) async rethrows -> Success {
        let notice = notify.map { notify in
            Task { [delay] in
                try await Task.sleep(for: delay)
                notify("Waiting for the provider, or for another authflow command. Press Ctrl-C to stop.")
            }
        }
        defer { notice?.cancel() }
        return try await operation()
    }
}
