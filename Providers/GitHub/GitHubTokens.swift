public import AuthFlow
public import AuthFlowJSON
import HTTPTypes

// The token requests for an app's owner ("REST API endpoints for OAuth authorizations"): none of them follows RFC 7009 or
// RFC 7662, and all of them require the client secret.

extension GitHubProvider: TokenRevoking {
    /// Revokes the token, or everything granted to the app.
    public func revoke(_ tokens: TokenSet, in context: ProviderContext) async throws {
        // 404: the token no longer exists.
        _ = try await ask(.delete, signOut.rawValue, about: tokens, expecting: [204, 404], in: context)
    }
}

extension GitHubProvider {
    /// Checks whether a token is valid, and returns its scopes and its user.
    /// - Returns: GitHub's description of the token, with its `scopes` and its `user`; nil when it is not valid.
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
            let page = "\(host.pagesURL)/settings/connections/applications/\(clientID)"
            throw AuthError(
                .unsupported,
                "GitHub requires the client secret for this request. Users can revoke access at \(page)."
            )
        }
        let body: JSON = ["access_token": .string(tokens.accessToken.exposed)]
        var call = try call(method, "/applications/\(clientID)/\(what)", body: body)
        call.head.headerFields[.authorization] = authorization.exposed
        let response = try await context.send(call)
        try response.requireAvailable(from: host.apiURL, now: context.host.now())
        guard statuses.contains(response.status) else {
            throw AuthError(
                .providerRejected,
                "\(host.apiURL) responded to a token management request with status \(response.status).",
                providerError: response.providerError,
                status: response.status
            )
        }
        return response
    }
}
