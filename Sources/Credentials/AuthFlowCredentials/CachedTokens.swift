import AuthFlowEssentials
package import AuthFlowOAuth
import Synchronization

/// Cached tokens, and the period in which they are fresh.
package final class CachedTokens: Sendable {
    package let credential: Credential
    private let notBefore: Double
    private let freshUntil: Double
    /// The time after which the next use of the tokens starts a refresh ahead of their expiry.
    private let refreshAt: Double
    private let isRefreshed = Atomic(false)

    /// - Parameters:
    ///   - credential: The credential.
    ///   - margin: The remaining lifetime below which the access token is treated as expired.
    ///   - random: Random jitter, so that tokens issued at the same time are not all refreshed at the same time.
    init(_ credential: Credential, margin: Duration, random: UInt8) {
        self.credential = credential
        self.notBefore = credential.notBefore.timeIntervalSinceReferenceDate
        let end = credential.freshUntil(margin: margin).timeIntervalSinceReferenceDate
        self.freshUntil = end
        // The refresh starts early by at most 30 seconds, and by at most a fifth of the freshness period of the tokens.
        let most = min(30, max(0, end - credential.obtainedAt.timeIntervalSinceReferenceDate) / 5)
        self.refreshAt = end - most * (0.25 + 0.75 * Double(random) / 255)
    }

    /// Whether a refresh ahead of expiry is due; true only for the first caller.
    func isDue(at now: Double) -> Bool {
        now >= refreshAt && credential.tokens.refreshToken != nil
            && !isRefreshed.exchange(true, ordering: .relaxed)
    }

    /// Whether another credential has the same access token and the same application data.
    func isSame(as other: Credential) -> Bool {
        credential.tokens.accessToken == other.tokens.accessToken
            && credential.tokens.expiresAt == other.tokens.expiresAt
            && credential.applicationData == other.applicationData
    }

    /// ``Credential/isFresh(at:margin:)`` with the manager's margin, for the hot path of every request.
    func isFresh(at now: Double) -> Bool { now < freshUntil && now >= notBefore }
}
