import AuthFlowEssentials
import AuthFlowHTTP

/// The backoff after a provider failure: exponential backoff, or a longer delay if the provider
/// requests one.
struct Backoff: Sendable {
    /// The initial delay, in seconds. Each subsequent delay is twice as long, up to ``longest``.
    static let first: TimeInterval = 5
    /// The maximum delay before jitter, in seconds, unless the provider requests a longer one.
    static let longest: TimeInterval = 300
    /// The maximum delay that a provider can request, in seconds.
    static let longestAsked: TimeInterval = 3600

    private let failure: AuthError
    private let failures: Int
    private let since: Date
    private let until: Date

    /// - Parameters:
    ///   - previous: The previous backoff, if the request failed again.
    ///   - error: The failure.
    ///   - now: The current time.
    ///   - random: Random jitter, so that the clients of one provider do not all retry at the same time.
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

    /// Whether a failure at this time continues the same series. A series ends ``longest`` seconds after its last
    /// backoff interval.
    func counts(at now: Date) -> Bool { now >= since && now < until + Self.longest }

    /// The error for a caller during the backoff interval; nil afterwards.
    func error(at now: Date) -> AuthError? {
        // Even if the clock was set back, no caller waits longer than intended.
        guard now >= since, now < until else { return nil }
        let wait = Int(until.timeIntervalSince(now).rounded(.up))
        let advice = failure.code == .loginRequired ? "" : " The next attempt is possible in \(wait) s."
        return AuthError(
            failure.code,
            "\(failure.message)\(advice)",
            providerError: failure.providerError,
            status: failure.status,
            retryAfter: .seconds(wait),
            underlyingError: failure
        )
    }
}
