import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowOAuth

/// The requests of one credential that are suspended after a failure.
struct Backoffs: Sendable {
    /// The requests that one failure suspends. A failure does not affect other users or a later sign-in, and a rejected request for a
    /// token for one resource does not affect requests for the others.
    struct Subject: Hashable, Sendable {
        let account: AccountID
        /// The time of the sign-in; nil for tokens without a user.
        let signedInAt: Date?
        /// The resource of the requested token; nil for every request of this sign-in.
        var resource: ResourceRequest?

        init(_ account: AccountID, signedInAt: Date? = nil) {
            self.account = account
            self.signedInAt = signedInAt
        }

        init(_ credential: Credential, _ resource: ResourceRequest? = nil) {
            self.init(credential.account, signedInAt: credential.signedInAt)
            self.resource = resource
        }

        /// The subject for all requests of the sign-in.
        var allRequests: Subject { Subject(account, signedInAt: signedInAt) }
    }

    private var backoffs: [Subject: Backoff] = [:]

    /// The error to throw to a caller; nil when the request may be sent.
    func error(for subject: Subject, at now: Date) -> AuthError? {
        backoffs.isEmpty ? nil : backoffs[subject.allRequests]?.error(at: now) ?? backoffs[subject]?.error(at: now)
    }

    /// A request failed.
    mutating func failed(_ subject: Subject, _ error: AuthError, at now: Date, random: UInt8) {
        backoffs = backoffs.filter { $0.value.isOngoing(at: now) }
        backoffs[subject] = Backoff(after: backoffs[subject], error: error, now: now, random: random)
    }

    /// A request succeeded, so the sign-in is usable.
    mutating func succeeded(_ subject: Subject) {
        if !backoffs.isEmpty { (backoffs[subject.allRequests], backoffs[subject]) = (nil, nil) }
    }

    /// An account's session has ended.
    mutating func ended(_ account: AccountID) { backoffs = backoffs.filter { $0.key.account != account } }

    /// Whether a failure at this time would continue a series of any subject.
    func hasOngoing(at now: Date) -> Bool { backoffs.values.contains { $0.isOngoing(at: now) } }
}

/// A request for a token for one of several resources (RFC 8707 section 2.2).
struct ResourceRequest: Hashable, Sendable {
    let resource: String
    /// A subset of the granted scopes; nil for all granted scopes.
    let scopes: Set<String>?
}

/// The backoff after a provider failure: exponential backoff, or a longer delay if the provider
/// requests one.
struct Backoff: Sendable {
    /// The initial delay, in seconds. Each subsequent delay is twice as long, up to ``maximumDelay``.
    static let initialDelay: TimeInterval = 5
    /// The maximum delay before jitter, in seconds, unless the provider requests a longer delay.
    static let maximumDelay: TimeInterval = 300
    /// The maximum delay before jitter after a request that received no response, in seconds. The cause may be this machine's network, and
    /// the tokens are needed as soon as the machine is online again.
    static let maximumDelayWithoutResponse: TimeInterval = 60
    /// The maximum delay that a provider can request, in seconds.
    static let maximumRetryAfter: TimeInterval = 3600

    private let failure: AuthError
    private let failures: Int
    private let since: Date
    private let until: Date

    /// - Parameters:
    ///   - previous: The previous backoff, if the request failed again.
    ///   - random: Random jitter, so that the clients of one provider do not all retry at the same time.
    init(after previous: Backoff?, error: AuthError, now: Date, random: UInt8) {
        let failures = (previous?.failures ?? 0) + 1
        let maximum = error.hasNoResponse ? Self.maximumDelayWithoutResponse : Self.maximumDelay
        let doubled = min(maximum, Self.initialDelay * Double(1 << (min(failures, 20) - 1)))
        let jittered = doubled * (0.75 + 0.5 * Double(random) / 255)
        let retryAfter = error.retryAfter.map { min($0.seconds, Self.maximumRetryAfter) } ?? 0
        self.failure = error
        self.failures = failures
        self.since = now
        self.until = now + max(jittered, retryAfter)
    }

    /// Whether a failure at this time continues the same series. A series ends ``maximumDelay`` seconds after its last
    /// backoff interval.
    func isOngoing(at now: Date) -> Bool { now >= since && now < until + Self.maximumDelay }

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
