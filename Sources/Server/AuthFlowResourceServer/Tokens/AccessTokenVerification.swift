import AuthFlowEssentials
import AuthFlowOAuth

/// The validation of a JWT access token (RFC 9068 section 4).
struct AccessTokenVerification {
    let issuer: TrustedIssuer
    let resource: Endpoint
    /// The issuer in the token, which is a trusted issuer.
    let issuerName: String
    /// Receives each check as it begins; nil if no report was requested.
    var steps: TokenReport.Recorder?

    private var profile: JWTProfile {
        // Section 4: "The resource server MUST verify that the "typ" header value is "at+jwt" or "application/at+jwt" and reject tokens
        // carrying any other value."
        let type: JWTProfile.TypeRule =
            issuer.tokenType == .accessToken ? .required(["at+jwt"]) : .optional(["at+jwt", "jwt"])
        return JWTProfile(
            "The access token",
            type: type,
            specification: "RFC 9068 section 2.2",
            code: .accessTokenRejected
        )
    }

    func verify(_ jws: JWS, now: Date, leeway: Double) async throws -> AccessToken {
        let verifier = JWTVerifier(
            profile,
            algorithms: issuer.algorithms,
            now: now,
            leeway: leeway,
            clockOffset: nil
        )
        do {
            // The cheap checks come first, so that no keys are fetched for a token that is rejected anyway.
            steps?.begin(.header)
            let token = try check(try verifier.rules(of: jws))
            steps?.begin(.signature)
            let metadata = try await issuer.server.metadataWhileRevalidating()
            try await verifier.verifySignature(of: jws, keys: issuer.server.keySet(metadata, template: issuer.tenants))
            return token
        } catch let error as AuthError where error.code == .accessTokenRejected {
            throw TokenFailure.invalid(error.message)
        }
    }

    private func check(_ rules: JWTClaims) throws -> AccessToken {
        let claims = rules.json
        // "The issuer identifier for the authorization server ... MUST exactly match the value of the "iss" claim."
        let issuer = try rules.requireIssuer(issuerName)
        steps?.begin(.audience)
        let audience = try rules.requireAudienceClaim()
        guard self.issuer.matchesAudience(resource, audience) else {
            throw rules.rejection("it is intended for another API (aud)")
        }
        // "The current time MUST be before the time represented by the "exp" claim."
        steps?.begin(.lifetime)
        _ = try rules.requireUnexpired()
        try rules.requireNotBefore()
        let isAccessToken = rules.header.json["typ"]?.string.map { $0.lowercased().hasSuffix("at+jwt") } ?? false
        steps?.begin(.claims)
        // Section 2.2: iss, exp, aud, sub, client_id, iat and jti are REQUIRED.
        if isAccessToken {
            _ = try rules.requireIssuedAt(within: nil)
            for claim in ["sub", "client_id", "jti"] where claims[claim]?.string?.isEmpty != false {
                throw rules.missing(claim)
            }
        } else {
            if rules["iat"] != nil { _ = try rules.requireIssuedAt(within: nil) }
            try rejectIDToken(rules)
        }
        // The names of this claim on servers that predate RFC 9068.
        let client =
            claims["client_id"]?.string
            ?? (isAccessToken ? nil : claims["azp"]?.string ?? claims["cid"]?.string ?? claims["appid"]?.string)
        return try AccessToken(issuer: issuer, claims: claims, clientID: client)
    }

    /// RFC 8725 section 2.8: "cross-JWT confusion". Without a distinct type, an access token can be distinguished from
    /// an ID Token only by its claims.
    private func rejectIDToken(_ rules: JWTClaims) throws(AuthError) {
        let claims = rules.json
        // Keycloak indicates the kind of a token in its `typ` claim, and some installations add the nonce to access tokens.
        let isMarked = ["bearer", "dpop"].contains(claims["typ"]?.string?.lowercased())
        for claim in ["nonce", "at_hash", "c_hash", "s_hash"]
        where rules[claim] != nil && !(isMarked && claim == "nonce") {
            throw rules.rejection("it has a claim that only ID Tokens have (\(claim))")
        }
        if let client = claims["azp"]?.string, issuer.matchesAudience(resource, [client]) {
            throw rules.rejection("its authorized party is its audience, as in an ID Token (azp)")
        }
        // Rejects logout tokens and JWT responses (such as introspection responses).
        let kind = claims["typ"]?.string?.lowercased() ?? "bearer"
        let use = claims["token_use"]?.string?.lowercased() ?? "access"
        guard ["access", "access_token"].contains(use) else {
            throw rules.rejection("it is a different kind of JWT (token_use)")
        }
        guard rules["events"] == nil, rules["token_introspection"] == nil, ["bearer", "dpop"].contains(kind) else {
            throw rules.rejection("it is a different kind of JWT")
        }
        guard claims["sub"]?.string?.isEmpty == false || claims["client_id"]?.string?.isEmpty == false else {
            throw rules.missing("sub")
        }
    }
}
