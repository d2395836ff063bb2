package import AuthFlowEssentials
package import AuthFlowHTTP
package import AuthFlowJSON

/// The token-independent rules for one kind of JWT.
package struct JWTProfile: Sendable {
    /// The `typ` that a token must have. Case and the prefix `application/` are ignored (RFC 7515 section 4.1.9).
    package enum TypeRule: Sendable {
        /// One of these types, or no type.
        case optional([String])
        /// One of these types.
        case required([String])
    }

    /// The kind of token, for messages.
    package let name: String
    package let type: TypeRule
    /// The specification that requires the claims, for the message about a missing claim.
    package let specification: String
    /// The error code.
    package let code: AuthError.Code
    /// Whether the client's registration can add to the accepted algorithms.
    fileprivate let acceptsRegisteredAlgorithms: Bool

    package init(
        _ name: String,
        type: TypeRule,
        specification: String,
        code: AuthError.Code,
        acceptsRegisteredAlgorithms: Bool = false
    ) {
        self.acceptsRegisteredAlgorithms = acceptsRegisteredAlgorithms
        self.name = name
        self.type = type
        self.specification = specification
        self.code = code
    }

    /// The error for a token that violates a rule.
    package func rejection(_ reason: String, _ cause: (any Error)? = nil) -> AuthError {
        AuthError(code, "\(name) was rejected: \(reason).", underlyingError: cause)
    }
}

