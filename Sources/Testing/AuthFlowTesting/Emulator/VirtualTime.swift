public import AuthFlow
public import AuthFlowEssentials
import Synchronization

/// Virtual time that advances only when a task waits, and then immediately, or by ``advance(by:)``. Use it to test operations that take minutes.
///
/// Pass ``host`` to the client and ``now`` to the emulator. Waits complete immediately and advance the time by their
/// duration; deadlines, which are sleeps with a tolerance, are never reached.
public final class VirtualTime: Sendable {
    private let elapsed: Mutex<Swift.Duration>
    private let start: Date
    private let drift: Double

    /// Creates virtual time.
    /// - Parameters:
    ///   - start: The initial wall-clock time.
    ///   - drift: The speed of the client's timers relative to the emulator's: at 1.1, waits complete after ten
    ///     elevenths of their duration.
    public init(start: Date = Date(), drift: Double = 1) {
        self.elapsed = Mutex(.zero)
        self.start = start
        self.drift = drift
    }

    /// The current wall-clock time.
    public var now: Date { start + elapsed.withLock(\.seconds) }

    /// Advances the time.
    public func advance(by duration: Swift.Duration) { elapsed.withLock { $0 += duration } }

    /// The host services that provide this time to a client.
    public var host: HostServices {
        HostServices(now: { self.now }, clock: VirtualClock(time: self))
    }

    struct VirtualClock: Clock {
        private static let epoch = ContinuousClock.now

        let time: VirtualTime
        var now: ContinuousClock.Instant { Self.epoch + time.elapsed.withLock { $0 } }
        var minimumResolution: Swift.Duration { .zero }

        func sleep(until deadline: ContinuousClock.Instant, tolerance: Swift.Duration?) async throws {
            try Task.checkCancellation()
            guard tolerance == nil else { return try await Task.sleep(for: .seconds(86_400)) }
            let wait = now.duration(to: deadline)
            time.advance(by: wait / time.drift)
            await Task.yield()
        }
    }
}
