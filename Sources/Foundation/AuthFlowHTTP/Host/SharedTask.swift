import Synchronization

/// An operation that any number of tasks can wait for.
///
/// It runs to completion even if tasks stop waiting: a cancelled task returns immediately, without affecting the others.
package final class SharedTask<Value: Sendable>: Sendable {
    // Not an enum with the continuations as an associated value, because changing that value would copy the dictionary for each task.
    private struct State {
        var waiters: [UInt64: CheckedContinuation<Value, any Error>] = [:]
        var count: UInt64 = 0
        var result: Result<Value, any Error>?
    }

    private let state = Mutex(State())

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
            defer { state.waiters = [:] }
            state.result = result
            return state.waiters
        }
        for waiter in waiters.values { waiter.resume(with: result) }
    }

    /// Waits for the result.
    /// - Throws: Any error thrown by the work, or `CancellationError` when the waiting task is cancelled.
    package func value() async throws -> Value {
        let ticket = state.withLock { state -> UInt64 in
            state.count += 1
            return state.count
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let result = state.withLock { state -> Result<Value, any Error>? in
                    if let result = state.result { return result }
                    // The check holds the lock that the handler below acquires, so a cancellation is neither missed nor
                    // handled twice.
                    if Task.isCancelled { return .failure(CancellationError()) }
                    state.waiters[ticket] = continuation
                    return nil
                }
                if let result { continuation.resume(with: result) }
            }
        } onCancel: {
            let waiter = state.withLock { $0.waiters.removeValue(forKey: ticket) }
            waiter?.resume(throwing: CancellationError())
        }
    }
}
