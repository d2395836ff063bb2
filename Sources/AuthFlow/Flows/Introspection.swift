public import AuthFlowJSON
import HTTPTypes

extension AuthClient {
    /// Asks the provider whether a token is good, and for what (RFC 7662).
    ///
    /// Most providers answer confidential clients only.
    /// - Parameters:
    ///   - token: The token; default: the access token of the user who is signed in.
    ///   - typeHint: `token_type_hint`: what kind of token it is.
    /// - Returns: The response. `active` is there, and when it is false nothing else is to be believed.
    /// - Throws: ``AuthError`` with `unsupported` when the provider has no such service, `provider_rejected` when it does not
    ///   answer this client.
    public func introspect(_ token: Secret? = nil, typeHint: String = "access_token") async throws -> JSON {
        let path = \ProviderMetadata.introspectionEndpoint
        let endpoint = try (try await engine.metadata(with: path)).required(path, "introspection endpoint")
        var token = token
        if let token {
            try await requireBinding(ofStored: [token], with: path)
        } else {
            let credential = try await keeper.credential()
            try await engine.requireBinding(of: credential, with: path)
            token = credential.tokens.accessToken
        }
        let response = try await engine.send(
            ProviderRequest(
                purpose: .introspection,
                endpoint: endpoint,
                parameters: [:],
                headerFields: [:],
                protectedParameters: ["token": token?.exposed ?? "", "token_type_hint": typeHint]
            ),
            scopes: []
        )
        let json = try engine.provider.parameters(of: response)
        // RFC 7662 section 2.2: active is REQUIRED.
        guard response.status == 200, json["active"]?.bool != nil else {
            throw AuthError(
                .providerRejected,
                "\(endpoint.host) did not answer the question about the token (status \(response.status)).",
                providerError: response.http.providerError,
                status: response.status
            )
        }
        return json
    }
}

extension AuthClient {
    /// Passes when tokens that an app gives are not stored, or may go to the provider's endpoints as they are known now.
    /// - Throws: ``AuthError`` with `login_required` when they may not.
    func requireBinding(
        ofStored tokens: [Secret?],
        with path: KeyPath<ProviderMetadata, Endpoint?>? = nil
    ) async throws {
        for credential in try await keeper.book().entries.compactMap(\.credential) {
            let stored = credential.tokens
            let known = [stored.accessToken, stored.refreshToken, stored.idToken, stored.deviceSecret].compactMap { $0 }
            guard tokens.contains(where: { $0.map(known.contains) == true }) else { continue }
            try await engine.requireBinding(of: credential, with: path)
        }
    }
}
