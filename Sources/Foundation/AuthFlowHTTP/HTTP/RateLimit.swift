public import AuthFlowEssentials
import HTTPTypes

extension TransportResponse {
    /// Returns when the server has handled the request, and throws when it is unavailable or limits the request rate.
    ///
    /// Any status from 500 on is a server error, unless the body names an OAuth error.
    ///
    /// Status 429 (RFC 6585 section 4) and 503 (RFC 9110 section 15.6.4) may say when to retry in `Retry-After`. Many
    /// providers count requests in `X-RateLimit-Remaining` and say in `X-RateLimit-Reset`, in seconds since 1970, when
    /// the count starts again, or write `X-Rate-Limit-`; some then respond with 403.
    /// - Parameters:
    ///   - source: The server that responded, for the message.
    ///   - now: The current time.
    /// - Throws: ``AuthError`` with `temporarily_unavailable`, and how long to wait when that is known.
    public func requireAvailable(from source: String, now: Date) throws(AuthError) {
        let isUsedUp = rateLimit("Remaining") == "0"
        let retryAfter = retryAfter(now: now)
        let isLimited = status == 429 || status == 403 && (isUsedUp || retryAfter != nil)
        guard isLimited || status >= 500 else { return }
        let words = providerError
        guard isLimited || status == 503 || !Self.saysMore(words) else { return }
        let reset = isUsedUp ? rateLimit("Reset").flatMap { UInt32($0) } : nil
        let untilReset = reset.map { Duration.seconds(max(0, TimeInterval($0) - now.timeIntervalSince1970)) }
        let wait = retryAfter ?? untilReset
        let advice =
            wait.flatMap { $0 <= .seconds(86_400) ? "Try again in \(Int($0.seconds.rounded(.up))) s." : nil }
            ?? "Try again later."
        throw AuthError(
            .temporarilyUnavailable,
            isLimited
                ? "\(source) limits the request rate (status \(status)). \(advice)"
                : "\(source) has a server error (status \(status)). \(advice)",
            providerError: words,
            status: status,
            retryAfter: wait
        )
    }

    /// Whether an OAuth error came with the status, and takes precedence: some servers send all of theirs with 500.
    private static func saysMore(_ error: ProviderError?) -> Bool {
        guard let error else { return false }
        return !["server_error", "temporarily_unavailable"].contains(error.error) && !error.error.hasPrefix("status ")
    }

    private func rateLimit(_ part: String) -> String? {
        ["X-RateLimit-", "X-Rate-Limit-"].lazy.compactMap { HTTPField.Name($0 + part) }
            .compactMap { head.headerFields[$0] }.first
    }
}
