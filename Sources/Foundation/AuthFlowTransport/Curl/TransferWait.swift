import AuthFlowHTTP
import HTTPTypes

#if os(Linux)
/// The event that a transfer is waiting for, which determines its timeout and the error when the timeout expires.
enum TransferWait: Equatable {
    /// The request has not been passed to libcurl, because every connection is in use.
    case forConnection
    /// The next part of the request's body, from the caller.
    case forBody
    /// The first byte of the response, or all header fields of a response whose body is streamed.
    case forResponse
    /// The rest of the response.
    case forRest

    /// The timeout, measured from the last byte sent or, while waiting for a connection, from the start of the call.
    func limit(for call: TransportRequest, isStream: Bool, firstByte: Duration) -> Duration {
        switch self {
        case .forConnection, .forBody, .forRest: call.timeout
        // Only the caller knows how long a protected resource may take.
        case .forResponse: isStream || call.pool == .resources ? call.timeout : min(firstByte, call.timeout)
        }
    }

    /// The error when the timeout has expired.
    func error(for call: TransportRequest, after limit: Duration) -> AuthError {
        switch self {
        case .forConnection: call.connectionWaitTimeoutError
        case .forBody:
            AuthError(
                .timedOut,
                "The body of \(call) stalled for \(limit.formattedSeconds).",
                underlyingError: UploadStalled()
            )
        case .forResponse: AuthError(.timedOut, "\(call.place) sent nothing within \(limit.formattedSeconds).")
        case .forRest:
            AuthError(.timedOut, "\(call.place) did not complete the response within \(limit.formattedSeconds).")
        }
    }
}

extension TransportRequest {
    /// The name of the server in error messages.
    var place: String { head.authority ?? "the server" }
}
#endif
