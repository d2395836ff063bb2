import AuthFlowEssentials
import AuthFlowHTTP

/// How long to leave a provider alone after it has failed: a while, then longer, or as long as it says.
struct Backoff: Sendable {
    /// The first wait, in seconds; each further one is twice as long, up to ``longest``.
    static let first: TimeInterval = 5
    /// The longest wait, in seconds, unless the provider asks for more.
    static let longest: TimeInterval = 300
    /// The longest wait that a provider can ask for, in seconds.
    static let longestAsked: TimeInterval = 3600

    private let failure: AuthError
    private let failures: Int
    private let since: Date
    private let until: Date

    /// - Parameters:
    ///   - previous: The wait before, when it failed again.
    ///   - error: Why.
    ///   - now: The time.
    ///   - random: Spreads the clients of one provider, so that they do not come back all at once.
    init(after previous: Backoff?, error: AuthError, now: Date, random: UInt8) {
        let failures = (previous?.failures ?? 0) + 1
        let doubled = min(Self.longest, Self.first * Double(1 << (min(failures, 20) - 1)))
        let spread = doubled * (0.75 + 0.5 * Double(random) / 255)
        let asked = error.retryAfter.map { min($0.seconds, Self.longestAsked) } ?? 0
        self.failure = error
        self.failures = failures
        self.since = now
        self.until = now + max(spread, asked)
    }

    /// Whether the next failure is one of a series: for a while after the wait it still is.
    func counts(at now: Date) -> Bool { now >= since && now < until + Self.longest }

    /// The error for a caller that comes before the time; nil when it has come.
    func error(at now: Date) -> AuthError? {
        // A clock that was set back makes no caller wait longer than was meant.
        guard now >= since, now < until else { return nil }
        let wait = Int(until.timeIntervalSince(now).rounded(.up))
        return AuthError(
            failure.code,
            "\(failure.message) Retrying in \(wait) s.",
            providerError: failure.providerError,
            retryAfter: .seconds(wait),
            underlyingError: failure
        )
    }
}
