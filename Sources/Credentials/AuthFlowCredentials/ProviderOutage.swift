import AuthFlowEssentials
import AuthFlowHTTP
import Synchronization

/// The detection of a provider outage, based on one process's refreshes.
///
/// The failure of one user's refresh does not indicate an outage. If the refreshes of several users fail with no
/// response in between, the provider is considered unavailable: one caller retries after a delay, and the others fail
/// immediately.
struct ProviderOutage: Sendable {
    /// The number of users whose refreshes must fail before other refreshes are throttled.
    static let failureThreshold = 5
    /// The initial delay, in seconds. Each subsequent delay is twice as long, up to ``maximumDelay``.
    static let initialDelay: TimeInterval = 5
    /// The maximum delay before jitter, in seconds.
    static let maximumDelay: TimeInterval = 60
    /// The maximum duration of a retry, in seconds: after that, another caller retries.
    static let probeTimeout: TimeInterval = 35

    private struct Wait {
        let code: AuthError.Code
        let seconds: TimeInterval
        let since: Date
        var until: Date
        /// Whether a caller is retrying a request to the provider.
        var isProbed = false
    }

    /// The users whose refreshes have failed, each within a minute of the previous failure.
    private var failed: Set<[UInt8]> = []
    private var failedAt: Date?
    private var wait: Wait?

    /// Whether refreshes are throttled because the provider failed to handle the latest refreshes. The value also becomes
    /// false ``maximumDelay`` seconds after the end of the delay, unless another refresh has been attempted.
    func isThrottled(at now: Date) -> Bool {
        wait.map { now >= $0.since && now < $0.until + Self.maximumDelay } ?? false
    }

    /// A refresh is about to be sent.
    /// - Returns: The error to throw instead; nil when the refresh may be sent.
    mutating func admitRefresh(at now: Date) -> AuthError? {
        // Even if the clock was set back, no caller waits longer than intended.
        guard let wait, now >= wait.since else { return nil }
        guard now >= wait.until else {
            let seconds = Int(wait.until.timeIntervalSince(now).rounded(.up))
            // The original failure is not thrown, because its message may refer to another user.
            return AuthError(
                wait.code,
                "The provider is unavailable. Try again in \(seconds) s.",
                retryAfter: .seconds(seconds)
            )
        }
        self.wait?.until = now + Self.probeTimeout
        self.wait?.isProbed = true
        return nil
    }

    /// A refresh has failed.
    /// - Parameters:
    ///   - user: The user whose tokens were being refreshed.
    ///   - began: The time at which the refresh was sent.
    ///   - random: Random jitter, so that the processes do not all retry at the same time.
    mutating func failed(_ user: [UInt8], _ error: AuthError, since began: Date, at now: Date, random: UInt8) {
        guard error.indicatesOutage else {
            // A rejection counts as a response, and so does a response that is rejected. Otherwise, no request was sent, so the next caller
            // retries instead.
            if error.status != nil || Self.rejectedResponseCodes.contains(error.code) {
                answered()
            } else {
                notSent(at: now)
            }
            return
        }
        // Ignore a refresh that was sent before the throttling started.
        if let wait, began <= wait.since, wait.since <= now { return }
        if wait == nil, let failedAt, abs(now.timeIntervalSince(failedAt)) > Self.maximumDelay { failed = [] }
        failedAt = now
        if failed.count < Self.failureThreshold { failed.insert(user) }
        guard failed.count >= Self.failureThreshold else { return }
        let seconds = min(Self.maximumDelay, wait.map { $0.seconds * 2 } ?? Self.initialDelay)
        wait = Wait(
            code: error.code,
            seconds: seconds,
            since: now,
            until: now + seconds * (0.75 + 0.5 * Double(random) / 255)
        )
    }

    /// The codes of errors without a status that are thrown after a response.
    private static let rejectedResponseCodes: Set<AuthError.Code> = [
        .invalidResponse, .invalidIDToken, .invalidUserInfo, .insufficientUserAuthentication,
    ]

    /// A refresh that was admitted was not sent, so the next caller retries instead.
    mutating func notSent(at now: Date) {
        if wait?.isProbed == true { wait?.until = now }
    }

    /// The provider has responded.
    mutating func answered() { (failed, wait) = ([], nil) }
}

extension AuthError {
    /// Whether the provider did not respond, or responded with a server error. A rate limit (status 429, or 403) is not an outage: it
    /// asks this client to send fewer requests.
    fileprivate var indicatesOutage: Bool { isTransient && status.map { $0 >= 500 } != false }
}

/// A manager's only ``ProviderOutage``.
final class SharedOutage: Sendable {
    private let outage = Mutex(ProviderOutage())

    func use<Return: Sendable>(_ body: (inout ProviderOutage) -> Return) -> Return { outage.withLock { body(&$0) } }
}
