import AuthFlowIssuer

extension OAuthClient {
    /// Revokes the tokens of several credentials one after the other.
    /// - Throws: The first error thrown by ``revoke(_:)-(Credential)``, after revocation of the remaining credentials has been attempted,
    ///   or immediately if the provider does not respond.
    package func revoke(_ credentials: [Credential]) async throws {
        try await credentials.attemptEach(until: Self.hasNoResponse) { try await revoke($0) }
    }

    /// Revokes the tokens of a credential, either as RFC 7009 specifies or through the adapter. An expired access token
    /// needs no revocation.
    /// - Throws: ``AuthError`` with `unsupported` when the provider does not support revocation, `login_required` when the credential is bound
    ///   to other endpoints; otherwise, the first error. It is thrown after revocation of the remaining tokens has been attempted,
    ///   or immediately if the provider does not respond.
    public func revoke(_ credential: Credential) async throws {
        try await requireBinding(of: credential, with: \ProviderMetadata.revocationEndpoint)
        if let provider = adapter as? any TokenRevoking {
            return try await provider.revoke(credential, in: providerContext)
        }
        try await revoke(credential.revocableTokens(at: host.now()))
    }

    /// Runs the checks on newly issued tokens. Rejected tokens are revoked, because they would otherwise remain valid
    /// although nothing uses them.
    ///
    /// Tokens that could not be checked are not revoked, and neither are the tokens of a user whose authentication was weaker
    /// or older than requested, who is not the requested user, or who did not grant the requested authorization details: RFC 7009 section 2.1 lets
    /// a provider revoke the whole grant, and with it the user's existing session.
    func revokingRejectedTokens<Return>(_ tokens: TokenSet, _ checks: () async throws -> Return) async throws -> Return
    {
        do {
            return try await checks()
        } catch let error as AuthError
            where !error.isTransient && !error.isKeySetFailure && !Self.localCodes.contains(error.code)
            && error.code != .insufficientUserAuthentication
        {
            await revokeRejectedTokens(tokens)
            throw error
        }
    }

    /// Revokes the unused tokens of a rejected sign-in, with a timeout of ten seconds.
    package func revokeRejectedTokens(_ tokens: TokenSet) async {
        // A separate task is used, because this task may be cancelled.
        await Task { [self] in
            try? await withDeadline(.seconds(10), clock: host.clock) {
                AuthError(.timedOut, "The revocation timed out.")
            } _: { [self] in
                guard let provider = adapter as? any TokenRevoking else { return try await revoke(tokens.allTokens) }
                try await provider.revokeUnused(tokens, in: providerContext)
            }
        }.value
    }

    /// Revokes the tokens in an unusable token response.
    /// - Parameter subjectToken: The subject token of a token exchange; default: none. It is not revoked, because the user still needs it, and
    ///   neither is the refresh token, because the server may then also end the session of the subject token.
    func revokeTokens(in response: ProviderResponse, exchanging subjectToken: Secret? = nil) async {
        guard let accessToken = token("access_token", in: response), accessToken != subjectToken else { return }
        let refreshToken = subjectToken == nil ? token("refresh_token", in: response) : nil
        let tokens = TokenSet(accessToken: accessToken, tokenType: "Bearer", refreshToken: refreshToken)
        await revokeRejectedTokens(tokens)
    }

    /// A token in a successful response that is otherwise rejected, even if the response cannot be parsed.
    func token(_ name: String, in response: ProviderResponse) -> Secret? {
        guard response.http.isSuccessful else { return nil }
        let parameters = try? adapter.responseParameters(response)
        let token = parameters.map { $0.token(name) } ?? UnparsedResponse(body: response.http.body).token(name)
        return token.flatMap { TokenSet.problem(of: $0) == nil ? $0 : nil }
    }

    /// Revokes tokens sequentially at the revocation endpoint (RFC 7009).
    /// - Throws: ``AuthError`` with `unsupported` when the provider does not support revocation; otherwise, the first error. It is
    ///   thrown after revocation of the remaining tokens has been attempted, or immediately if the provider does not respond.
    public func revoke(_ tokens: [RevocableToken]) async throws {
        guard !tokens.isEmpty else { return }
        let endpoint = try (try await metadata(with: \ProviderMetadata.revocationEndpoint))
            .required(\.revocationEndpoint, "revocation endpoint")
        var hasRevokedRefreshToken = false
        try await tokens.attemptEach(until: Self.hasNoResponse) { token in
            do {
                try await revoke(token, at: endpoint)
                if token.typeHint == "refresh_token" { hasRevokedRefreshToken = true }
            } catch let error as AuthError
                where [200, 400].contains(error.status)
                && adapter.standardName(of: error.providerError) == "invalid_token"
            {
                // RFC 7009 section 2.2: "invalid tokens do not cause an error response". Some providers send an error
                // nevertheless; Google does so for an access token already revoked with its refresh token. An invalid
                // token needs no revocation. With any other status, the error may concern the authorization of the request itself.
            } catch let error as AuthError
                where adapter.standardName(of: error.providerError) == "unsupported_token_type"
            {
                // Section 2.1: if a refresh token is revoked, the server "SHOULD also invalidate all access tokens based on the same
                // authorization grant". Servers that do so, such as Amazon Cognito, may support only the revocation of refresh tokens.
                if hasRevokedRefreshToken, token.typeHint == "access_token" { return }
                // Section 2.2.1: "the authorization server does not support the revocation of the presented token type".
                throw AuthError(
                    .unsupported,
                    "\(endpoint.host) does not support the revocation of this type of token: \(Self.words(for: token)).",
                    providerError: error.providerError
                )
            }
        }
    }

    private static func hasNoResponse(_ error: any Error) -> Bool { (error as? AuthError)?.hasNoResponse == true }

    /// The type of a token for a message: "refresh token" instead of `refresh_token`.
    private static func words(for token: RevocableToken) -> String {
        DisplayText.sanitized((token.typeHint ?? "token").replacing("_", with: " "), limit: 40)
    }

    private func revoke(_ token: RevocableToken, at endpoint: Endpoint) async throws {
        var request = ProviderRequest(
            purpose: .revocation,
            endpoint: endpoint,
            parameters: parameters(of: .revocation),
            protectedParameters: ["token": token.token.exposed]
        )
        request.protectedParameters["token_type_hint"] = token.typeHint
        let response = try await sendFormRequest(request)
        // RFC 7009 section 2.2: "The authorization server responds with HTTP status code 200 if the token has been revoked
        // successfully or if the client submitted an invalid token". Some providers respond with 204, and some send every error with status 200.
        let error = (try? adapter.responseParameters(response)).flatMap(response.http.providerError(in:))
        guard response.http.isSuccessful, error == nil else {
            throw AuthError(
                error?.isServerError == true ? .temporarilyUnavailable : .providerRejected,
                "\(endpoint.host) did not revoke the \(Self.words(for: token)) (status \(response.status)).",
                providerError: error ?? response.http.providerError,
                status: response.status
            )
        }
    }
}
