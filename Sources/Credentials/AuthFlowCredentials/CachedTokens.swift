import AuthFlowEssentials
import AuthFlowHTTP
package import AuthFlowOAuth
import Synchronization

/// Tokens in memory, and the time in which they are fresh.
package final class CachedTokens: Sendable {
    package let credential: Credential
    private let notBefore: Double
    private let freshUntil: Double
    /// When a use of the tokens begins to refresh them.
    private let refreshAt: Double
    private let isRefreshed = Atomic(false)

    /// - Parameters:
    ///   - credential: The credential.
    ///   - margin: How long before its expiry the access token counts as expired.
    ///   - random: Spreads the refreshes of tokens that came at the same time.
    init(_ credential: Credential, margin: Duration, random: UInt8) {
        self.credential = credential
        self.notBefore = credential.notBefore.timeIntervalSinceReferenceDate
        let end = credential.freshUntil(margin: margin).timeIntervalSinceReferenceDate
        self.freshUntil = end
        // At most half a minute, and a fifth of the time in which they are fresh.
        let most = min(30, max(0, end - credential.obtainedAt.timeIntervalSinceReferenceDate) / 5)
        self.refreshAt = end - most * (0.25 + 0.75 * Double(random) / 255)
    }

    /// Whether it is time to refresh, for the first caller that asks.
    func isDue(at now: Double) -> Bool {
        now >= refreshAt && credential.tokens.refreshToken != nil
            && !isRefreshed.exchange(true, ordering: .relaxed)
    }

    /// Whether they are those of another credential, with the same data of the application.
    func isSame(as other: Credential) -> Bool {
        credential.tokens.accessToken == other.tokens.accessToken
            && credential.tokens.expiresAt == other.tokens.expiresAt
            && credential.applicationData == other.applicationData
    }

    func isFresh(at now: Double) -> Bool { now < freshUntil && now >= notBefore }
}
