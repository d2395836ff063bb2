/// Runs a library call that blocks its thread for a time that this program cannot bound.
package enum BlockingCall {
    /// Runs a call on a thread of its own. A cancelled caller returns at once: the thread ends when the call does, and
    /// its result is discarded.
    /// - Parameters:
    ///   - call: The call.
    ///   - onCancel: Tells the call to end, from another thread.
    /// - Throws: What `call` throws, or `CancellationError`.
    package static func run<Value: Sendable>(
        _ call: @escaping @Sendable () throws -> Value,
        onCancel: @escaping @Sendable () -> Void
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
