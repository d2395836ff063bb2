package import HTTPTypes
import Synchronization

/// The limits for every request to a provider, regardless of the transport.
package enum ExchangeLimits {
    /// Sends a request with a timeout, without following redirects.
    ///
    /// A request waits for a connection for at most its timeout, and then fails without being sent. Once it has been sent, the full timeout
    /// applies again to its response, because a late token response may contain the only copy of a refresh token.
    /// - Throws: Any error thrown by ``HTTPTransport/send(_:)``, or ``AuthError`` with `timed_out`, or with `invalid_response`
    ///   for a redirect.
    package static func send(
        _ call: TransportRequest,
        by transport: any HTTPTransport,
        clock: any Clock<Duration>
    ) async throws -> TransportResponse {
        let sending = Sending()
        var observed = call
        observed.addCheckBeforeSending { () throws(AuthError) in try sending.begin(call) }
        // A server that trickles bytes does not extend the timeout.
        var response = try await withDeadline(call.timeout, clock: clock) {
            sending.end() ? call.timeout : nil
        } orThrow: {
            AuthError(.timedOut, "\(call) took longer than \(call.timeout.formattedSeconds).")
        } _: { [observed] in
            try await transport.send(observed)
        }
        response.request = call
        try rejectRedirect(response.head, to: call)
        return response
    }

    /// Following a redirect would send the code, the secret or the token to a URL that is not configured. A 304 does not redirect to
    /// another URL (RFC 9110 section 15.4.5).
    package static func rejectRedirect(_ head: HTTPResponse, to call: TransportRequest) throws(AuthError) {
        let status = head.status.code
        guard !(300..<400).contains(status) || status == 304 else {
            let target = head.headerFields[.location].map { " to \(Redaction.url($0))" } ?? ""
            throw AuthError(
                .invalidResponse,
                "The response to \(call) is a redirect (\(status))\(target). Redirects are not followed.",
                status: status
            )
        }
    }
}

/// The race between sending a request and the timeout for sending it: the first of the two wins.
private final class Sending: Sendable {
    private enum State { case waiting, sent, over }

    private let state = Mutex(State.waiting)

    /// - Throws: ``AuthError`` with `timed_out` when the timeout has expired.
    func begin(_ call: TransportRequest) throws(AuthError) {
        let hasEnded = state.withLock { state in
            guard state != .over else { return true }
            state = .sent
            return false
        }
        if hasEnded { throw call.connectionWaitTimeoutError }
    }

    /// Marks the timeout for sending as expired. If the request has been sent, the same timeout applies once to its response.
    /// - Returns: Whether the request has been sent.
    func end() -> Bool {
        state.withLock { state in
            defer { state = .over }
            return state == .sent
        }
    }
}

extension TransportRequest {
    /// The error for a request for which no connection became available in time.
    package var connectionWaitTimeoutError: AuthError {
        AuthError(.timedOut, "\(self) was not sent: no connection was available within \(timeout.formattedSeconds).")
    }
}
