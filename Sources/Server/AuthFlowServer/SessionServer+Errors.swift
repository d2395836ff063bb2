public import AuthFlow

extension SessionServer {
    /// Returns the response if a session or its tokens are unavailable: 401 if the user must sign in, 503 if a retry
    /// may succeed; nil for any other error.
    public static func response(for error: AuthError) -> TransportResponse? {
        switch error.code {
        case .loginRequired: return ServerResponse.plain(.unauthorized)
        case .temporarilyUnavailable, .timedOut, .networkFailed,
            _ where error.code.isOfStore:
            var response = ServerResponse.plain(.serviceUnavailable)
            // RFC 9110 section 10.2.3: whole seconds. A client that retries even a fraction of a second too early is rejected again.
            let wait = min(max(error.retryAfter ?? .seconds(5), .seconds(1)), .seconds(3600))
            response.head.headerFields[.retryAfter] = "\(Int(wait.seconds.rounded(.up)))"
            return response
        default: return nil
        }
    }
}
