import AuthFlow
import Synchronization

/// Limits the concurrent API requests of each user, so that one user's slow requests do not occupy all connections.
final class RequestLimit: Sendable {
    /// Thrown if too many requests of one user are queued, or if a request has been queued for too long.
    struct Exceeded: Error {}

    private static let (concurrent, queued) = (8, 32)
    private static let timeout = Duration.seconds(10)

    private struct Requests {
        var running = 0
        var queue: [(number: UInt64, start: AsyncStream<Void>.Continuation)] = []
    }

    private let state = Mutex<(users: [String: Requests], last: UInt64)>(([:], 0))

    /// The slot of a request in progress. It is freed when the last reference to it is released.
    final class Slot: Sendable {
        private let limit: RequestLimit
        private let user: String

        fileprivate init(_ limit: RequestLimit, _ user: String) { (self.limit, self.user) = (limit, user) }

        deinit { limit.release(user) }
    }

    /// Waits until fewer than eight of the user's requests are in progress.
    /// - Throws: ``Exceeded``, `CancellationError`.
    func slot(for user: String, clock: any Clock<Duration>) async throws -> Slot {
        do {
            try await withDeadline(Self.timeout, clock: clock) {
                AuthError(.timedOut, "Too many requests from this user are queued.")
            } _: { [self] in
                try await enter(user)
            }
        } catch is AuthError {
            throw Exceeded()
        }
        return Slot(self, user)
    }

    private func enter(_ user: String) async throws {
        let (waiting, start) = AsyncStream<Void>.makeStream()
        let number = try state.withLock { state throws(Exceeded) -> UInt64? in
            var requests = state.users[user] ?? Requests()
            defer { state.users[user] = requests }
            guard requests.running >= Self.concurrent else {
                requests.running += 1
                return nil
            }
            guard requests.queue.count < Self.queued else { throw Exceeded() }
            state.last += 1
            requests.queue.append((state.last, start))
            return state.last
        }
        guard let number else { return }
        // The loop ends when a slot becomes free or the task is cancelled.
        for await _ in waiting {}
        guard Task.isCancelled else { return }
        let wasQueued = state.withLock { state in
            let index = state.users[user]?.queue.firstIndex { $0.number == number }
            if let index { state.users[user]?.queue.remove(at: index) }
            return index != nil
        }
        // The request may have received a slot at the moment of its cancellation.
        if !wasQueued { release(user) }
        throw CancellationError()
    }

    private func release(_ user: String) {
        let next = state.withLock { state -> AsyncStream<Void>.Continuation? in
            guard var requests = state.users[user] else { return nil }
            defer { state.users[user] = requests.running == 0 ? nil : requests }
            // The next request takes over the slot.
            if !requests.queue.isEmpty { return requests.queue.removeFirst().start }
            requests.running -= 1
            return nil
        }
        next?.finish()
    }
}
