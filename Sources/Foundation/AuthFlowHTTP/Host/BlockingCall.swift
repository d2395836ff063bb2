/// Runs a library call that blocks the calling thread for an unbounded time.
package enum BlockingCall {
    /// Runs a call on a separate thread. A cancelled caller returns immediately; the thread exits when the call returns,
    /// and the result is discarded.
    /// - Parameter onCancel: Aborts the call; possibly called on another thread.
    /// - Throws: Any error thrown by `call`, `CancellationError`, or ``AuthError`` with `storage_failed` when no thread can be created.
    package static func run<Value: Sendable>(
        _ call: @escaping @Sendable () throws -> Value,
        onCancel: @escaping @Sendable () -> Void = {}
    ) async throws -> Value {
        let result = FirstResult<Value>()
        return try await result.value {
            guard DetachedThread.run({ result.finish(Result { try call() }) }) else {
                return result.finish(.failure(AuthError(.storageFailed, "The system could not create a thread.")))
            }
        } onCancel: {
            onCancel()
        }
    }
}
