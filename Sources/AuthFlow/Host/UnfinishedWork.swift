import Synchronization

/// Work that is finished even when the task that waits for it is cancelled: a rotated refresh token that is not stored
/// is lost.
final class UnfinishedWork: Sendable {
    private let running = Mutex<[UInt64: @Sendable () async -> Void]>([:])
    private let next = Atomic<UInt64>(0)

    /// Begins a piece of work that any number of tasks can wait for.
    func begin<Value: Sendable>(_ work: @escaping @Sendable () async throws -> Value) -> SharedTask<Value> {
        let number = next.add(1, ordering: .relaxed).newValue
        // Until the task is known, a drain waits for it here.
        let (started, start) = AsyncStream<Void>.makeStream()
        running.withLock { $0[number] = { for await _ in started {} } }
        let task = SharedTask { [self] in
            defer { running.withLock { $0[number] = nil } }
            return try await work()
        }
        running.withLock { if $0[number] != nil { $0[number] = { _ = try? await task.value() } } }
        start.finish()
        return task
    }

    /// Runs a piece of work to its end. A cancelled caller returns at once.
    /// - Throws: What `work` throws, or `CancellationError` when the caller is cancelled.
    func finish<Value: Sendable>(_ work: @escaping @Sendable () async throws -> Value) async throws -> Value {
        // No work begins for a caller that is already cancelled.
        try Task.checkCancellation()
        return try await begin(work).value()
    }

    /// Whether something is under way.
    var isBusy: Bool { running.withLock { !$0.isEmpty } }

    /// Waits until nothing is under way.
    /// - Returns: Whether all work ended in time.
    func drain(within patience: Duration, clock: any Clock<Duration>) async -> Bool {
        do {
            try await withDeadline(patience, clock: clock) {
                AuthError(.timedOut, "Work under way took too long.")
            } _: { [self] in
                while let wait = running.withLock({ $0.values.first }) {
                    try Task.checkCancellation()
                    await wait()
                }
            }
            return true
        } catch {
            return running.withLock(\.isEmpty)
        }
    }
}
