public import AuthFlowJSON
import HTTPTypes

extension ProviderContext {
    /// Asks the userinfo endpoint about the person (OIDC Core section 5.3).
    /// - Parameter tokens: Tokens with a verified ID Token.
    /// - Returns: The claims.
    /// - Throws: ``AuthError`` with `unsupported` when there is no such endpoint or no ID Token to compare with;
    ///   `login_required` when the access token is not accepted; `invalid_user_info` when the reply is about somebody else.
    public func userInfo(for tokens: TokenSet) async throws -> JSON {
        let endpoint = try (try await metadata()).required(\.userInfoEndpoint, "userinfo endpoint")
        guard let idToken = tokens.verifiedIDToken else {
            throw AuthError(
                .unsupported,
                "Userinfo needs an ID Token to be compared with. Ask for the scope \"openid\"."
            )
        }
        // OAuth 2.1 section 5.1.1: in the header, never in the query.
        let call = HTTPCall(
            .get,
            endpoint,
            headerFields: [.authorization: "Bearer \(tokens.accessToken.exposed)", .accept: "application/json"]
        )
        let reply = try await send(call)
        if reply.status == 401 {
            throw AuthError(.loginRequired, "\(endpoint) does not accept the access token any more. Sign in again.")
        }
        guard reply.status == 200 else {
            throw AuthError(.invalidReply, "\(endpoint) answered with status \(reply.status).")
        }
        let claims = try reply.json(from: "\(endpoint)")
        // OIDC Core section 5.3.2: "The sub Claim in the UserInfo Response MUST be verified to exactly match the sub
        // Claim in the ID Token; if they do not match, the UserInfo Response values MUST NOT be used."
        guard claims["sub"]?.string == idToken.subject else {
            throw AuthError(
                .invalidUserInfo,
                "Userinfo is about somebody else than the ID Token (sub differs). It was not used, and nobody is signed in by it."
            )
        }
        return claims
    }
}
