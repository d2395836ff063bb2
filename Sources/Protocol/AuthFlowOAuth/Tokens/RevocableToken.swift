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

extension TokenSet {
    /// The tokens that a sign-out revokes by default: the refresh token, so that no new tokens can be obtained, then the access
    /// token.
    public var revocableTokens: [RevocableToken] {
        [refreshToken.map { RevocableToken($0, typeHint: "refresh_token") }].compactMap { $0 }
            + [RevocableToken(accessToken, typeHint: "access_token")]
    }
}
