public import AuthFlow

extension SessionServer {
    /// Returns the response if a session or its tokens are unavailable: 401 if the user must sign in, 503 if a retry
    /// may succeed; nil for any other error.
    public static func response(for error: AuthError) -> TransportResponse? {
        switch error.code {
        case .loginRequired: return ServerResponse.plain(.unauthorized)
        case .temporarilyUnavailable, .timedOut, .networkFailed, .storageFailed, .storeDamaged, .leaseBusy, .leaseLost,
            .outcomeUnknown:
            var response = ServerResponse.plain(.serviceUnavailable)
            // RFC 9110 section 10.2.3.
            let wait = min(max(error.retryAfter ?? .seconds(5), .seconds(1)), .seconds(3600))
            response.head.headerFields[.retryAfter] = "\(wait.components.seconds)"
            return response
        default: return nil
        }
    }
}
