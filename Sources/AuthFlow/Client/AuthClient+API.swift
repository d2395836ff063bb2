import HTTPTypes

extension AuthClient {
    /// Calls an API with the access token: fresh, in the header alone, and only at an origin that the settings allow.
    ///
    /// When the API answers with 401 the token is refreshed and the call is made once more. No redirect is followed.
    /// - Parameter call: The call, without an `Authorization` field.
    /// - Returns: The response, whatever its status.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the token may not go there; what ``freshTokens()`` and the
    ///   transport throw.
    public func send(_ call: TransportRequest) async throws -> TransportResponse {
        let endpoint = try Endpoint(call.url, name: "address of the API")
        guard engine.settings.apiOrigins.contains(where: { $0.origin == endpoint.origin }) else {
            throw AuthError(
                .invalidConfiguration,
                "The access token may not be sent to \(endpoint.origin). If it is an API of this provider's, add it to \"api_origins\"."
            )
        }
        guard call.head.headerFields[.authorization] == nil else {
            throw AuthError(.invalidConfiguration, "The call has an Authorization field already.")
        }
        var refused: TransportResponse?
        do {
            return try await perform { tokens in
                let response = try await engine.send(call, with: tokens)
                guard response.status == 401 else { return response }
                refused = response
                throw AuthError(.accessTokenRejected, "\(endpoint) does not accept the access token.")
            }
        } catch let error as AuthError where error.code == .accessTokenRejected {
            guard let refused else { throw error }
            return refused
        }
    }
}
