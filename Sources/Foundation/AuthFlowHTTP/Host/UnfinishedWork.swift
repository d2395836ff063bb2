import AuthFlowJSON
import Synchronization

/// Work that is completed even if the task that waits for it is cancelled, because a rotated refresh token is lost
/// unless it is stored.
package final class UnfinishedWork: Sendable {
    private let running = Mutex<[UInt64: @Sendable () async -> Void]>([:])
    private let next = Atomic<UInt64>(0)
    private let sending = Mutex(Sending())
    /// The owners of unsaved credentials, with the functions that retry the writes.
    private let unsavedWrites = Mutex<[(owner: ObjectIdentifier, write: @Sendable () async -> Bool)]>([])

    /// The requests that consume a refresh token.
    private struct Sending {
        var requests = 0
        /// Whether one of the requests has been sent.
        var isSent = false
        /// Whether the process is about to exit.
        var isClosed = false
    }

    package init() {}

    /// Registers unsaved credentials, so that ``drain(within:clock:)`` retries the write.
    /// - Parameter write: Retries the write, and returns whether all credentials are saved.
    package func registerUnsavedWrite(of owner: AnyObject, _ write: @escaping @Sendable () async -> Bool) {
        removeUnsavedWrite(of: owner)
        unsavedWrites.withLock { $0.append((ObjectIdentifier(owner), write)) }
    }

    /// Removes an owner that no longer has unsaved credentials.
    package func removeUnsavedWrite(of owner: AnyObject) {
        unsavedWrites.withLock { $0.removeAll { $0.owner == ObjectIdentifier(owner) } }
    }

    /// Starts an operation that any number of tasks can wait for.
    package func begin<Value: Sendable>(_ work: @escaping @Sendable () async throws -> Value) -> SharedTask<Value> {
        let number = next.add(1, ordering: .relaxed).newValue
        // Until the task is registered, `drain` waits for this placeholder.
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

    /// Runs an operation to completion. A cancelled caller returns immediately.
    /// - Throws: Any error thrown by `work`, or `CancellationError` when the caller is cancelled.
    package func finish<Value: Sendable>(_ work: @escaping @Sendable () async throws -> Value) async throws -> Value {
        // No work is started for a caller that is already cancelled.
        try Task.checkCancellation()
        return try await begin(work).value()
    }

    /// Whether work is in progress or any credentials are unsaved.
    package var isBusy: Bool { running.withLock { !$0.isEmpty } || unsavedWrites.withLock { !$0.isEmpty } }

    /// The number of operations in progress, and the number of owners with unsaved credentials.
    package var counts: (running: Int, unsavedWrites: Int) {
        (running.withLock(\.count), unsavedWrites.withLock(\.count))
    }

    /// Counts a request that consumes a refresh token, until its response is stored.
    /// - Throws: `CancellationError` when the process is about to exit.
    package func beginSending() throws {
        try sending.withLock { sending in
            if sending.isClosed { throw CancellationError() }
            sending.requests += 1
        }
    }

    /// Called immediately before a refresh token is sent. A process that is about to exit could not store the
    /// response.
    /// - Throws: ``AuthError`` with ``AuthError/Code/closing``.
    package func willSend() throws(AuthError) {
        try sending.withLock { sending throws(AuthError) in
            guard !sending.isClosed else {
                throw AuthError(.closing, "The process is about to exit, so no refresh token was sent.")
            }
            // The caller may have stopped waiting in the meantime.
            sending.isSent = sending.requests > 0
        }
    }

    package func endSending() {
        sending.withLock { sending in
            sending.requests -= 1
            if sending.requests == 0 { sending.isSent = false }
        }
    }

    /// Prevents any further refresh tokens from being sent.
    package func close() { sending.withLock { $0.isClosed = true } }

    /// Whether a refresh token was sent and the response is not stored yet.
    package var hasPendingResponse: Bool { sending.withLock(\.isSent) }

    /// Waits until no work is in progress, and retries the writes of unsaved credentials.
    /// - Returns: Whether all work completed in time, and all credentials are saved.
    package func drain(within waitTimeout: Duration, clock: any Clock<Duration>) async -> Bool {
        do {
            return try await withDeadline(waitTimeout, clock: clock) {
                AuthError(.timedOut, "Operations in progress did not complete in time.")
            } _: { [self] in
                try await waitForRunning()
                let writes = unsavedWrites.withLock { $0.map(\.write) }
                return await withTaskGroup(of: Bool.self) { group in
                    for write in writes { group.addTask { await write() } }
                    return await group.allSatisfy(\.self)
                }
            }
        } catch {
            return running.withLock(\.isEmpty) && unsavedWrites.withLock(\.isEmpty)
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
    /// The process is about to exit. This code is internal and never reaches a caller.
    package static let closing = Self(rawValue: "closing")
}