/// The only implementation of JWT verification. It checks the header, then the claims, which are cheap to check, and
/// finally the signature, because verifying it may require fetching keys.
package struct JWTVerifier: Sendable {
    fileprivate let profile: JWTProfile
    private let algorithms: [SignatureAlgorithm]
    fileprivate let now: Date
    fileprivate let leeway: TimeInterval
    fileprivate let clockOffset: TimeInterval?

    /// Creates a verifier.
    /// - Parameters:
    ///   - algorithms: The agreed signature algorithms.
    ///   - leeway: The maximum accepted difference between this machine's clock and the issuer's, in seconds.
    ///   - clockOffset: The number of seconds by which this machine's clock is ahead of the issuer's; nil when unknown.
    package init(
        _ profile: JWTProfile,
        algorithms: [SignatureAlgorithm],
        now: Date,
        leeway: TimeInterval,
        clockOffset: TimeInterval?
    ) {
        self.profile = profile
        self.algorithms = algorithms
        self.now = now
        self.leeway = leeway
        self.clockOffset = clockOffset
    }

    /// Verifies a token.
    /// - Parameters:
    ///   - token: The decrypted token. A token that is still encrypted is rejected with `unsupported`.
    ///   - secret: The secret for symmetric (HMAC) algorithms; nil for none. A public key is never used as a secret: the two kinds of
    ///     key are strictly separated (RFC 8725 section 2.1).
    ///   - check: Applies the rules for the token's claims. Its errors are rethrown.
    /// - Returns: The header, and the result of `check`. Only this method creates a ``VerifiedJWT``.
    /// - Throws: ``AuthError`` with the profile's code, or any error from fetching the keys.
    package func verify<Claims: Sendable>(
        _ token: Secret,
        keys: some KeySet,
        secret: Secret?,
        check: (JWTClaims) throws -> Claims
    ) async throws -> VerifiedJWT<Claims> {
        let jws: JWS
        do throws(AuthError) {
            jws = try JWS(token)
        } catch {
            throw AuthError(error.code == .unsupported ? .unsupported : profile.code, error.message)
        }
        let claims = try check(try rules(of: jws))
        try await verifySignature(of: jws, keys: keys, secret: secret)
        return VerifiedJWT(header: jws.header, claims: claims)
    }

    /// Verifies the signature of a token whose header and claims have passed all checks.
    /// - Throws: ``AuthError`` with the profile's code, or any error from fetching the keys.
    package func verifySignature(of jws: JWS, keys: some KeySet, secret: Secret? = nil) async throws {
        guard try await isSigned(jws, keys, secret) else { throw profile.rejection("its signature is invalid") }
    }

    /// Checks the header, and returns the rules for checking the claims.
    package func rules(of jws: JWS) throws(AuthError) -> JWTClaims {
        let header = jws.header.json
        // RFC 7515 section 4.1.11: "If any of the listed extension Header Parameters are not understood and supported by the
        // recipient, then the JWS is invalid." No extension is supported.
        guard header.headerParameter("crit") == nil else {
            throw profile.rejection("its header has \"crit\", but no critical extensions are supported")
        }
        // RFC 7515 section 4.1.4: "The structure of the kid value is unspecified. Its value MUST be a case-sensitive string."
        guard header.headerParameter("kid") == nil || jws.header.keyID != nil else {
            throw profile.rejection("its header has a \"kid\" that is not a string")
        }
        try checkType(header.headerParameter("typ"))
        // RFC 7515 section 4.1.1: "alg" "MUST be present", and its value is a string.
        guard let claimed = header.headerParameter("alg") else { throw profile.rejection("its header has no \"alg\"") }
        guard claimed.string != nil else { throw profile.rejection("its header has an \"alg\" that is not a string") }
        // RFC 8725 section 3.1: "Libraries MUST enable the caller to specify a supported set of algorithms and MUST NOT use any other
        // algorithms when performing cryptographic operations."
        guard algorithms.contains(jws.header.algorithm) else {
            let name = DisplayText.sanitized(jws.header.algorithm.rawValue, limit: 20)
            let allowed = algorithms.map(\.rawValue).joined(separator: ", ")
            throw profile.rejection(
                allowed.isEmpty
                    ? "it is signed with \"\(name)\", but the provider and the client have not agreed on any supported algorithm (alg)\(registrationHint(jws))"
                    : "it is signed with \"\(name)\", which is not accepted (alg); accepted: \(allowed)\(registrationHint(jws))"
            )
        }
        return JWTClaims(json: jws.payload, header: jws.header, verifier: self)
    }

    /// The hint for an algorithm that the client may be registered for even though the provider's metadata does not list it.
    private func registrationHint(_ jws: JWS) -> String {
        guard profile.acceptsRegisteredAlgorithms, jws.header.algorithm.definition != nil else { return "" }
        return ". A client that is registered for this algorithm must list it in \"id_token_signing_algorithms\""
    }

    /// RFC 8725 section 3.11: explicit typing prevents one kind of JWT from being used as another.
    private func checkType(_ type: JSON?) throws(AuthError) {
        let accepted: [String]
        switch profile.type {
        case .optional(let types):
            guard type != nil else { return }
            accepted = types
        case .required(let types):
            guard type != nil else { throw profile.rejection("its header has no type (typ)") }
            accepted = types
        }
        guard let written = type?.string else {
            throw profile.rejection("its header has a \"typ\" that is not a string")
        }
        let name = written.lowercased()
        // RFC 7515 section 4.1.9: "application/" is prepended to a value without a slash.
        guard accepted.contains(name.hasPrefix("application/") ? String(name.dropFirst("application/".count)) : name)
        else {
            let found = DisplayText.sanitized(written, limit: 40)
            throw profile.rejection(
                "its header declares the type \"\(found)\" (typ); accepted: \(accepted.joined(separator: ", "))"
            )
        }
    }

    private func isSigned(_ jws: JWS, _ keys: some KeySet, _ secret: Secret?) async throws -> Bool {
        if let definition = jws.header.algorithm.definition, definition.scheme == .hmac {
            guard let secret else { return false }
            return HMACSignature.isValid(jws.signature, for: jws.signedBytes, hash: definition.hash, secret: secret)
        }
        switch try await keys.verdict(on: jws) {
        case .verified: return true
        case .invalidSignature: return false
        case .noMatchingKey:
            throw profile.rejection(
                "none of the provider's keys matches its signature. RSA keys shorter than 2048 bits, keys for encryption, and keys published with their private part are not used"
            )
        }
    }
}

/// A JWT whose header, claims and signature have passed every check.
package struct VerifiedJWT<Claims: Sendable>: Sendable {
    package let header: JWSHeader
    package let claims: Claims

    fileprivate init(header: JWSHeader, claims: Claims) {
        self.header = header
        self.claims = claims
    }
}

