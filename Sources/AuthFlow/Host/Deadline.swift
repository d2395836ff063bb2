/// Runs an operation and stops it when time runs out.
///
/// The operation is cancelled and awaited, so that whatever it opened is closed when this returns.
/// - Parameters:
///   - duration: How long it may take.
///   - clock: The clock to wait on.
///   - isLifted: Called when time has run out; returns whether the operation may still run to its end; default: no.
///   - timeoutError: Makes the error to throw when time runs out.
///   - operation: What to run.
/// - Throws: What `operation` throws, the timeout error, or `CancellationError`.
public func withDeadline<Return: Sendable>(
    _ duration: Duration,
    clock: any Clock<Duration>,
    unless isLifted: @Sendable @escaping () -> Bool = { false },
    orThrow timeoutError: @Sendable @escaping () -> AuthError,
    _ operation: @Sendable @escaping () async throws -> Return
) async throws -> Return {
    try await withThrowingTaskGroup(of: Return?.self) { group in
        group.addTask { try await operation() }
        group.addTask {
            // The deadline may fire a little late, so that the system can wake up for several things at once.
            try await clock.sleep(for: duration, tolerance: .milliseconds(100))
            return nil
        }
        defer { group.cancelAll() }
        guard let first = try await group.next() else { throw CancellationError() }
        if let value = first { return value }
        guard isLifted(), let late = try await group.next(), let value = late else { throw timeoutError() }
        return value
    }
}
