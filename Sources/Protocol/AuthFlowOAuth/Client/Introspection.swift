public import AuthFlowHTTP
import AuthFlowIssuer
public import AuthFlowJSON

extension OAuthClient {
    /// Requests the state of a token, and information about it, from the provider (RFC 7662).
    ///
    /// Most providers allow introspection only to confidential clients.
    /// - Parameters:
    ///   - token: The token.
    ///   - typeHint: `token_type_hint`: the type of the token; nil to send no hint.
    /// - Returns: The response, which always contains `active`; if `active` is false, ignore the other members. If the registration requires signed
    ///   introspection, the response was signed for this client (RFC 9701).
    /// - Throws: ``AuthError`` with `unsupported` when the provider has no such endpoint, `provider_rejected` when the endpoint
    ///   rejects this client, `invalid_response` when a required signature is missing or invalid.
    public func introspect(_ token: Secret, typeHint: String? = "access_token") async throws -> JSON {
        let path: EndpointPath = \.introspectionEndpoint
        let endpoint = try (try await metadata(with: path)).required(path, "introspection endpoint")
        var request = ProviderRequest(
            purpose: .introspection,
            endpoint: endpoint,
            protectedParameters: ["token": token.exposed]
        )
        request.protectedParameters["token_type_hint"] = typeHint
        let requirement = registration.signedIntrospection
        if requirement != nil { request.headerFields[.accept] = SignedIntrospection.mediaType }
        let response = try await sendFormRequest(request)
        guard response.status == 200 else { throw unexpectedResponse(response) }
        if let requirement { return try await signedIntrospection(response, requirement) }
        let json = try adapter.responseParameters(response)
        // RFC 7662 section 2.2: active is REQUIRED.
        guard json["active"]?.bool != nil else { throw unexpectedResponse(response) }
        return json
    }

    private func unexpectedResponse(_ response: ProviderResponse) -> AuthError {
        let error = response.http.providerError
        return AuthError(
            error?.isServerError == true ? .temporarilyUnavailable : .providerRejected,
            "\(response.endpoint.host) did not report whether the token is active (status \(response.status)).\(response.advice)",
            providerError: error,
            status: response.status
        )
    }

    /// The claims about a token in a response that is signed for this client (RFC 9701 section 5).
    private func signedIntrospection(_ response: ProviderResponse, _ requirement: SignedIntrospection) async throws
        -> JSON
    {
        let profile = JWTProfile(
            "The signed introspection response",
            // Section 5: "typ ... REQUIRED. Value: token-introspection+jwt", so that no other JWT from the provider is accepted.
            type: .required(["token-introspection+jwt"]),
            specification: "RFC 9701 section 5",
            code: .invalidResponse
        )
        guard response.http.mediaType == SignedIntrospection.mediaType else {
            // Errors are not signed, and some providers send every error with status 200.
            let error = (try? adapter.responseParameters(response)).flatMap(response.http.providerError(in:))
            guard error == nil else { throw unexpectedResponse(response) }
            throw profile.rejection("it is not signed")
        }
        guard let text = String(validating: response.http.body, as: UTF8.self) else {
            throw profile.rejection("it is not valid UTF-8")
        }
        let metadata = try await metadata()
        return try await verify(
            decrypted(Secret(text.trimmingWhitespace()), .introspection, as: profile),
            as: profile,
            algorithms: metadata.advertisedAlgorithms("introspection_signing_alg_values_supported"),
            metadata: metadata
        ) { rules in
            // "iss ... REQUIRED. MUST be set to the issuer URL of the authorization server."
            _ = try rules.requireIssuer(metadata.issuer)
            // "aud ... REQUIRED. The value of this claim MUST identify the resource server receiving the token introspection response."
            _ = try rules.requireAudience(requirement.audience ?? registration.clientID)
            // "iat ... REQUIRED": a response that was captured while the token was active must not be accepted later.
            _ = try rules.requireIssuedAt(within: SignedIntrospection.maximumResponseAge)
            if rules["exp"] != nil { _ = try rules.requireUnexpired() }
            try rules.requireNotBefore()
            // "token_introspection ... REQUIRED. A JSON object containing the members of the token introspection response".
            guard let members = rules.json["token_introspection"], members["active"]?.bool != nil else {
                throw rules.rejection("it does not indicate whether the token is active")
            }
            return members
        }
    }
}
