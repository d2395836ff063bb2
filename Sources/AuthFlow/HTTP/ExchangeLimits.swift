/// The limits of every exchange with a provider, whichever transport performs it.
enum ExchangeLimits {
    /// Sends a request, bounded in time, following no redirect.
    /// - Throws: What ``HTTPTransport/send(_:)`` throws, or ``AuthError`` with `timed_out`, or with `invalid_reply` for a
    ///   redirect.
    static func send(
        _ call: TransportRequest,
        by transport: any HTTPTransport,
        clock: any Clock<Duration>
    ) async throws -> TransportResponse {
        // The time limit covers the whole exchange: a server that sends a byte now and then does not extend it.
        let response = try await withDeadline(call.timeout, clock: clock) {
            AuthError(.timedOut, "\(call) took longer than \(Int(call.timeout.seconds)) seconds.")
        } _: {
            try await transport.send(call)
        }
        // A redirect would carry the code, the secret or the token to an address that is not configured.
        guard !(300..<400).contains(response.status) else {
            throw AuthError(
                .invalidResponse,
                "The response to \(call) is a redirect (\(response.status)), which is never followed here.",
                status: response.status
            )
        }
        return response
    }
}
