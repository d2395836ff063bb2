import AuthFlowHTTP

extension OAuthClient {
    /// Requests an access token for the client itself (RFC 6749 section 4.4): no user is involved.
    /// - Parameters:
    ///   - scopes: The scopes to request; default: the registration's, without `openid`, which requires a user.
    ///   - resources: The target resources of the token (RFC 8707); default: the registration's.
    /// - Returns: A credential without an identity. Request another credential when the access token expires, because
    ///   there is no refresh token.
    /// - Throws: ``AuthError`` with `invalid_configuration` for a public client, or a resource that is not an absolute URI; `provider_rejected`,
    ///   `invalid_response`.
    public func clientCredentials(
        scopes: [String]? = nil,
        resources: [String]? = nil
    ) async throws -> Credential {
        // RFC 6749 section 4.4: "The client credentials grant type MUST only be used by confidential clients."
        guard registration.authentication.method != .none else {
            throw AuthError(
                .invalidConfiguration,
                "A public client cannot use client credentials (RFC 6749 section 4.4). Configure client authentication."
            )
        }
        try ResourceIdentifier.check(resources ?? [])
        let metadata = try await metadata()
        var request = try tokenRequest(.clientCredentials, ["grant_type": "client_credentials"], at: metadata)
        let scopes = scopes ?? ownScopes
        if !scopes.isEmpty { request.parameters["scope"] = scopes.joined(separator: " ") }
        let resources = resources ?? registration.resources
        request.addResources(resources)
        try request.addAuthorizationDetails(registration.authorizationDetails, at: metadata)
        let response = try await sendTokenRequest(request, scopes: scopes, key: try await newDPoPKey(at: metadata))
        return try await machineToMachineCredential(
            response,
            resources: resources,
            details: registration.authorizationDetails,
            metadata
        )
    }
}
