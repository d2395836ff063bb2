import Foundation
import Synchronization

/// A call of a library that blocks its thread, for as long as something outside of this program likes.
package enum BlockingCall {
    /// Runs a call on a thread of its own. A caller that is cancelled leaves at once: the thread ends when the call does, and what it
    /// brings is thrown away.
    /// - Parameters:
    ///   - call: The call.
    ///   - onCancel: Tells the call to end, from another thread.
    /// - Throws: What `call` throws, or `CancellationError`.
    package static func run<Value: Sendable>(
        _ call: @escaping @Sendable () throws -> Value,
        onCancel: @escaping @Sendable () -> Void
    ) async throws -> Value {
        let waiter = Waiter<Value>()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                guard waiter.wait(continuation) else { return continuation.resume(throwing: CancellationError()) }
                DetachedThread.run { waiter.finish(Result { try call() }) }
            }
        } onCancel: {
            onCancel()
            waiter.finish(.failure(CancellationError()))
        }
    }

    /// The one that waits, until the first of a result and a cancellation.
    private final class Waiter<Value: Sendable>: Sendable {
        private enum State {
            case idle
            case waiting(CheckedContinuation<Value, any Error>)
            case finished
        }

        private let state = Mutex(State.idle)

        /// - Returns: Whether it is worth waiting: false when the caller was cancelled before.
        func wait(_ continuation: CheckedContinuation<Value, any Error>) -> Bool {
            state.withLock { state in
                guard case .idle = state else { return false }
                state = .waiting(continuation)
                return true
            }
        }

        func finish(_ result: Result<Value, any Error>) {
            let continuation = state.withLock { state -> CheckedContinuation<Value, any Error>? in
                defer { state = .finished }
                if case .waiting(let continuation) = state { return continuation }
                return nil
            }
            continuation?.resume(with: result)
        }
    }
}
