public import AuthFlowEssentials
import HTTPTypes

extension TransportResponse {
    /// Returns if the server has handled the request, and throws if the server is unavailable or limits the request rate.
    ///
    /// Any status of 500 or above is a server error; except with 503, an OAuth error in the response takes precedence. The OAuth errors
    /// `server_error` and `temporarily_unavailable` are server errors with any status of 400 or above: some providers send them with status 400.
    ///
    /// Status 429 (RFC 6585 section 4) and 503 (RFC 9110 section 15.6.4) may specify the delay before a retry in
    /// `Retry-After`. Many providers report the number of remaining requests in `X-RateLimit-Remaining` and the time
    /// of the next reset, in seconds since the Epoch, in `X-RateLimit-Reset` (or with the prefix `X-Rate-Limit-`). Envoy and some other
    /// gateways send the number of seconds until the reset instead. When no requests remain, some providers respond with status 403.
    /// - Parameters:
    ///   - source: The server that responded, for the message.
    ///   - now: The current time.
    /// - Throws: ``AuthError`` with `temporarily_unavailable`, and the delay before a retry if it is known.
    public func requireAvailable(from source: String, now: Date) throws(AuthError) {
        try requireAvailable(from: source, now: now, error: providerError)
    }

    /// - Parameter error: The error in the response, whose format may be one that only an adapter can parse.
    package func requireAvailable(from source: String, now: Date, error: ProviderError?) throws(AuthError) {
        guard status >= 400 else { return }
        let isExhausted = rateLimit("Remaining") == "0"
        let retryAfter = retryAfter(now: now)
        // Some servers report a rate limit only in the error description or, like Google, in the code.
        let isNamed =
            error?.errorDescription?.lowercased().contains("rate limit") == true
            || error?.error == "rate_limit_exceeded"
        let isLimited = status == 429 || status == 403 && (isExhausted || retryAfter != nil || isNamed)
        // Except with status 503, an OAuth error takes precedence over the status, because some servers send every error with status 500.
        let isServerError =
            status == 503 || status >= 500 && error?.lacksErrorCode != false
            || error?.isServerError == true
        guard isLimited || isServerError else { return }
        let reset = isExhausted ? rateLimit("Reset").flatMap { UInt32($0) }.map { TimeInterval($0) } : nil
        // As a time, a small number would be decades ago.
        let time = serverTime(at: now).timeIntervalSince1970
        let untilReset = reset.map { Duration.seconds($0 < 1e9 ? $0 : max(0, $0 - time)) }
        let wait = retryAfter ?? untilReset
        // A delay of zero, or a time in the past, says nothing about when a retry will succeed.
        let shown = wait.flatMap { $0 > .zero && $0 <= .seconds(86_400) ? $0 : nil }
        let advice = shown.map { "Try again in \(Int($0.seconds.rounded(.up))) s." } ?? "Try again later."
        throw AuthError(
            .temporarilyUnavailable,
            isLimited
                ? "\(source) limits the request rate (status \(status)). \(advice)"
                : "\(source) responded with a server error (status \(status)). \(advice)",
            providerError: error,
            status: status,
            retryAfter: wait
        )
    }

    private func rateLimit(_ part: String) -> String? {
        ["X-RateLimit-", "X-Rate-Limit-"].lazy.compactMap { HTTPField.Name($0 + part) }
            .compactMap { head.headerFields[$0] }.first
    }
}
