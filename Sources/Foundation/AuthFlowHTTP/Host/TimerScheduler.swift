import Synchronization

/// Calls functions at scheduled times.
///
/// A single task sleeps until the first timer is due. Most timers are removed long before they are due: without sharing, the deadline
/// of every request would start and stop a separate system timer.
final class TimerScheduler: Sendable {
    /// The timers of this process.
    static let shared = TimerScheduler()

    /// The maximum delay of a timer, which lets the system coalesce wake-ups.
    static let tolerance = Duration.milliseconds(100)

    private struct State {
        var timers: [UInt64: ScheduledTimer] = [:]
        var lastNumber: UInt64 = 0
        var nextWakeUp: ScheduledWakeUp?
    }

    private struct ScheduledTimer {
        let time: ContinuousClock.Instant
        let fire: @Sendable () -> Void
    }

    /// The task that waits for the earliest timer.
    private struct ScheduledWakeUp {
        let number: UInt64
        let wakesAt: ContinuousClock.Instant
        let task: Task<Void, Never>
    }

    private let state = Mutex(State())

    /// Schedules a function call.
    /// - Parameters:
    ///   - time: The scheduled time; the call may be late by up to the tolerance.
    ///   - fire: The function. It must not block.
    /// - Returns: The identifier of the timer, for ``remove(_:)``.
    func add(at time: ContinuousClock.Instant, _ fire: @escaping @Sendable () -> Void) -> UInt64 {
        state.withLock { state in
            state.lastNumber += 1
            // A new wake-up has a number, too.
            let number = state.lastNumber
            state.timers[number] = ScheduledTimer(time: time, fire: fire)
            if state.nextWakeUp.map({ $0.wakesAt > time }) ?? true { sleep(until: time, &state) }
            return number
        }
    }

    /// Removes a timer. Its function may already be running.
    func remove(_ number: UInt64) {
        // The function is released outside the lock, because a deinitializer of its captures could call this object again.
        let removed = state.withLock { $0.timers.removeValue(forKey: number) }
        withExtendedLifetime(removed) {}
    }

    private func sleep(until time: ContinuousClock.Instant, _ state: inout State) {
        state.nextWakeUp?.task.cancel()
        state.lastNumber += 1
        let number = state.lastNumber
        let task = Task.detached {
            try? await Task.sleep(until: time, tolerance: Self.tolerance, clock: .continuous)
            self.wake(number)
        }
        state.nextWakeUp = ScheduledWakeUp(number: number, wakesAt: time, task: task)
    }

    private func wake(_ number: UInt64) {
        let due = state.withLock { state -> [UInt64: ScheduledTimer] in
            // Another wake-up has replaced this one.
            guard state.nextWakeUp?.number == number else { return [:] }
            state.nextWakeUp = nil
            let now = ContinuousClock.now
            let due = state.timers.filter { $0.value.time <= now }
            for number in due.keys { state.timers[number] = nil }
            if let next = state.timers.values.map(\.time).min() { sleep(until: next, &state) }
            return due
        }
        for timer in due.values { timer.fire() }
    }
}
