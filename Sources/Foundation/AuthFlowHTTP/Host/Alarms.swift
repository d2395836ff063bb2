import Synchronization

/// Calls functions at scheduled times.
///
/// A single task sleeps until the first alarm is due. Most alarms are removed long before they are due: without sharing, the deadline
/// of every request would start and stop its own system timer.
final class Alarms: Sendable {
    /// The alarms of this process.
    static let shared = Alarms()

    /// The maximum delay of an alarm, which lets the system coalesce wake-ups.
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

    /// The task that waits for the earliest alarm.
    private struct Sleeper {
        let number: UInt64
        let wakesAt: ContinuousClock.Instant
        let task: Task<Void, Never>
    }

    private let state = Mutex(State())

    /// Schedules a function call.
    /// - Parameters:
    ///   - time: The scheduled time; the call may be late by up to the tolerance.
    ///   - ring: The function. It must not block.
    /// - Returns: The identifier of the alarm, for ``remove(_:)``.
    func add(at time: ContinuousClock.Instant, _ ring: @escaping @Sendable () -> Void) -> UInt64 {
        state.withLock { state in
            state.lastNumber += 1
            state.alarms[state.lastNumber] = Alarm(time: time, ring: ring)
            if state.sleeper.map({ $0.wakesAt > time }) ?? true { sleep(until: time, &state) }
            return state.lastNumber
        }
    }

    /// Removes an alarm. Its function may already be running.
    func remove(_ number: UInt64) {
        // The function is released outside the lock, because a deinitializer of its captures could call this object again.
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
            // Another sleeper has replaced this one.
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
