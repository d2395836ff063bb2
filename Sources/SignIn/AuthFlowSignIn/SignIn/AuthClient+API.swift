public import AuthFlowOAuth

extension AuthClient {
    /// Calls an API with a fresh access token, sent only in the header and only to an origin that the options allow.
    ///
    /// When the API responds with 401, the token is refreshed and the request is sent once more. If the API requires a stronger or more recent
    /// authentication (RFC 9470), the response is returned, because a refresh is not an authentication of the user. Redirects are not followed.
    /// - Parameter request: The request, without an `Authorization` header field. A response that is larger than its
    ///   ``TransportRequest/maximumResponseSize`` (default: 1 MiB) is an error.
    /// - Returns: The response, regardless of its status.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the origin is not allowed; any error that ``freshTokens(account:)`` or
    ///   the transport throws.
    public func send(_ request: TransportRequest) async throws -> TransportResponse {
        let endpoint = try requireAllowed(request.url)
        guard request.head.headerFields[.authorization] == nil else {
            throw AuthError(.invalidConfiguration, "The request already has an Authorization header field.")
        }
        // A slow API must not delay token requests.
        var request = request
        request.pool = .resources
        var refused: TransportResponse?
        do {
            return try await perform { [request] tokens in
                let response = try await client.send(request, with: tokens)
                guard response.status == 401 else { return response }
                // Another process may have signed the user in again.
                if Self.requiresAuthentication(response),
                    try await credential()?.tokens.accessToken == tokens.accessToken
                {
                    return response
                }
                refused = response
                throw AuthError(.accessTokenRejected, "\(endpoint) does not accept the access token.")
            }
        } catch let error as AuthError where error.code == .accessTokenRejected {
            guard let refused else { throw error }
            return refused
        }
    }

    /// The header fields that authorize one request with a fresh access token: `Authorization`, and a DPoP proof if the tokens
    /// are DPoP-bound (RFC 9449). For programs that send requests without ``send(_:)``.
    /// - Parameters:
    ///   - method: The method of the request.
    ///   - url: The URL of the request.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the origin is not allowed; any error that ``freshTokens(account:)`` throws.
    public func authorizationFields(method: HTTPRequest.Method, url: String) async throws -> HTTPFields {
        let endpoint = try requireAllowed(url)
        return try await client.authorizationFields(method: method, endpoint: endpoint, tokens: try await freshTokens())
    }

    /// Whether the API requires the user to authenticate again (RFC 9470 section 3), so that a refreshed access token would not be sufficient.
    private static func requiresAuthentication(_ response: TransportResponse) -> Bool {
        AuthenticationChallenge.challenges(in: response).contains {
            $0.parameters["error"] == "insufficient_user_authentication"
        }
    }

    /// Checks that the access token may be sent to the origin of a URL.
    private func requireAllowed(_ url: String) throws(AuthError) -> Endpoint {
        let endpoint = try Endpoint(url, name: "URL of the API")
        guard options.apiOrigins.contains(where: { $0.origin == endpoint.origin }) else {
            throw AuthError(
                .invalidConfiguration,
                "The access token must not be sent to \(endpoint.origin). If it is an API of this provider, add it to apiOrigins in the options, or to \"api_origins\" in a configuration file."
            )
        }
        return endpoint
    }
}
