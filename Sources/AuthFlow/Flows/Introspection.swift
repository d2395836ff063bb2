public import AuthFlowJSON
import HTTPTypes

extension AuthClient {
    /// Asks the provider whether a token is good, and for what (RFC 7662).
    ///
    /// Most providers answer confidential clients only.
    /// - Parameters:
    ///   - token: The token; the access token of the person who is signed in unless given.
    ///   - typeHint: `token_type_hint`: what kind of token it is.
    /// - Returns: The reply. `active` is there, and when it is false nothing else is to be believed.
    /// - Throws: ``AuthError`` with `unsupported` when the provider has no such service, `provider_rejected` when it does not
    ///   answer this client.
    public func introspect(_ token: Secret? = nil, typeHint: String = "access_token") async throws -> JSON {
        let path = \ProviderMetadata.introspectionEndpoint
        let endpoint = try (try await engine.metadata(with: path)).required(path, "introspection endpoint")
        var token = token
        if token == nil {
            let credential = try await keeper.credential()
            try await engine.requireBinding(of: credential, with: path)
            token = credential.tokens.accessToken
        }
        let reply = try await engine.send(
            ProviderRequest(
                purpose: .introspection,
                endpoint: endpoint,
                parameters: [:],
                headerFields: [:],
                protectedParameters: ["token": token?.exposed ?? "", "token_type_hint": typeHint]
            ),
            scopes: []
        )
        let json = try engine.provider.parameters(of: reply)
        // RFC 7662 section 2.2: active is REQUIRED.
        guard reply.status == 200, json["active"]?.bool != nil else {
            throw AuthError(
                .providerRejected,
                "\(endpoint.host) did not answer the question about the token (status \(reply.status)).",
                providerError: reply.http.providerError,
                status: reply.status
            )
        }
        return json
    }
}
