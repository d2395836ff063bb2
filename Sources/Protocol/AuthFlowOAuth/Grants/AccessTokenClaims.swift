import AuthFlowHTTP
import AuthFlowJOSE
import AuthFlowJSON

extension OAuthClient {
    /// The claims of a JWT access token (RFC 9068), once its signature, issuer and times were verified.
    ///
    /// To a client an access token is opaque (RFC 6749 section 1.4); this is for a provider that is known to send JWTs.
    /// - Throws: ``AuthError`` with `unsupported` when it is no JWT, `invalid_user_info` when it fails a check.
    func accessTokenClaims(_ tokens: TokenSet) async throws -> JSON {
        @Sendable func refused(_ reason: String) -> AuthError {
            AuthError(.invalidUserInfo, "The access token was not used to identify the user: \(reason).")
        }
        guard let jws = try? JWS(tokens.accessToken) else {
            throw AuthError(.unsupported, "The access token is no signed JWT, so it does not say who the user is.")
        }
        let metadata = try await metadata()
        var claims = JWTClaims(jws, now: host.now(), leeway: registration.clockLeeway.seconds, refusal: refused)
        claims.clockOffset = server.clockOffset
        claims.specification = "RFC 9068 section 2.2"
        try claims.requireNoCriticalExtension()
        try claims.requireKeyIDIsString()
        // RFC 9068 section 2.1: "at+jwt". Providers older than the RFC say "JWT".
        try claims.requireType(["at+jwt", "application/at+jwt", "jwt"], "access token")
        let allowed = registration.securityProfile?.algorithms ?? SignatureAlgorithm.asymmetric
        guard allowed.contains(jws.header.algorithm) else {
            throw refused("its algorithm is not one with a public key, or not one of the security profile")
        }
        _ = try claims.requireIssuer(metadata.issuer)
        _ = try claims.requireSubject()
        _ = try claims.requireUnexpired()
        try claims.requireStarted()
        _ = try await server.verifySignature(of: jws, metadata: metadata, secret: nil, refusal: refused)
        return jws.payload
    }
}
