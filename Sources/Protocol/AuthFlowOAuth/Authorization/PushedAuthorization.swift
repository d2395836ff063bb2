import AuthFlowEssentials
import AuthFlowIssuer

extension ProviderResponse {
    /// The `request_uri` of a pushed authorization request (RFC 9126 section 2.2), and the number of seconds for which the server accepts it.
    fileprivate func pushedAuthorization() throws(AuthError) -> (requestURI: String, lifetime: Double) {
        guard let json = try? http.json(from: "\(endpoint)") else { throw unexpectedStatus(.invalidResponse) }
        if let error = http.providerError(in: json) {
            // RFC 9126 section 2.3 also allows the error codes of the authorization endpoint. This code has the same meaning as in a redirect.
            let isUnmet = error.error == "unmet_authentication_requirements"
            let code: AuthError.Code = isUnmet ? .insufficientUserAuthentication : .providerRejected
            throw AuthError(
                error.isServerError ? .temporarilyUnavailable : code,
                "\(endpoint.host) rejected the pushed authorization request.\(advice)",
                providerError: error
            )
        }
        // "the server MUST generate a request URI and provide it in the response with a 201 HTTP status code"; some respond with 200.
        guard status == 201 || status == 200 else { throw unexpectedStatus(.invalidResponse) }
        guard let uri = json["request_uri"]?.string, !uri.isEmpty, uri.utf8.count <= 512,
            uri.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else {
            throw AuthError(
                .invalidResponse,
                "The response to the pushed authorization request has no usable \"request_uri\" (RFC 9126 section 2.2)."
            )
        }
        guard let lifetime = try json.seconds("expires_in"), lifetime > 0 else {
            throw AuthError(
                .invalidResponse,
                "The response to the pushed authorization request has no usable \"expires_in\" (RFC 9126 section 2.2)."
            )
        }
        return (uri, lifetime)
    }
}

extension OAuthClient {
    /// The URL to visit for an authorization request, and, for a pushed request, the number of seconds for which the server accepts it.
    /// The request is signed and pushed as the registration and the server's metadata require.
    func authorizationURL(
        _ parameters: FormParameters,
        at endpoint: Endpoint,
        _ metadata: ProviderMetadata
    ) async throws -> (url: String, lifetime: Double?) {
        try endpoint.requireNone(of: parameters, name: "authorization endpoint")
        let source = registration.requestObjectKey
        guard source != nil || metadata.json["require_signed_request_object"]?.bool != true else {
            throw metadata.unsupported(
                "requires signed authorization requests (RFC 9101). Configure a signing key for the client."
            )
        }
        if let reference = registration.requestObjectReference {
            // RFC 9126 section 2.1: a pushed request must not contain request_uri.
            guard !metadata.requiresPushedRequests else {
                throw metadata.unsupported(
                    "accepts only pushed authorization requests (RFC 9126), not request objects that it must fetch."
                )
            }
            return (endpoint.url(adding: try await requestByReference(parameters, reference, metadata)), nil)
        }
        guard let pushEndpoint = try pushEndpoint(metadata) else {
            guard let source else { return (endpoint.url(adding: parameters), nil) }
            // OIDC Core section 6.1: such a provider "MUST return the request_not_supported error", but cannot redirect it, because the redirect URI
            // is inside the request object. RFC 9101 does not define this member, so its absence means nothing.
            guard metadata.json["request_parameter_supported"]?.bool != false else {
                throw metadata.unsupported(
                    "does not support signed authorization requests in the URL (request_parameter_supported)."
                )
            }
            // OIDC Core section 6.1: the parameters that OAuth 2.0 requires must also be sent outside the request object.
            var sent: FormParameters = ["client_id": registration.clientID]
            sent["request"] = try await requestObject(parameters, source, metadata)
            sent["response_type"] = parameters["response_type"]
            sent["scope"] = parameters["scope"]
            return (endpoint.url(adding: sent), nil)
        }
        // RFC 9126 section 3: with a request object, only client_id and the client authentication are sent outside it.
        let request = ProviderRequest(
            purpose: .pushedAuthorization,
            endpoint: pushEndpoint,
            protectedParameters: source == nil ? parameters : ["client_id": registration.clientID]
        )
        // RFC 9449 section 10.1: dpop_jkt binds the code to the key, so a proof would be redundant. Some servers reject a proof without
        // a nonce here, and do not send a nonce.
        let response = try await sendFormRequest(
            request,
            signed: source.map { source in { ["request": try await requestObject(parameters, source, metadata)] } }
        )
        let pushed: (requestURI: String, lifetime: Double)
        do throws(AuthError) {
            pushed = try response.pushedAuthorization()
        } catch {
            throw withPushAdvice(error, metadata)
        }
        // RFC 9126 section 4: client_id and request_uri. FAPI 2.0 section 5.3.3.2 allows no other parameters.
        var authorizationParameters: FormParameters = [
            "client_id": registration.clientID, "request_uri": pushed.requestURI,
        ]
        for repeated in registration.repeatedPushedParameters {
            authorizationParameters[repeated.rawValue] = parameters[repeated.rawValue]
        }
        return (endpoint.url(adding: authorizationParameters), pushed.lifetime)
    }

    /// Adds a hint to an error from the endpoint if the server supports pushed requests, but apparently not for this client.
    private func withPushAdvice(_ error: AuthError, _ metadata: ProviderMetadata) -> AuthError {
        let isNotAllowed =
            error.code == .invalidResponse && 400..<500 ~= error.status ?? 0
            || ["unauthorized_client", "access_denied"].contains(adapter.standardName(of: error.providerError))
        guard registration.pushedRequests == .automatic, !metadata.requiresPushedRequests, isNotAllowed else {
            return error
        }
        return error.withMessage(
            "\(error.message) The provider's metadata lists a pushed authorization request endpoint, but this client may not be allowed to use it. To send requests through the browser, set \"par\" to \"never\".",
            because: error
        )
    }

    /// The endpoint to which requests are pushed; nil if the parameters are sent in the URL.
    private func pushEndpoint(_ metadata: ProviderMetadata) throws(AuthError) -> Endpoint? {
        let name = "pushed authorization request endpoint"
        switch registration.pushedRequests {
        case .never:
            // RFC 9126 section 5: the provider "accepts authorization request data only via PAR". Without this check,
            // the error would be visible only in the browser.
            guard !metadata.requiresPushedRequests else {
                throw AuthError(
                    .invalidConfiguration,
                    "The provider \(metadata.issuer) requires pushed authorization requests (RFC 9126), but the configuration disables them."
                )
            }
            return nil
        case .automatic where !metadata.requiresPushedRequests: return metadata.pushedAuthorizationRequestEndpoint
        case .automatic, .always: return try metadata.required(\.pushedAuthorizationRequestEndpoint, name)
        }
    }
}
