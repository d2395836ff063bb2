import AuthFlowEssentials
package import AuthFlowHTTP
import AuthFlowIssuer

extension OAuthClient {
    /// Validates an authorization response and exchanges its code for a credential (RFC 6749 section 4.1.3, RFC 7636 section
    /// 4.5). When it returns, the response, the tokens and the ID Token have passed every check.
    /// - Parameters:
    ///   - callback: The complete URL to which the user was redirected.
    ///   - request: The request to which the response belongs. It can be used only once.
    /// - Throws: ``AuthError`` with `invalid_callback` when the response does not belong to the request, `access_denied` when
    ///   the user did not consent, `provider_rejected`, `invalid_id_token` and others when a check fails.
    public func exchange(_ callback: String, for request: AuthorizationRequest) async throws -> Credential {
        try await exchange(.url(callback), for: request, reporter: FlowReporter(host: host)).credential
    }

    /// Steps 4 to 7 of a sign-in, as numbered in `SignIn/AuthorizationCodeSignIn.swift`.
    package func exchange(
        _ redirect: ReceivedRedirect,
        for request: AuthorizationRequest,
        reporter: FlowReporter
    ) async throws -> (credential: Credential, response: AuthorizationResponse) {
        try await withPinnedMetadata().exchangeCode(redirect, for: request, reporter: reporter)
    }

    private func exchangeCode(
        _ redirect: ReceivedRedirect,
        for request: AuthorizationRequest,
        reporter: FlowReporter
    ) async throws -> (credential: Credential, response: AuthorizationResponse) {
        let metadata = try await metadata()
        let response = try await reporter.step(.authorizationResponse) {
            try await checkAuthorizationResponse(redirect, for: request, metadata, reporter)
        }
        let tokens = try await reporter.step(.codeExchange) {
            try await sendCodeExchange(response.code, for: request, metadata)
        }
        var expectation = expectation(of: metadata, context: .signIn(nonce: request.nonce), tokens)
        expectation.code = response.code
        // OIDC Core section 3.1.2.1: the provider compares max_age with the time since the authentication when it receives the request. The user may
        // then spend more time on the pages that follow.
        let requestedAt = request.requestedAt ?? host.now()
        expectation.earliestAuthentication = request.requirements.maximumAge.map {
            requestedAt.timeIntervalSince1970 - $0
        }
        expectation.essentialACRValues = request.requirements.essentialACRValues
        expectation.subjects = request.requirements.subjects
        var credential = try await credential(
            of: tokens,
            expectation,
            authorizedScopes: request.scopes,
            metadata: metadata,
            reporter: reporter
        )
        credential.resources = request.resources
        try await compareAuthorizationDetails(
            request.authorizationDetails,
            credential.tokens,
            reporter,
            at: .codeExchange
        )
        return (credential, response)
    }

    private func checkAuthorizationResponse(
        _ redirect: ReceivedRedirect,
        for request: AuthorizationRequest,
        _ metadata: ProviderMetadata,
        _ reporter: FlowReporter
    ) async throws -> AuthorizationResponse {
        // RFC 9700 section 4.4.2: the authorization request must have been sent by this client, to this server.
        guard request.issuer.isIdentical(to: server.issuer), request.clientID.isIdentical(to: registration.clientID)
        else { throw AuthError(.invalidCallback, "The authorization request belongs to another client or server.") }
        if let mismatch = request.binding.mismatch(with: ProviderBinding(metadata)) {
            throw AuthError(.invalidCallback, "The authorization code was not sent: \(mismatch). Sign in again.")
        }
        guard host.now() < request.expiresAt else {
            throw AuthError(.timedOut, "The authorization request has expired. Sign in again.")
        }
        // A stored request must satisfy the registration's current requirements.
        guard request.responseMode.isSigned || !registration.responseMode.isSigned,
            request.dpopKey != nil || !registration.usesDPoP
        else {
            throw AuthError(
                .invalidCallback,
                "The authorization request does not meet the client's current security requirements. Sign in again."
            )
        }
        let received = try redirect.response(to: request, of: self)
        var parameters = received.parameters
        if request.responseMode.isSigned {
            parameters = try await signedParameters(in: received, to: request, metadata)
            reporter.passed(.authorizationResponse, "signature of the response", "JARM section 2.4")
        }
        let response = try AuthorizationResponse(
            parameters,
            to: request,
            metadata: metadata,
            // FAPI 2.0 Security Profile section 5.3.3.2: the client "shall check the iss parameter".
            requiresIssuer: request.requiresIssuer || registration.securityProfile != nil,
            use: server.usedStates.use
        )
        reporter.report(
            .authorizationResponse,
            details: ["parameters": response.parameters.names.joined(separator: " ")]
        )
        for (check, clause) in response.passed { reporter.passed(.authorizationResponse, check, clause) }
        return response
    }

    /// Sends the code to the token endpoint of the request's issuer. The response has not been validated yet.
    private func sendCodeExchange(
        _ code: Secret,
        for request: AuthorizationRequest,
        _ metadata: ProviderMetadata
    ) async throws -> TokenResponse {
        var exchange = try tokenRequest(
            .token,
            [
                "grant_type": "authorization_code",
                "code": code.exposed,
                "redirect_uri": request.redirectURI,
                "code_verifier": request.codeVerifier.exposed,
            ],
            at: metadata
        )
        // RFC 8707 section 2.2: the access token is for the same resources as the grant.
        exchange.addResources(request.resources)
        return try await sendTokenRequest(exchange, scopes: request.scopes, key: request.dpopKey)
    }
}

extension ProviderRequest {
    /// Adds the resources that the request does not already specify (RFC 8707 section 2).
    mutating func addResources(_ resources: [String]) {
        for resource in resources where !parameters.values(for: "resource").contains(resource) {
            parameters.append("resource", resource)
        }
    }
}
