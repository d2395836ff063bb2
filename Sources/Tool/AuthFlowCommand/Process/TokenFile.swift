import AuthFlow
import AuthFlowEssentials

/// A file with an access token that is kept up to date while another program reads it.
struct TokenFile: Sendable {
    /// The maximum delay after a failed refresh; an error with a shorter `retryAfter` reduces it.
    static let pauseAfterFailure = Duration.seconds(30)

    let file: PrivateFile
    /// The minimum remaining lifetime of the token in the file.
    var lifetime = Duration.zero
    var clock: any Clock<Duration> = ContinuousClock()
    var host = HostServices.system
    /// Returns a token whose remaining lifetime is at least ``lifetime``, refreshed if necessary.
    let token: @Sendable () async throws -> TokenSet
    /// Reports a failed refresh to the user.
    let report: @Sendable (any Error) -> Void

    /// Writes each new token to the file, until the task is cancelled.
    ///
    /// The loop continues after the session has ended, because the user may sign in again. Consecutive
    /// failures with the same error code are reported only once.
    /// - Parameter tokens: The tokens in the file.
    func keepUpToDate(_ tokens: TokenSet) async {
        var last = tokens
        var reported: AuthError.Code?
        var pause = timeToRefresh(last)
        while (try? await clock.sleep(for: pause)) != nil {
            do {
                let fresh = try await token()
                if fresh.accessToken != last.accessToken {
                    try file.replace(with: Array(fresh.accessToken.exposed.utf8))
                    last = fresh
                }
                (reported, pause) = (nil, timeToRefresh(last))
            } catch {
                guard !Task.isCancelled else { return }
                let (code, wait) = ((error as? AuthError)?.code, (error as? AuthError)?.retryAfter)
                if code == nil || code != reported { report(error) }
                (reported, pause) = (
                    code, min(max(wait ?? Self.pauseAfterFailure, .seconds(1)), Self.pauseAfterFailure)
                )
            }
        }
    }

    /// Half of the time until the token's remaining lifetime falls below the minimum, but at least one second and at
    /// most five minutes, because another process may replace the token at any time.
    private func timeToRefresh(_ tokens: TokenSet) -> Duration {
        let rest = tokens.expiresAt.map { $0.timeIntervalSince(host.now()) } ?? 3600
        return .seconds(min(300, max(1, (rest - lifetime.seconds) / 2)))
    }
}
