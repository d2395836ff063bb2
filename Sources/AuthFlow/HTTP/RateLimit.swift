public import Foundation
import HTTPTypes

extension HTTPReply {
    /// Passes when the server has answered, and throws when it only says that it cannot now, or is asked too often.
    ///
    /// Status 429 (RFC 6585 section 4) and 503 (RFC 9110 section 15.6.4) may say when to come back in `Retry-After`. Many
    /// providers count calls in `X-RateLimit-Remaining` and say in `X-RateLimit-Reset`, in seconds since 1970, when the count
    /// begins again, or write `X-Rate-Limit-`; some then answer with 403.
    /// - Parameters:
    ///   - source: Who answered, for the message.
    ///   - now: The time.
    /// - Throws: ``AuthError`` with `temporarily_unavailable`, and how long to wait when that is known.
    public func requireAvailable(from source: String, now: Date) throws(AuthError) {
        let isUsedUp = rateLimit("Remaining") == "0"
        let retryAfter = retryAfter(now: now)
        guard status == 429 || status == 503 || status == 403 && (isUsedUp || retryAfter != nil) else { return }
        let reset = isUsedUp ? rateLimit("Reset").flatMap { UInt32($0) } : nil
        let untilReset = reset.map { Duration.seconds(max(0, TimeInterval($0) - now.timeIntervalSince1970)) }
        throw AuthError(
            .temporarilyUnavailable,
            "\(source) cannot answer now, or limits how often it is asked (status \(status)).",
            retryAfter: retryAfter ?? untilReset
        )
    }

    private func rateLimit(_ part: String) -> String? {
        ["X-RateLimit-", "X-Rate-Limit-"].lazy.compactMap { HTTPField.Name($0 + part) }
            .compactMap { response.headerFields[$0] }.first
    }
}
