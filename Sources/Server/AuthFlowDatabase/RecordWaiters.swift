import AuthFlow
import Synchronization

/// The tasks that wait for the lease on a record to become free. A message from the database wakes them.
final class RecordWaiters: Sendable {
    private struct State {
        var waiting: [[UInt8]: [UInt64: FirstResult<Void>]] = [:]
        var last: UInt64 = 0
    }

    private let state = Mutex(State())

    /// The number of waiting tasks.
    var count: Int { state.withLock { $0.waiting.values.reduce(0) { $0 + $1.count } } }

    /// Waits until the lease may be free, but at most for the given duration.
    func wait(for digest: [UInt8], atMost pause: Duration, clock: any Clock<Duration>) async throws {
        let result = FirstResult<Void>()
        let number = state.withLock { state in
            state.last += 1
            return state.last
        }
        defer {
            state.withLock { state in
                state.waiting[digest]?[number] = nil
                if state.waiting[digest]?.isEmpty == true { state.waiting[digest] = nil }
            }
        }
        let alarm = Task {
            try await clock.sleep(for: pause)
            result.finish(.success(()))
        }
        defer { alarm.cancel() }
        do {
            try await result.value {
                state.withLock { $0.waiting[digest, default: [:]][number] = result }
            } onCancel: {
            }
        } catch {
            // If the result arrives before the task starts waiting, `CancellationError` is thrown, although the task
            // was not cancelled.
            try Task.checkCancellation()
        }
    }

    /// Wakes the tasks that wait for a record.
    func wakeUp(_ digest: [UInt8]) {
        let woken = state.withLock { $0.waiting[digest].map { Array($0.values) } ?? [] }
        for result in woken { result.finish(.success(())) }
    }

    /// Wakes all tasks, because messages may have been missed.
    func wakeUpAll() {
        let woken = state.withLock { $0.waiting.values.flatMap { Array($0.values) } }
        for result in woken { result.finish(.success(())) }
    }
}