/// The claim rules that the verifiers of JWTs share (RFC 7519 section 4.1, RFC 8725): for ID Tokens, access tokens, logout tokens
/// and signed UserInfo, authorization and introspection responses. Each rule is one method, and each verifier calls the
/// methods that apply.
///
/// None of these rules checks the signature.
package struct JWTClaims: Sendable {
    package let json: JSON
    package let header: JWSHeader
    fileprivate let verifier: JWTVerifier

    private var leeway: TimeInterval { verifier.leeway }

    /// The current time, in seconds since the Epoch.
    package var time: TimeInterval { verifier.now.timeIntervalSince1970 }

    package func rejection(_ reason: String, _ cause: (any Error)? = nil) -> AuthError {
        verifier.profile.rejection(reason, cause)
    }

    /// The value of an optional claim; nil if the claim is absent, or null, which some servers send instead of omitting it.
    package subscript(_ claim: String) -> JSON? { json[claim] == .null ? nil : json[claim] }

    package func missing(_ claim: String) -> AuthError {
        rejection("it has no usable \"\(claim)\" claim, which \(verifier.profile.specification) requires")
    }

    /// RFC 7519 section 4.1.1: `iss`, compared code point by code point.
    package func requireIssuer(_ issuer: String) throws(AuthError) -> String {
        guard let named = json["iss"]?.string else { throw missing("iss") }
        guard named.isIdentical(to: issuer) else {
            throw rejection("its issuer is \"\(DisplayText.sanitized(named))\", not \"\(issuer)\" (iss)")
        }
        return named
    }

    /// OIDC Core section 2: `sub` "MUST NOT exceed 255 ASCII characters in length".
    package func requireSubject() throws(AuthError) -> String {
        guard let subject = json["sub"]?.string, !subject.isEmpty else { throw missing("sub") }
        guard subject.utf8.count <= 255 else { throw rejection("its sub is longer than 255 characters") }
        guard subject.utf8.allSatisfy({ $0 < 0x80 }) else { throw rejection("its sub contains a non-ASCII character") }
        return subject
    }

    /// RFC 7519 section 4.1.3: `aud`, a string or an array of strings, must contain the recipient.
    package func requireAudience(_ recipient: String) throws(AuthError) -> [String] {
        let audience = try requireAudienceClaim()
        guard audience.containsIdentical(recipient) else { throw rejection("it is intended for another client (aud)") }
        return audience
    }

    /// `aud`, which must contain the recipient, and may contain other audiences only if they are trusted.
    package func requireAudience(_ recipient: String, trusting others: [String]) throws(AuthError) -> [String] {
        let audience = try requireAudience(recipient)
        let untrusted = audience.filter { !$0.isIdentical(to: recipient) && !others.containsIdentical($0) }
        guard untrusted.isEmpty else {
            let names = untrusted.prefix(8).map { DisplayText.sanitized($0, limit: 100) }.joined(separator: ", ")
            throw rejection("it is also intended for \(names), which \"trusted_audiences\" does not list (aud)")
        }
        return audience
    }

    /// Returns the audiences in `aud`, for a recipient with several identifiers, which the caller compares.
    package func requireAudienceClaim() throws(AuthError) -> [String] {
        guard let audience = json["aud"]?.string.map({ [$0] }) ?? json["aud"]?.strings else { throw missing("aud") }
        return audience
    }

    /// RFC 7519 section 4.1.4: `exp`, "the expiration time on or after which the JWT MUST NOT be accepted".
    package func requireUnexpired() throws(AuthError) -> Double {
        guard let expiry = json["exp"]?.number else { throw missing("exp") }
        guard time - leeway < expiry else {
            throw rejection("it expired \(Self.seconds(time - expiry)) ago (exp)\(clockHint)")
        }
        return expiry
    }

    /// RFC 7519 section 4.1.6: `iat`, which must be neither in the future nor too old.
    /// - Parameter age: The maximum age, in seconds; nil for no limit.
    package func requireIssuedAt(within age: TimeInterval?) throws(AuthError) -> Double {
        guard let issued = json["iat"]?.number else { throw missing("iat") }
        guard issued <= time + leeway else {
            throw rejection("it was issued \(Self.seconds(issued - time)) in the future (iat)\(clockHint)")
        }
        guard age.map({ issued >= time - leeway - $0 }) ?? true else {
            throw rejection("it was issued \(Self.seconds(time - issued)) ago (iat)\(clockHint)")
        }
        return issued
    }

    /// RFC 7519 section 4.1.5: nbf "identifies the time before which the JWT MUST NOT be accepted for processing".
    package func requireNotBefore() throws(AuthError) {
        guard let notBefore = self["nbf"] else { return }
        guard let start = notBefore.number, start <= time + leeway else {
            throw rejection("its nbf is not a number, or it is not valid yet (nbf)\(clockHint)")
        }
    }

    /// A hint about clock skew for errors about time claims, because the most common cause is this machine's clock.
    package var clockHint: String {
        guard let clockOffset = verifier.clockOffset, abs(clockOffset) >= 5 else {
            return "; check this machine's clock"
        }
        return
            "; this machine's clock is \(Self.seconds(abs(clockOffset))) \(clockOffset > 0 ? "ahead of" : "behind") the provider's"
    }

    private static func seconds(_ interval: TimeInterval) -> String {
        interval.isFinite && abs(interval) < 1e12 ? "\(Int(interval)) s" : "a very long time"
    }
}
