import HTTPTypes

extension AuthClient {
    /// Calls an API with the access token: fresh, in the header alone, and only at an origin that the settings allow.
    ///
    /// When the API answers with 401 the token is refreshed and the call is made once more. No redirect is followed.
    /// - Parameter call: The call, without an `Authorization` field.
    /// - Returns: The reply, whatever its status.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the token may not go there; what ``freshTokens()`` and the
    ///   transport throw.
    public func send(_ call: HTTPCall) async throws -> HTTPReply {
        let endpoint = try Endpoint(call.url, name: "address of the API")
        guard engine.settings.apiOrigins.contains(where: { $0.origin == endpoint.origin }) else {
            throw AuthError(
                .invalidConfiguration,
                "The access token may not be sent to \(endpoint.origin). If it is an API of this provider's, add it to \"api_origins\"."
            )
        }
        guard call.request.headerFields[.authorization] == nil else {
            throw AuthError(.invalidConfiguration, "The call has an Authorization field already.")
        }
        var refused: HTTPReply?
        do {
            return try await perform { tokens in
                let reply = try await engine.send(call, with: tokens)
                guard reply.status == 401 else { return reply }
                refused = reply
                throw AuthError(.accessTokenRejected, "\(endpoint) does not accept the access token.")
            }
        } catch let error as AuthError where error.code == .accessTokenRejected {
            guard let refused else { throw error }
            return refused
        }
    }
}
