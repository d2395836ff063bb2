import Synchronization

/// Runs an operation and stops it when time runs out.
///
/// The operation is cancelled and awaited, so that whatever it opened is closed when this returns.
/// - Parameters:
///   - duration: How long it may take.
///   - clock: The clock of the timeout.
///   - extension: Called when time has run out; returns how much longer the operation may take; default: nil, no longer.
///   - timeoutError: Makes the error to throw when time runs out.
///   - operation: What to run.
/// - Returns: What `operation` returns, also when it came late: a refresh token in it may be the only copy.
/// - Throws: What `operation` throws, the timeout error, or `CancellationError`.
public func withDeadline<Return: Sendable>(
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

/// The timer of one deadline, which is started again when the deadline is extended.
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
        // The operation has completed meanwhile.
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
    /// Begins a task on the caller's thread where the system can: to wake another one takes longer than many an operation.
    fileprivate static func begun(_ operation: @escaping @Sendable () async throws -> Success) -> Task {
        if #available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *) {
            Task.immediate { try await operation() }
        } else {
            Task { try await operation() }
        }
    }
}

extension Clock<Duration> {
    /// Has a function called later.
    /// - Returns: A function that cancels the call, if it has not been made yet.
    fileprivate func call(_ function: @escaping @Sendable () -> Void, after duration: Duration) -> @Sendable () -> Void
    {
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
