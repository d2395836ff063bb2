public import AuthFlow

// The token management requests for an app's owner ("REST API endpoints for OAuth authorizations"): none of them follows RFC 7009 or
// RFC 7662, and all of them require the client secret.

extension GitHubProvider: TokenRevoking {
    /// Revokes the access token, or the user's whole grant to the app.
    /// - Throws: ``/AuthFlow/AuthError`` with `unsupported` for a client without a secret, or when GitHub cannot revoke
    ///   a remaining refresh token or grant; `provider_rejected` when GitHub rejects the client's credentials or the request.
    public func revoke(_ credential: Credential, in context: ProviderContext) async throws {
        let tokens = credential.tokens
        let hasExpired = tokens.expiresAt.map { $0 <= context.host.now() } ?? false
        if signOut == .token, hasExpired, tokens.refreshToken == nil { return }
        guard context.basicAuthorization != nil else { throw secretRequired(context) }
        switch signOut {
        case .token:
            if !hasExpired { _ = try await delete("token", named: tokens, in: context) }
            guard tokens.refreshToken == nil else {
                throw unsupported(
                    "The access token is no longer valid, but GitHub revokes a refresh token only together with the user's grant",
                    context
                )
            }
        case .grant:
            // "You must also provide a valid OAuth access_token."
            if !hasExpired, try await delete("grant", named: tokens, in: context) { return }
            if let fresh = try await refreshed(tokens, in: context),
                try await delete("grant", named: fresh, in: context)
            {
                return
            }
            throw unsupported("No valid token remains to identify the grant to GitHub", context)
        }
    }

    /// Revokes the access token, but not the grant, which the user's other sessions may share.
    public func revokeUnused(_ tokens: TokenSet, in context: ProviderContext) async throws {
        _ = try await delete("token", named: tokens, in: context)
    }

    /// - Returns: Whether the token was valid.
    private func delete(_ what: String, named tokens: TokenSet, in context: ProviderContext) async throws -> Bool {
        let response = try await ask(.delete, what, about: tokens, expecting: [204, 404, 422], in: context)
        guard response.status != 204 else { return true }
        // GitHub also responds with 404 to invalid client credentials, and with 422 to too many requests ("Validation failed, or the endpoint has
        // been spammed").
        do {
            _ = try await userInfo(for: tokens, in: context)
        } catch let error as AuthError where error.code == .accessTokenRejected {
            return false
        }
        throw rejection(response)
    }

    /// Refreshed tokens; nil if there is no valid refresh token. They are not stored, because the user has signed out.
    private func refreshed(_ tokens: TokenSet, in context: ProviderContext) async throws -> TokenSet? {
        guard let refreshToken = tokens.refreshToken,
            let endpoint = try await context.metadata().tokenEndpoint
        else { return nil }
        let form: FormParameters = ["grant_type": "refresh_token", "refresh_token": refreshToken.exposed]
        let response = try await context.post(form: form, to: endpoint)
        let parameters = try parameters(of: response)
        if let error = response.http.providerError(in: parameters) {
            guard standardErrorNames[error.error] == "invalid_grant" else {
                throw AuthError(
                    .providerRejected,
                    "\(host.webURL) did not refresh the token, so its grant could not be revoked.",
                    providerError: error
                )
            }
            return nil
        }
        var fresh = tokens
        guard let accessToken = parameters["access_token"]?.string else { return nil }
        fresh.accessToken = Secret(accessToken)
        return fresh
    }
}

extension GitHubProvider {
    /// Checks whether a token is valid, and returns its scopes and its user.
    /// - Returns: GitHub's description of the token, with its `scopes` and its `user`; nil when it is not a valid token of this app, or the
    ///   client secret is invalid: GitHub does not distinguish them.
    /// - Throws: ``/AuthFlow/AuthError`` with `unsupported` for a client without a secret.
    public func checkToken(_ tokens: TokenSet, in context: ProviderContext) async throws -> JSON? {
        let response = try await ask(.post, "token", about: tokens, expecting: [200, 404], in: context)
        return response.status == 404 ? nil : try response.json(from: host.apiURL)
    }

    /// Resets a token: GitHub issues a new token, and the old token becomes invalid immediately. Call this method from
    /// ``/AuthFlow/AuthClient/replaceTokens(_:)``, which stores the result.
    /// - Throws: ``/AuthFlow/AuthError`` with `unsupported` for a client without a secret, `provider_rejected` when the token is
    ///   not valid.
    public func resetToken(_ tokens: TokenSet, in context: ProviderContext) async throws -> TokenSet {
        let response = try await ask(.patch, "token", about: tokens, expecting: [200], in: context)
        guard let token = try response.json(from: host.apiURL)["token"]?.string, !token.isEmpty else {
            throw AuthError(.invalidResponse, "GitHub's response to the token reset contains no token.")
        }
        var tokens = tokens
        tokens.accessToken = Secret(token)
        return tokens
    }

    private func ask(
        _ method: HTTPRequest.Method,
        _ what: String,
        about tokens: TokenSet,
        expecting statuses: [Int],
        in context: ProviderContext
    ) async throws -> TransportResponse {
        let clientID = FormURLEncoding.encode(context.registration.clientID)
        guard let authorization = context.basicAuthorization else {
            throw secretRequired(context)
        }
        let body: JSON = ["access_token": .string(tokens.accessToken.exposed)]
        var call = try call(method, "/applications/\(clientID)/\(what)", body: body)
        call.head.headerFields[.authorization] = authorization.exposed
        let response = try await context.send(call)
        try response.requireAvailable(from: host.apiURL, now: context.host.now())
        guard statuses.contains(response.status) else { throw rejection(response) }
        return response
    }

    private func rejection(_ response: TransportResponse) -> AuthError {
        AuthError(
            .providerRejected,
            "\(host.apiURL) responded to a token management request with status \(response.status).",
            providerError: response.providerError,
            status: response.status
        )
    }

    private func secretRequired(_ context: ProviderContext) -> AuthError {
        unsupported("GitHub requires the client secret for this request", context)
    }

    private func unsupported(_ reason: String, _ context: ProviderContext) -> AuthError {
        let clientID = FormURLEncoding.encode(context.registration.clientID)
        let page = "\(host.webURL)/settings/connections/applications/\(clientID)"
        return AuthError(.unsupported, "\(reason). Users can revoke access at \(page).")
    }
}
