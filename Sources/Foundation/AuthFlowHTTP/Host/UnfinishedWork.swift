import AuthFlowJSON
import Synchronization

/// Work that is finished even when the task that waits for it is cancelled: a rotated refresh token that is not stored
/// is lost.
package final class UnfinishedWork: Sendable {
    private let running = Mutex<[UInt64: @Sendable () async -> Void]>([:])
    private let next = Atomic<UInt64>(0)
    private let sent = Atomic(0)
    private let isClosed = Atomic(false)
    /// Who has something that could not be written, and tries again when asked.
    private let unwritten = Mutex<[(owner: ObjectIdentifier, write: @Sendable () async -> Bool)]>([])

    package init() {}

    /// Has a drain try once more to write what could not be written.
    /// - Parameters:
    ///   - owner: Who has it.
    ///   - write: Returns whether nothing is left.
    package func keepUnwritten(of owner: AnyObject, _ write: @escaping @Sendable () async -> Bool) {
        forgetUnwritten(of: owner)
        unwritten.withLock { $0.append((ObjectIdentifier(owner), write)) }
    }

    /// Nothing is left that could not be written.
    package func forgetUnwritten(of owner: AnyObject) {
        unwritten.withLock { $0.removeAll { $0.owner == ObjectIdentifier(owner) } }
    }

    /// Begins a piece of work that any number of tasks can wait for.
    package func begin<Value: Sendable>(_ work: @escaping @Sendable () async throws -> Value) -> SharedTask<Value> {
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
    package func finish<Value: Sendable>(_ work: @escaping @Sendable () async throws -> Value) async throws -> Value {
        // No work begins for a caller that is already cancelled.
        try Task.checkCancellation()
        return try await begin(work).value()
    }

    /// Whether work is in progress, or a credential could not be stored.
    package var isBusy: Bool { running.withLock { !$0.isEmpty } || unwritten.withLock { !$0.isEmpty } }

    /// How much is in progress, and how many owners have unwritten credentials.
    package var counts: (running: Int, unwritten: Int) { (running.withLock(\.count), unwritten.withLock(\.count)) }

    /// Counts a request that uses up a refresh token, until its response is stored.
    /// - Throws: `CancellationError` when the process is about to exit.
    package func beginSending() throws {
        // Counted before the look, as ``close()`` looks after it has closed: one of the two sees the other.
        sent.add(1, ordering: .sequentiallyConsistent)
        guard isClosed.load(ordering: .sequentiallyConsistent) else { return }
        endSending()
        throw CancellationError()
    }

    /// For the moment at which a refresh token would leave: its response could not be stored any more.
    /// - Throws: ``AuthError`` with ``AuthError/Code/closing``.
    package func requireOpen() throws(AuthError) {
        guard isClosed.load(ordering: .sequentiallyConsistent) else { return }
        throw AuthError(.closing, "The process is about to exit, so no refresh token was sent.")
    }

    package func endSending() { sent.subtract(1, ordering: .sequentiallyConsistent) }

    /// No refresh token is sent from now on.
    package func close() { isClosed.store(true, ordering: .sequentiallyConsistent) }

    /// Whether a refresh token was sent whose response is not stored yet.
    package var hasSent: Bool { sent.load(ordering: .sequentiallyConsistent) > 0 }

    /// Waits until nothing is under way, and tries to write what could not be written.
    /// - Returns: Whether all work ended in time, and nothing is left unwritten.
    package func drain(within patience: Duration, clock: any Clock<Duration>) async -> Bool {
        do {
            return try await withDeadline(patience, clock: clock) {
                AuthError(.timedOut, "Operations in progress took too long.")
            } _: { [self] in
                try await waitForRunning()
                let writes = unwritten.withLock { $0.map(\.write) }
                return await withTaskGroup(of: Bool.self) { group in
                    for write in writes { group.addTask { await write() } }
                    return await group.allSatisfy(\.self)
                }
            }
        } catch {
            return running.withLock(\.isEmpty) && unwritten.withLock(\.isEmpty)
        }
    }

    private func waitForRunning() async throws {
        while let wait = running.withLock({ $0.values.first }) {
            try Task.checkCancellation()
            await wait()
        }
    }
}

extension AuthError.Code {
    /// The process is about to exit. No caller gets it.
    package static let closing = Self(rawValue: "closing")
}
