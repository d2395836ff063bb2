/// A period in which no connection to the database can be opened.
struct DatabaseOutage: Sendable {
    /// The last failure.
    let failure: DatabaseFailure
    /// The delay before the next attempt.
    let pause: Duration
    private let start: ContinuousClock.Instant
    private let count: Int
    private let nextAttempt: ContinuousClock.Instant

    /// Records another failure.
    init(_ failure: DatabaseFailure, after previous: DatabaseOutage?) {
        let now = ContinuousClock.now
        // No attempts are made without requests, so the database may have been available since an old outage.
        let previous = previous.flatMap { $0.nextAttempt + .seconds(60) < now ? nil : $0 }
        self.failure = failure
        self.start = previous?.start ?? now
        self.count = (previous?.count ?? 0) + 1
        self.pause = min(.milliseconds(50) * (1 << min(count, 6)), .seconds(2))
        self.nextAttempt = now + pause
    }

    /// Whether another attempt is due.
    var mayRetry: Bool { .now >= nextAttempt }

    /// Whether a request fails immediately instead of waiting for the next attempt.
    /// - Parameter patience: The time for which requests wait, because a restarting database is unavailable only briefly.
    func isLasting(_ patience: Duration) -> Bool {
        failure.kind == .unusable || start.duration(to: .now) >= patience
    }
}
