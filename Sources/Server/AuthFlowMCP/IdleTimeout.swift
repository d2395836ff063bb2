import AuthFlow
import Synchronization

/// Cancels a response body that has been idle for too long.
final class IdleTimeout: Sendable {
    private let task: Task<Void, Never>
    private let counter = Counter()

    /// The number of checks per idle timeout. More than one check is needed to detect inactivity promptly.
    private static let checksPerTimeout = 4

    init(_ body: ResponseBody, limit: Duration, clock: any Clock<Duration>) {
        task = Task { [counter] in
            var (last, idleChecks) = (counter.value, 0)
            while (try? await clock.sleep(for: limit / Self.checksPerTimeout)) != nil {
                idleChecks = counter.value == last && !counter.isPaused ? idleChecks + 1 : 0
                last = counter.value
                guard idleChecks >= Self.checksPerTimeout else { continue }
                return body.cancel(
                    throwing: AuthError(.timedOut, "The server sent no data for \(limit.formattedSeconds).")
                )
            }
        }
    }

    /// Counts the chunks of the body that have arrived.
    private final class Counter: Sendable {
        private let count = Atomic(0)
        private let paused = Atomic(false)
        var value: Int { count.load(ordering: .relaxed) }
        func add() { count.add(1, ordering: .relaxed) }
        var isPaused: Bool { paused.load(ordering: .relaxed) }
        func setPaused(_ isPaused: Bool) { paused.store(isPaused, ordering: .relaxed) }
    }

    func recordActivity() { counter.add() }

    /// Pauses the timeout while a message is passed to the host, because the body is not read until the host has read the message.
    func pause() { counter.setPaused(true) }

    /// Restarts the timeout.
    func resume() {
        recordActivity()
        counter.setPaused(false)
    }

    func end() { task.cancel() }
}
