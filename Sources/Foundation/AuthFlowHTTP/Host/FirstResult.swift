import Synchronization

/// The first of several results, for a single waiting task: the result of a call, or the task's cancellation.
package final class FirstResult<Value: Sendable>: Sendable {
    private enum State {
        case idle
        case waiting(CheckedContinuation<Value, any Error>)
        case finished(Result<Value, any Error>)
    }

    private let state = Mutex(State.idle)

    package init() {}

    /// Waits for the first result. A cancelled task does not wait, even if the work continues.
    /// - Parameters:
    ///   - begin: Starts the work; not called when there is a result, or the task is already cancelled.
    ///   - onCancel: Called when the task is cancelled, possibly on another thread; default: does nothing.
    /// - Throws: The error of the first result, or `CancellationError`.
    package func value(
        begin: () -> Void,
        onCancel: @escaping @Sendable () -> Void = {}
    ) async throws -> Value {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                if let result = wait(continuation) { return continuation.resume(with: result) }
                begin()
            }
        } onCancel: {
            // The result is set first, so that work that is just starting either detects the cancellation or receives the `onCancel` call.
            finish(.failure(CancellationError()))
            onCancel()
        }
    }

    /// Reports a result; all results after the first are ignored.
    package func finish(_ result: Result<Value, any Error>) {
        let continuation = state.withLock { state -> CheckedContinuation<Value, any Error>? in
            if case .finished = state { return nil }
            defer { state = .finished(result) }
            if case .waiting(let continuation) = state { return continuation }
            return nil
        }
        continuation?.resume(with: result)
    }

    /// Whether a result has been reported.
    package var isFinished: Bool {
        state.withLock { if case .finished = $0 { true } else { false } }
    }

    /// - Returns: The result; nil if none has been reported.
    private func wait(_ continuation: CheckedContinuation<Value, any Error>) -> Result<Value, any Error>? {
        state.withLock { state in
            if case .finished(let result) = state { return result }
            state = .waiting(continuation)
            return nil
        }
    }
}
