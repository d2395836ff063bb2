import Synchronization

/// The clock of a ``Simulation``. It does not advance while a task runs.
public struct SimulatedClock: Clock {
    let simulation: Simulation

    /// An instant in the simulation.
    public struct Instant: InstantProtocol {
        /// The time since the start of the simulation.
        public let offset: Duration

        public func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        public func duration(to other: Instant) -> Duration { other.offset - offset }
        public static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    public var now: Instant { Instant(offset: simulation.now) }

    public var minimumResolution: Duration { .nanoseconds(1) }

    /// Waits until the given instant.
    /// - Throws: `CancellationError` when the task is cancelled.
    public func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        try Task.checkCancellation()
        let timer = Atomic<UInt64>(0)
        try await withTaskCancellationHandler {
            try await unsafe withUnsafeThrowingContinuation { continuation in
                let number = unsafe simulation.addTimer(at: deadline.offset, continuation)
                timer.store(number, ordering: .relaxed)
            }
        } onCancel: {
            simulation.cancelTimer(timer.load(ordering: .relaxed))
        }
    }
}
