import Synchronization

/// Calls functions when their times come.
///
/// One task sleeps for all of them, until the first is due. Most are removed long before: a deadline for each request would otherwise
/// start and stop a timer of the system for each of them.
final class Alarms: Sendable {
    /// Those of this process.
    static let shared = Alarms()

    /// How much later than at its time an alarm may ring, so that the system can wake up for several things at once.
    static let tolerance = Duration.milliseconds(100)

    private struct State {
        var alarms: [UInt64: Alarm] = [:]
        var lastNumber: UInt64 = 0
        var sleeper: Sleeper?
    }

    private struct Alarm {
        let time: ContinuousClock.Instant
        let ring: @Sendable () -> Void
    }

    /// The task that sleeps.
    private struct Sleeper {
        let number: UInt64
        let wakesAt: ContinuousClock.Instant
        let task: Task<Void, Never>
    }

    private let state = Mutex(State())

    /// Has a function called.
    /// - Parameters:
    ///   - time: When, or up to the tolerance later.
    ///   - ring: The function. It must not block.
    /// - Returns: A number to remove it by.
    func add(at time: ContinuousClock.Instant, _ ring: @escaping @Sendable () -> Void) -> UInt64 {
        state.withLock { state in
            state.lastNumber += 1
            state.alarms[state.lastNumber] = Alarm(time: time, ring: ring)
            if state.sleeper.map({ $0.wakesAt > time }) ?? true { sleep(until: time, &state) }
            return state.lastNumber
        }
    }

    /// Removes an alarm. It may be ringing at this moment.
    func remove(_ number: UInt64) {
        // What the function holds is released outside the lock: it might come back here.
        let removed = state.withLock { $0.alarms.removeValue(forKey: number) }
        withExtendedLifetime(removed) {}
    }

    private func sleep(until time: ContinuousClock.Instant, _ state: inout State) {
        state.sleeper?.task.cancel()
        state.lastNumber += 1
        let number = state.lastNumber
        let task = Task.detached {
            try? await Task.sleep(until: time, tolerance: Self.tolerance, clock: .continuous)
            self.wake(number)
        }
        state.sleeper = Sleeper(number: number, wakesAt: time, task: task)
    }

    private func wake(_ number: UInt64) {
        let due = state.withLock { state -> [UInt64: Alarm] in
            // Another one sleeps in its place.
            guard state.sleeper?.number == number else { return [:] }
            state.sleeper = nil
            let now = ContinuousClock.now
            let due = state.alarms.filter { $0.value.time <= now }
            for number in due.keys { state.alarms[number] = nil }
            if let next = state.alarms.values.map(\.time).min() { sleep(until: next, &state) }
            return due
        }
        for alarm in due.values { alarm.ring() }
    }
}
