import Synchronization

/// Runs an operation and cancels it when a timeout expires.
///
/// The cancelled operation is awaited, so that all resources it opened are closed when this function returns.
/// - Parameters:
///   - extension: Called when the timeout expires; returns the additional time for the operation; default: nil, for none.
///   - timeoutError: Creates the error to throw when the timeout expires.
/// - Returns: The result of `operation`, even if it is late, because it may contain the only copy of a refresh token.
/// - Throws: Any error thrown by `operation`, the timeout error, or `CancellationError`.
package func withDeadline<Return: Sendable>(
    _ duration: Duration,
    clock: any Clock<Duration>,
    extendedBy extension: @Sendable @escaping () -> Duration? = { nil },
    orThrow timeoutError: @Sendable @escaping () -> AuthError,
    _ operation: @Sendable @escaping () async throws -> Return
) async throws -> Return {
    let timer = DeadlineTimer()
    let task = Task.begun { try await operation() }
    @Sendable func end() {
        if let more = `extension`() { return timer.start { clock.call(end, after: more) } }
        timer.hasPassed.store(true, ordering: .relaxed)
        task.cancel()
    }
    return try await withTaskCancellationHandler {
        timer.start { clock.call(end, after: duration) }
        defer { timer.stop() }
        do {
            return try await task.value
        } catch {
            throw timer.hasPassed.load(ordering: .relaxed) ? timeoutError() : error
        }
    } onCancel: {
        task.cancel()
    }
}

/// The timer of one deadline, which is restarted when the deadline is extended.
private final class DeadlineTimer: Sendable {
    private enum State {
        case idle
        case running(cancel: @Sendable () -> Void)
        case stopped
    }

    let hasPassed = Atomic(false)
    private let state = Mutex(State.idle)

    /// - Parameter begin: Starts the timer, and returns a function that cancels it.
    func start(_ begin: () -> @Sendable () -> Void) {
        let cancel = begin()
        let isStopped = state.withLock { state in
            if case .stopped = state { return true }
            state = .running(cancel: cancel)
            return false
        }
        // The operation has completed in the meantime.
        if isStopped { cancel() }
    }

    func stop() {
        let last = state.withLock { state in
            defer { state = .stopped }
            return state
        }
        if case .running(let cancel) = last { cancel() }
    }
}

extension Task where Failure == any Error {
    /// Starts a task on the caller's thread if the system supports it, because waking another thread takes longer than many operations.
    fileprivate static func begun(_ operation: @escaping @Sendable () async throws -> Success) -> Task {
        if #available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *) {
            Task.immediate { try await operation() }
        } else {
            Task { try await operation() }
        }
    }
}

extension Clock<Duration> {
    /// Schedules a function call after a delay.
    /// - Returns: A function that cancels the call, if it has not been made yet.
    package func call(_ function: @escaping @Sendable () -> Void, after duration: Duration) -> @Sendable () -> Void {
        let duration = min(duration, .longestSleep)
        if self is ContinuousClock {
            let identifier = TimerScheduler.shared.add(at: .now + duration, function)
            return { TimerScheduler.shared.remove(identifier) }
        }
        let timer = Task {
            // Deadlines have a tolerance and plain waits have none, so a test clock can distinguish them.
            try await sleep(for: duration, tolerance: TimerScheduler.tolerance)
            function()
        }
        return { timer.cancel() }
    }
}
