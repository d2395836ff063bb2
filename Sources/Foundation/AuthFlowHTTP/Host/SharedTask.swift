import Synchronization

/// An operation that any number of tasks can wait for.
///
/// It runs to completion even if tasks stop waiting: a cancelled task returns immediately, without affecting the others.
package final class SharedTask<Value: Sendable>: Sendable {
    private enum State {
        case running(waiters: [UInt64: CheckedContinuation<Value, any Error>], count: UInt64)
        case finished(Result<Value, any Error>)
    }

    private let state = Mutex(State.running(waiters: [:], count: 0))

    /// Starts the work.
    package init(_ work: @escaping @Sendable () async throws -> Value) {
        Task {
            do {
                finish(.success(try await work()))
            } catch {
                finish(.failure(error))
            }
        }
    }

    private func finish(_ result: Result<Value, any Error>) {
        let waiters = state.withLock { state in
            defer { state = .finished(result) }
            if case .running(let waiters, _) = state { return waiters }
            return [:]
        }
        for waiter in waiters.values { waiter.resume(with: result) }
    }

    /// Waits for the result.
    /// - Throws: Any error thrown by the work, or `CancellationError` when the waiting task is cancelled.
    package func value() async throws -> Value {
        let ticket = state.withLock { state -> UInt64 in
            guard case .running(let waiters, let count) = state else { return 0 }
            state = .running(waiters: waiters, count: count + 1)
            return count
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let result = state.withLock { state -> Result<Value, any Error>? in
                    switch state {
                    case .finished(let result): return result
                    // The check holds the lock that the handler below acquires, so a cancellation is neither missed nor
                    // handled twice.
                    case .running where Task.isCancelled: return .failure(CancellationError())
                    case .running(var waiters, let count):
                        waiters[ticket] = continuation
                        state = .running(waiters: waiters, count: count)
                        return nil
                    }
                }
                if let result { continuation.resume(with: result) }
            }
        } onCancel: {
            let waiter = state.withLock { state -> CheckedContinuation<Value, any Error>? in
                guard case .running(var waiters, let count) = state else { return nil }
                let waiter = waiters.removeValue(forKey: ticket)
                state = .running(waiters: waiters, count: count)
                return waiter
            }
            waiter?.resume(throwing: CancellationError())
        }
    }
}
