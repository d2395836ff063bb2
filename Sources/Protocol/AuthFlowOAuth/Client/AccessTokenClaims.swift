import AuthFlowHTTP
import AuthFlowJOSE
import AuthFlowJSON

extension OAuthClient {
    /// The implementation of ``ProviderContext/accessTokenClaims(of:)``, for a provider that issues JWTs: access tokens are otherwise opaque to
    /// clients (RFC 6749 section 1.4).
    func accessTokenClaims(_ tokens: TokenSet) async throws -> JSON {
        guard (try? JWS(tokens.accessToken)) != nil else {
            throw AuthError(.unsupported, "The access token is not a signed JWT, so it does not identify the user.")
        }
        let profile = JWTProfile(
            "The access token, which must identify the user,",
            // RFC 9068 section 2.1: "at+jwt". Providers that predate the RFC use "JWT".
            type: .optional(["at+jwt", "jwt"]),
            specification: "RFC 9068 section 2.2",
            code: .invalidUserInfo
        )
        let metadata = try await metadata()
        do {
            return try await verify(
                tokens.accessToken,
                as: profile,
                algorithms: SignatureAlgorithm.asymmetric,
                metadata: metadata
            ) { rules in
                _ = try rules.requireIssuer(metadata.issuer)
                _ = try rules.requireSubject()
                _ = try rules.requireUnexpired()
                try rules.requireNotBefore()
                return rules.json
            }
        } catch let error as AuthError where error.isTransient {
            // Without the keys, nothing is known about the token.
            throw error.asKeySetFailure
        }
    }
}
