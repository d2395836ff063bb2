public import AuthFlowEssentials
public import AuthFlowHTTP

/// A token that can be revoked at the provider.
public struct RevocableToken: Sendable, Hashable {
    /// The token.
    public let token: Secret

    /// `token_type_hint`: the type of the token, such as `refresh_token`; nil to send no hint.
    public let typeHint: String?

    /// Creates a token to revoke.
    public init(_ token: Secret, typeHint: String? = nil) {
        self.token = token
        self.typeHint = typeHint
    }
}

extension Credential {
    /// The tokens that a sign-out revokes by default: the refresh token, so that no new tokens can be obtained, then the
    /// access tokens that have not expired, including those for individual resources.
    public func revocableTokens(at now: Date) -> [RevocableToken] {
        var revocable = tokens.refreshToken.map { [RevocableToken($0, typeHint: "refresh_token")] } ?? []
        if !isExpired(at: now) { revocable.append(RevocableToken(tokens.accessToken, typeHint: "access_token")) }
        for token in resourceTokens where token.expiresAt.map({ now < $0 }) ?? true {
            revocable.append(RevocableToken(token.accessToken, typeHint: "access_token"))
        }
        return revocable
    }
}

extension TokenSet {
    /// All tokens from a rejected sign-in.
    var allTokens: [RevocableToken] {
        let types = [("device_secret", deviceSecret), ("refresh_token", refreshToken), ("access_token", accessToken)]
        return types.compactMap { type, token in token.map { RevocableToken($0, typeHint: type) } }
    }
}
