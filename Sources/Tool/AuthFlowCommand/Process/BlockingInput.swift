import AuthFlow

/// Blocking reads from standard input, pipes and terminals that a signal can cancel.
enum BlockingInput {
    /// Runs a blocking read on a separate thread.
    /// - Throws: `CancellationError` if the task is cancelled. The thread may then remain blocked, because the process is about to exit.
    static func read<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async throws -> Value {
        let (values, continuation) = AsyncStream.makeStream(of: Value.self)
        let work: @Sendable () -> Void = {
            continuation.yield(body())
            continuation.finish()
        }
        if !DetachedThread.run(work) { work() }
        for await value in values { return value }
        throw CancellationError()
    }
}
