public import AuthFlowJSON
import HTTPTypes

extension OAuthClient {
    /// Asks the provider whether a token is active, and what it is for (RFC 7662).
    ///
    /// Most providers respond to confidential clients only.
    /// - Parameters:
    ///   - token: The token.
    ///   - typeHint: `token_type_hint`: what kind of token it is; nil to send no hint.
    /// - Returns: The response. `active` is there, and when it is false nothing else is to be believed.
    /// - Throws: ``AuthError`` with `unsupported` when the provider has no such service, `provider_rejected` when it does not
    ///   respond to this client.
    public func introspect(_ token: Secret, typeHint: String? = "access_token") async throws -> JSON {
        let path: EndpointPath = \.introspectionEndpoint
        let endpoint = try (try await metadata(with: path)).required(path, "introspection endpoint")
        var request = ProviderRequest(
            purpose: .introspection,
            endpoint: endpoint,
            protectedParameters: ["token": token.exposed]
        )
        request.protectedParameters["token_type_hint"] = typeHint
        let response = try await sendFormRequest(request)
        let json = try adapter.responseParameters(response)
        // RFC 7662 section 2.2: active is REQUIRED.
        guard response.status == 200, json["active"]?.bool != nil else {
            throw AuthError(
                .providerRejected,
                "\(endpoint.host) did not say whether the token is active (status \(response.status)).",
                providerError: response.http.providerError,
                status: response.status
            )
        }
        return json
    }
}
