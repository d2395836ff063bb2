extension Task where Success == Never, Failure == Never {
    /// Waits until the task is cancelled.
    package static func never() async throws {
        let (stream, _) = AsyncStream<Void>.makeStream()
        for await _ in stream {}
        try checkCancellation()
        fatalError("a stream without a producer ended by itself")
    }
}
