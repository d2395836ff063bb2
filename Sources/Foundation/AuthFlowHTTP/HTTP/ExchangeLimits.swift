package import HTTPTypes
import Synchronization

/// The limits of every exchange with a provider, whichever transport performs it.
package enum ExchangeLimits {
    /// Sends a request, bounded in time, following no redirect.
    ///
    /// A request waits for a connection as long as its timeout at most, and is not sent afterwards. Once it has been sent it has the
    /// whole timeout for its response: a token response that comes late may have the only copy of a refresh token in it.
    /// - Throws: What ``HTTPTransport/send(_:)`` throws, or ``AuthError`` with `timed_out`, or with `invalid_reply` for a
    ///   redirect.
    package static func send(
        _ call: TransportRequest,
        by transport: any HTTPTransport,
        clock: any Clock<Duration>
    ) async throws -> TransportResponse {
        let sending = Sending()
        var observed = call
        observed.addCheckBeforeSending { () throws(AuthError) in try sending.begin(call) }
        // A server that sends a byte now and then extends nothing.
        let response = try await withDeadline(call.timeout, clock: clock) {
            sending.end() ? call.timeout : nil
        } orThrow: {
            AuthError(.timedOut, "\(call) took longer than \(Int(call.timeout.seconds)) seconds.")
        } _: { [observed] in
            try await transport.send(observed)
        }
        try refuseRedirect(response.head, to: call)
        return response
    }

    /// A redirect would carry the code, the secret or the token to a URL that is not configured. A 304 has no location (RFC 9110
    /// section 15.4.5).
    package static func refuseRedirect(_ head: HTTPResponse, to call: TransportRequest) throws(AuthError) {
        let status = head.status.code
        guard !(300..<400).contains(status) || status == 304 else {
            throw AuthError(
                .invalidResponse,
                "The response to \(call) is a redirect (\(status)), which is never followed here.",
                status: status
            )
        }
    }
}

/// The moment at which a request is sent, and the one at which its time to be sent is over: whichever comes first counts.
private final class Sending: Sendable {
    private enum State { case waiting, sent, over }

    private let state = Mutex(State.waiting)

    /// - Throws: ``AuthError`` with `timed_out` when the time is over.
    func begin(_ call: TransportRequest) throws(AuthError) {
        let isOver = state.withLock { state in
            guard state != .over else { return true }
            state = .sent
            return false
        }
        if isOver { throw call.wasNotSent }
    }

    /// Ends the time to be sent; a response has as much again, once.
    /// - Returns: Whether the request has been sent.
    func end() -> Bool {
        state.withLock { state in
            defer { state = .over }
            return state == .sent
        }
    }
}

extension TransportRequest {
    /// The error of a request for which no connection became available in time.
    package var wasNotSent: AuthError {
        AuthError(
            .timedOut,
            "\(self) was not sent: no connection was available within \(Int(timeout.seconds)) seconds."
        )
    }
}
