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
/// - Returns: What `operation` returns, also when it came late: a refresh token in it may be the only copy.
/// - Throws: What `operation` throws, the timeout error, or `CancellationError`.
public func withDeadline<Return: Sendable>(
    _ duration: Duration,
    clock: any Clock<Duration>,
    unless isLifted: @Sendable @escaping () -> Bool = { false },
    orThrow timeoutError: @Sendable @escaping () -> AuthError,
    _ operation: @Sendable @escaping () async throws -> Return
) async throws -> Return {
    let hasPassed = Flag()
    let task = Task.begun { try await operation() }
    @Sendable func end() {
        guard !isLifted() else { return }
        hasPassed.value.store(true, ordering: .relaxed)
        task.cancel()
    }
    return try await withTaskCancellationHandler {
        let stop = clock.call(end, after: duration)
        defer { stop() }
        do {
            return try await task.value
        } catch {
            throw hasPassed.value.load(ordering: .relaxed) ? timeoutError() : error
        }
    } onCancel: {
        task.cancel()
    }
}

extension Task where Failure == any Error {
    /// Begins a task on the caller's thread where the system can: to wake another one takes longer than many an operation.
    fileprivate static func begun(_ operation: @escaping @Sendable () async throws -> Success) -> Task {
        if #available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *) {
            Task.immediate { try await operation() }
        } else {
            Task { try await operation() }
        }
    }
}

private final class Flag: Sendable {
    let value = Atomic(false)
}

extension Clock<Duration> {
    /// Has a function called later.
    /// - Returns: A function that cancels the call, if it has not been made yet.
    fileprivate func call(_ function: @escaping @Sendable () -> Void, after duration: Duration) -> () -> Void {
        if self is ContinuousClock {
            let alarm = Alarms.shared.add(at: .now + duration, function)
            return { Alarms.shared.remove(alarm) }
        }
        let timer = Task {
            // Deadlines have a tolerance and plain waits have none, so a test's clock can tell them apart.
            try await sleep(for: duration, tolerance: Alarms.tolerance)
            function()
        }
        return { timer.cancel() }
    }
}
