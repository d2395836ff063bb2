import AuthFlowEssentials
import AuthFlowHTTP
import Synchronization

/// Whether a provider is away, as far as the refreshes of one process show.
///
/// One user's failed refresh says little about another's. Failures of several users, with no answer between them, say that the provider is
/// away: one caller asks it again after a while, and the others fail at once.
struct ProviderOutage: Sendable {
    /// How many users' refreshes fail before the others are held back.
    static let tolerated = 5
    /// The first wait, in seconds; each further one is twice as long, up to ``longest``.
    static let first: TimeInterval = 5
    /// The longest wait, in seconds.
    static let longest: TimeInterval = 60
    /// How long the caller that asks again may take, in seconds: then another one asks.
    static let patience: TimeInterval = 35

    private struct Wait {
        let code: AuthError.Code
        let seconds: TimeInterval
        let since: Date
        var until: Date
        /// Whether a caller asks the provider again.
        var isProbed = false
    }

    /// The users whose refreshes have failed, each within a minute after another.
    private var failed: Set<[UInt8]> = []
    private var failedAt: Date?
    private var wait: Wait?

    /// Whether few refreshes are sent, because the provider did not answer the last ones. Where none was asked for since, nothing is known.
    func isHeldBack(at now: Date) -> Bool {
        wait.map { now >= $0.since && now < $0.until + Self.longest } ?? false
    }

    /// A refresh is about to be sent.
    /// - Returns: The error instead; nil when it may be sent.
    mutating func ask(at now: Date) -> AuthError? {
        // A clock that was set back makes no caller wait longer than was meant.
        guard let wait, now >= wait.since else { return nil }
        guard now >= wait.until else {
            let seconds = Int(wait.until.timeIntervalSince(now).rounded(.up))
            // Not the failure itself: it was another user's, and so may its words be.
            return AuthError(
                wait.code,
                "The provider is not responding. Retrying in \(seconds) s.",
                retryAfter: .seconds(seconds)
            )
        }
        self.wait?.until = now + Self.patience
        self.wait?.isProbed = true
        return nil
    }

    /// A refresh has failed.
    /// - Parameters:
    ///   - user: Whose.
    ///   - began: When it was sent.
    ///   - random: Spreads the processes, so that they do not ask all at once.
    mutating func failed(_ user: [UInt8], _ error: AuthError, since began: Date, at now: Date, random: UInt8) {
        guard error.isProviderAway else {
            // A refusal is an answer. Without a status nothing was sent: the next caller asks instead.
            if error.status != nil { answered() } else if wait?.isProbed == true { wait?.until = now }
            return
        }
        // Others whose requests were sent before the wait began.
        if let wait, began <= wait.since, wait.since <= now { return }
        if wait == nil, let failedAt, abs(now.timeIntervalSince(failedAt)) > Self.longest { failed = [] }
        failedAt = now
        if failed.count < Self.tolerated { failed.insert(user) }
        guard failed.count >= Self.tolerated else { return }
        let seconds = min(Self.longest, wait.map { $0.seconds * 2 } ?? Self.first)
        wait = Wait(
            code: error.code,
            seconds: seconds,
            since: now,
            until: now + seconds * (0.75 + 0.5 * Double(random) / 255)
        )
    }

    /// The provider has answered.
    mutating func answered() { (failed, wait) = ([], nil) }
}

extension AuthError {
    /// Whether the provider did not answer, or not as itself. Status 429 is an answer: it asks this client for fewer requests.
    fileprivate var isProviderAway: Bool { isPassing && status != 429 }
}

/// The one ``ProviderOutage`` of a manager.
final class SharedOutage: Sendable {
    private let outage = Mutex(ProviderOutage())

    func use<Return: Sendable>(_ body: (inout ProviderOutage) -> Return) -> Return { outage.withLock { body(&$0) } }
}
