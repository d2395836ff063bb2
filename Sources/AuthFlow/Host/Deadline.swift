import Synchronization

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
    let deadline = Deadline()
    let task = Task { try await operation() }
    @Sendable func end() {
        guard !isLifted() else { return }
        deadline.hasPassed.store(true, ordering: .relaxed)
        task.cancel()
    }
    return try await withTaskCancellationHandler {
        let stop = clock.call(end, after: duration)
        defer { stop() }
        let result = await task.result
        guard !deadline.hasPassed.load(ordering: .relaxed) else { throw timeoutError() }
        return try result.get()
    } onCancel: {
        task.cancel()
    }
}

/// Whether the time of an operation has run out.
private final class Deadline: Sendable {
    let hasPassed = Atomic(false)
}

extension Clock<Duration> {
    /// Has a function called later.
    /// - Returns: A function that makes sure that it is not called any more, if it was not.
    fileprivate func call(_ function: @escaping @Sendable () -> Void, after duration: Duration) -> () -> Void {
        if self is ContinuousClock {
            let alarm = Alarms.shared.add(at: .now + duration, function)
            return { Alarms.shared.remove(alarm) }
        }
        let timer = Task {
            // A deadline may be a little late; a wait has no tolerance. A clock of a test can tell them apart by it.
            try await sleep(for: duration, tolerance: Alarms.tolerance)
            function()
        }
        return { timer.cancel() }
    }
}
