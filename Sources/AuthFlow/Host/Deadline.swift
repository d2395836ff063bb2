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
    let task = Task {
        // A result that came in time may be the only copy of something, however late it is fetched.
        defer { _ = deadline.end(as: .finished) }
        return try await operation()
    }
    @Sendable func end() {
        if !isLifted(), deadline.end(as: .passed) { task.cancel() }
    }
    return try await withTaskCancellationHandler {
        let stop = clock.call(end, after: duration)
        defer { stop() }
        let result = await task.result
        guard !deadline.hasPassed else { throw timeoutError() }
        return try result.get()
    } onCancel: {
        task.cancel()
    }
}

/// Which came first: the end of an operation, or that of its time.
private final class Deadline: Sendable {
    enum End: UInt8, AtomicRepresentable {
        case none, finished, passed
    }

    private let state = Atomic(End.none)

    var hasPassed: Bool { state.load(ordering: .acquiring) == .passed }

    /// - Returns: Whether nothing came before.
    func end(as end: End) -> Bool {
        state.compareExchange(expected: .none, desired: end, ordering: .acquiringAndReleasing).exchanged
    }
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
