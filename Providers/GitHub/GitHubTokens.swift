public import AuthFlow
public import AuthFlowJSON
import HTTPTypes

// What the owner of an app can do with its tokens ("REST API endpoints for OAuth authorizations"): none of it is RFC 7009 or
// RFC 7662, and all of it needs the app's secret.

extension GitHubProvider {
    /// Withdraws the token, or everything granted to the app.
    public func revoke(_ tokens: TokenSet, in context: ProviderContext) async throws {
        let reply = try await ask(.delete, signOut.rawValue, about: tokens, in: context)
        // 404: there was no such token any more.
        guard reply.status == 204 || reply.status == 404 else {
            throw refusal(reply, "the withdrawal of the \(signOut)")
        }
    }

    /// Asks whether a token is good, and what for.
    /// - Returns: GitHub's description of the token, its `scopes` and its `user` among it; nil when it is no good.
    /// - Throws: ``AuthFlow/AuthError`` with `unsupported` for a client without a secret.
    public func checkToken(_ tokens: TokenSet, in context: ProviderContext) async throws -> JSON? {
        let reply = try await ask(.post, "token", about: tokens, in: context)
        switch reply.status {
        case 200: return try reply.json(from: "\(host.apiURL)/applications")
        case 404: return nil
        default: throw refusal(reply, "the check of the token")
        }
    }

    /// Exchanges a token for a new one; the old one stops working at once. Call it from
    /// ``AuthFlow/AuthClient/replaceTokens(_:)``, which stores what comes.
    /// - Throws: ``AuthFlow/AuthError`` with `unsupported` for a client without a secret, `access_token_rejected` when the token
    ///   is no good.
    public func resetToken(_ tokens: TokenSet, in context: ProviderContext) async throws -> TokenSet {
        let reply = try await ask(.patch, "token", about: tokens, in: context)
        guard reply.status != 404 else {
            throw AuthError(.accessTokenRejected, "GitHub does not know the token any more. Sign in again.")
        }
        guard reply.status == 200 else { throw refusal(reply, "the reset of the token") }
        guard let token = try reply.json(from: "\(host.apiURL)/applications")["token"]?.string, !token.isEmpty else {
            throw AuthError(.invalidReply, "GitHub's reply to the reset of the token has no token.")
        }
        var tokens = tokens
        tokens.accessToken = Secret(token)
        return tokens
    }

    private func ask(
        _ method: HTTPRequest.Method,
        _ what: String,
        about tokens: TokenSet,
        in context: ProviderContext
    ) async throws -> HTTPReply {
        let clientID = FormURLEncoding.encode(context.settings.clientID)
        guard let authorization = context.basicAuthorization else {
            throw AuthError(
                .unsupported,
                "GitHub does this only for clients with a secret. The person can withdraw the app's access at \(host.pagesURL)/settings/connections/applications/\(clientID)."
            )
        }
        return try await ask(
            method,
            "/applications/\(clientID)/\(what)",
            as: authorization,
            body: ["access_token": .string(tokens.accessToken.exposed)],
            in: context
        )
    }
}
