import AuthFlowJSON
import Crypto
import Foundation

/// Checks an ID Token, clause by clause in the order of OpenID Connect Core 1.0 section 3.1.3.7.
///
/// Everything fails closed. The text in quotation marks is the specification's.
struct IDTokenValidation: Sendable {
    /// What the token must say.
    struct Expectation: Sendable {
        let issuer: String
        let clientID: String
        /// The nonce of the authorization request; nil when none was sent.
        let nonce: String?
        /// The access token that came with the ID Token.
        let accessToken: Secret?
        /// The algorithms agreed with the provider.
        let algorithms: [SignatureAlgorithm]
    }

    /// How far this machine's clock may be off, in seconds. FAPI has a token that expired six minutes ago refused.
    static let leeway: TimeInterval = 60

    /// The oldest token accepted, in seconds since it was issued.
    static let maximumAge: TimeInterval = 10 * 60

    let expectation: Expectation
    let now: Date

    /// Checks everything but the signature, which needs keys from the network; cheap checks come first so that a token
    /// that is wrong anyway costs no request.
    func validateClaims(of jws: JWS) throws(AuthError) -> IDToken {
        let claims = jws.payload

        // RFC 7515 section 4.1.11: "If any of the listed extension Header Parameters are not understood and supported
        // by the recipient, then the JWS is invalid." None is supported.
        guard jws.header.json["crit"] == nil else {
            throw invalid("its header has \"crit\", which nothing here understands")
        }

        // "7. The alg value SHOULD be the default of RS256 or the algorithm sent by the Client in the
        // id_token_signed_response_alg parameter during Registration."
        guard expectation.algorithms.contains(jws.header.algorithm) else {
            let name = DisplayText.sanitized(jws.header.algorithm.rawValue, limit: 20)
            let allowed = expectation.algorithms.map(\.rawValue).joined(separator: ", ")
            throw invalid("it is signed with \"\(name)\", and only \(allowed) are accepted here")
        }

        // "2. The Issuer Identifier for the OpenID Provider ... MUST exactly match the value of the iss (issuer) Claim."
        guard let issuer = claims["iss"]?.string else { throw missing("iss") }
        guard issuer == expectation.issuer else {
            throw invalid("its issuer is \"\(DisplayText.sanitized(issuer))\", not \"\(expectation.issuer)\"")
        }

        // Section 2: sub is REQUIRED, and "MUST NOT exceed 255 ASCII characters in length".
        guard let subject = claims["sub"]?.string, !subject.isEmpty else { throw missing("sub") }
        guard subject.utf8.count <= 255 else { throw invalid("its sub is longer than 255 characters") }

        // "3. The Client MUST validate that the aud (audience) Claim contains its client_id value ... The ID Token MUST
        // be rejected if the ID Token does not list the Client as a valid audience, or if it contains additional
        // audiences not trusted by the Client." No other audience is trusted.
        guard let audience = claims["aud"]?.string.map({ [$0] }) ?? claims["aud"]?.strings else { throw missing("aud") }
        guard audience.contains(expectation.clientID) else { throw invalid("it is meant for another client (aud)") }
        guard audience.allSatisfy({ $0 == expectation.clientID }) else {
            throw invalid("it is also meant for clients that this one does not know (aud)")
        }

        // "5. If an azp (authorized party) Claim is present, the Client SHOULD verify that its client_id is the Claim
        // Value."
        if let party = claims["azp"] {
            guard party.string == expectation.clientID else { throw invalid("it was issued to another client (azp)") }
        }

        // "9. The current time MUST be before the time represented by the exp Claim."
        guard let expiry = claims["exp"]?.number else { throw missing("exp") }
        guard now.timeIntervalSince1970 - Self.leeway < expiry else {
            throw invalid(
                "it expired \(seconds(now.timeIntervalSince1970 - expiry)) ago (exp); is this machine's clock right?"
            )
        }

        // "10. The iat Claim can be used to reject tokens that were issued too far away from the current time."
        guard let issued = claims["iat"]?.number else { throw missing("iat") }
        guard issued <= now.timeIntervalSince1970 + Self.leeway else {
            throw invalid(
                "it was issued \(seconds(issued - now.timeIntervalSince1970)) in the future (iat); is this machine's clock right?"
            )
        }
        guard issued >= now.timeIntervalSince1970 - Self.leeway - Self.maximumAge else {
            throw invalid(
                "it was issued \(seconds(now.timeIntervalSince1970 - issued)) ago (iat); is this machine's clock right?"
            )
        }

        // RFC 7519 section 4.1.5: nbf "identifies the time before which the JWT MUST NOT be accepted for processing".
        if let notBefore = claims["nbf"] {
            guard let time = notBefore.number, time <= now.timeIntervalSince1970 + Self.leeway else {
                throw invalid("it is not valid yet (nbf)")
            }
        }

        // "11. If a nonce value was sent in the Authentication Request, a nonce Claim MUST be present and its value
        // checked to verify that it is the same value as the one that was sent in the Authentication Request."
        // One that was never sent belongs to somebody else's sign-in.
        guard claims["nonce"] == expectation.nonce.map(JSON.string) else {
            throw invalid("its nonce is not the one of this sign-in, so it may have been injected")
        }

        // Section 3.1.3.8: at_hash ties the access token to the ID Token. Optional here, but never wrong.
        if let hash = claims["at_hash"] {
            guard let accessToken = expectation.accessToken, hash.string == Self.halfHash(of: accessToken) else {
                throw invalid("its at_hash does not fit the access token that came with it")
            }
        }

        return IDToken(
            header: jws.header,
            claims: claims,
            issuer: issuer,
            subject: subject,
            audience: audience,
            expiresAt: Date(timeIntervalSince1970: expiry),
            issuedAt: Date(timeIntervalSince1970: issued)
        )
    }

    /// "6. ... The Client MUST validate the signature of all other ID Tokens according to JWS". Ours: of all of them,
    /// those from the token endpoint too.
    static func hasValidSignature(_ jws: JWS, by keys: [JWK]) -> Bool {
        keys.contains { $0.isValid(jws.signature, for: jws.signedBytes, algorithm: jws.header.algorithm) }
    }

    /// "the base64url encoding of the left-most half of the hash of the octets of the ASCII representation of the
    /// access_token value, where the hash algorithm used is the hash algorithm used in the alg Header Parameter".
    /// Both supported algorithms hash with SHA-256.
    private static func halfHash(of token: Secret) -> String {
        Base64URL.encode(Array(SHA256.hash(data: Array(token.exposed.utf8))).prefix(16))
    }

    private func invalid(_ reason: String) -> AuthError {
        AuthError(.invalidIDToken, "The ID Token was refused: \(reason). Nobody is signed in.")
    }

    private func missing(_ claim: String) -> AuthError {
        invalid("it has no usable \"\(claim)\" claim, which OpenID Connect Core section 2 requires")
    }

    private func seconds(_ interval: TimeInterval) -> String {
        interval.isFinite && abs(interval) < 1e12 ? "\(Int(interval)) s" : "very long"
    }
}
