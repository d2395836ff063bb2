/// A clock on which a task sleeps until it is cancelled, so that nothing is renewed and nothing polls.
package struct StoppedClock: Clock {
    package init() {}

    package var now: ContinuousClock.Instant { .now }
    package var minimumResolution: Duration { .zero }

    package func sleep(until deadline: ContinuousClock.Instant, tolerance: Duration?) async throws {
        try await Task<Never, Never>.never()
    }
}
