import AuthFlow
import Synchronization

/// The tasks that wait for the lease on a record to become free. A message from the database wakes them.
final class RecordWaiters: Sendable {
    /// A registered task. It is woken by the first message after its registration, even if it is not waiting yet.
    struct Waiter: Sendable {
        fileprivate let digest: [UInt8]
        /// The registration order. Tasks are woken in this order, so that a seed fully determines a simulated history.
        fileprivate let number: UInt64
        fileprivate let wakeUp = FirstResult<Void>()
    }

    private struct State {
        var registered: [[UInt8]: [UInt64: Waiter]] = [:]
        var last: UInt64 = 0
        var waiting = 0
    }

    private let state = Mutex(State())

    /// The number of waiting tasks.
    var count: Int { state.withLock(\.waiting) }

    /// Registers a task. Register it before attempting to acquire the lease, so that it cannot miss a message between
    /// the attempt and the wait.
    func register(for digest: [UInt8]) -> Waiter {
        state.withLock { state in
            state.last += 1
            let waiter = Waiter(digest: digest, number: state.last)
            state.registered[digest, default: [:]][waiter.number] = waiter
            return waiter
        }
    }

    func remove(_ waiter: Waiter) {
        state.withLock { state in
            state.registered[waiter.digest]?[waiter.number] = nil
            if state.registered[waiter.digest]?.isEmpty == true { state.registered[waiter.digest] = nil }
        }
    }

    /// Waits until the lease may be free, but at most for the given duration.
    func wait(_ waiter: Waiter, atMost pause: Duration, clock: any Clock<Duration>) async throws {
        state.withLock { $0.waiting += 1 }
        defer { state.withLock { $0.waiting -= 1 } }
        let alarm = Task {
            try await clock.sleep(for: pause)
            waiter.wakeUp.finish(.success(()))
        }
        defer { alarm.cancel() }
        try await waiter.wakeUp.value(begin: {})
    }

    /// Wakes the tasks that wait for a record.
    func wakeUp(_ digest: [UInt8]) { wakeUp(state.withLock { $0.registered[digest].map { Array($0.values) } ?? [] }) }

    /// Wakes all tasks, because messages may have been missed.
    func wakeUpAll() { wakeUp(state.withLock { $0.registered.values.flatMap(\.values) }) }

    private func wakeUp(_ waiters: [Waiter]) {
        for waiter in waiters.sorted(by: { $0.number < $1.number }) { waiter.wakeUp.finish(.success(())) }
    }
}
