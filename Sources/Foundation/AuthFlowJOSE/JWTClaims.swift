package import AuthFlowEssentials
package import AuthFlowHTTP
package import AuthFlowJSON

/// The claim rules that the verifiers of JWTs share (RFC 7519 section 4.1, RFC 8725): for ID Tokens, access tokens, logout tokens
/// and signed UserInfo, authorization and introspection responses. Each rule is one method, and each verifier calls the
/// methods that apply.
///
/// None of these rules checks the signature.
package struct JWTClaims: Sendable {
    package let json: JSON
    package let header: JWSHeader
    private let profile: JWTProfile
    private let now: Date
    private let leeway: TimeInterval
    private let clockOffset: TimeInterval?

    init(_ jws: JWS, _ profile: JWTProfile, now: Date, leeway: TimeInterval, clockOffset: TimeInterval?) {
        self.json = jws.payload
        self.header = jws.header
        self.profile = profile
        self.now = now
        self.leeway = leeway
        self.clockOffset = clockOffset
    }

    /// The time, in seconds since 1970.
    package var time: TimeInterval { now.timeIntervalSince1970 }

    package func refused(_ reason: String, _ cause: (any Error)? = nil) -> AuthError { profile.refused(reason, cause) }

    /// The value of an optional claim; nil if it is absent or null, as some servers write it.
    package subscript(_ claim: String) -> JSON? { json[claim] == .null ? nil : json[claim] }

    package func missing(_ claim: String) -> AuthError {
        refused("it has no usable \"\(claim)\" claim, which \(profile.specification) requires")
    }

    /// RFC 7519 section 4.1.1: `iss`, compared code point by code point.
    package func requireIssuer(_ issuer: String) throws(AuthError) -> String {
        guard let named = json["iss"]?.string else { throw missing("iss") }
        guard named.isIdentical(to: issuer) else {
            throw refused("its issuer is \"\(DisplayText.sanitized(named))\", not \"\(issuer)\" (iss)")
        }
        return named
    }

    /// OIDC Core section 2: `sub` "MUST NOT exceed 255 ASCII characters in length".
    package func requireSubject() throws(AuthError) -> String {
        guard let subject = json["sub"]?.string, !subject.isEmpty else { throw missing("sub") }
        guard subject.utf8.count <= 255 else { throw refused("its sub is longer than 255 characters") }
        guard subject.utf8.allSatisfy({ $0 < 0x80 }) else { throw refused("its sub contains a non-ASCII character") }
        return subject
    }

    /// RFC 7519 section 4.1.3: `aud`, a string or an array of strings, must contain the recipient.
    package func requireAudience(_ recipient: String) throws(AuthError) -> [String] {
        let audience = try requireAnAudience()
        guard audience.containsIdentical(recipient) else { throw refused("it is intended for another client (aud)") }
        return audience
    }

    /// `aud`, which must contain the recipient, and may contain other audiences only if they are trusted.
    package func requireAudience(_ recipient: String, trusting others: [String]) throws(AuthError) -> [String] {
        let audience = try requireAudience(recipient)
        let untrusted = audience.filter { !$0.isIdentical(to: recipient) && !others.containsIdentical($0) }
        guard untrusted.isEmpty else {
            let names = untrusted.prefix(8).map { DisplayText.sanitized($0, limit: 100) }.joined(separator: ", ")
            throw refused("it is also intended for \(names), which \"trusted_audiences\" does not list (aud)")
        }
        return audience
    }

    /// `aud`, for a recipient with several identifiers.
    package func requireAnAudience() throws(AuthError) -> [String] {
        guard let audience = json["aud"]?.string.map({ [$0] }) ?? json["aud"]?.strings else { throw missing("aud") }
        return audience
    }

    /// RFC 7519 section 4.1.4: `exp`, "the expiration time on or after which the JWT MUST NOT be accepted".
    package func requireUnexpired() throws(AuthError) -> Double {
        guard let expiry = json["exp"]?.number else { throw missing("exp") }
        guard time - leeway < expiry else {
            throw refused("it expired \(Self.seconds(time - expiry)) ago (exp)\(clockHint)")
        }
        return expiry
    }

    /// RFC 7519 section 4.1.6: `iat`, which must be neither in the future nor too old.
    /// - Parameter age: The maximum age, in seconds; nil for no limit.
    package func requireIssued(within age: TimeInterval?) throws(AuthError) -> Double {
        guard let issued = json["iat"]?.number else { throw missing("iat") }
        guard issued <= time + leeway else {
            throw refused("it was issued \(Self.seconds(issued - time)) in the future (iat)\(clockHint)")
        }
        guard age.map({ issued >= time - leeway - $0 }) ?? true else {
            throw refused("it was issued \(Self.seconds(time - issued)) ago (iat)\(clockHint)")
        }
        return issued
    }

    /// RFC 7519 section 4.1.5: nbf "identifies the time before which the JWT MUST NOT be accepted for processing".
    package func requireStarted() throws(AuthError) {
        guard let notBefore = self["nbf"] else { return }
        guard let start = notBefore.number, start <= time + leeway else {
            throw refused("its nbf is not a number, or it is not valid yet (nbf)\(clockHint)")
        }
    }

    /// A hint about clock skew for errors about time claims, because the most common cause is this machine's clock.
    package var clockHint: String {
        guard let clockOffset, abs(clockOffset) >= 5 else { return "; check this machine's clock" }
        return
            "; this machine's clock is \(Self.seconds(abs(clockOffset))) \(clockOffset > 0 ? "ahead of" : "behind") the provider's"
    }

    private static func seconds(_ interval: TimeInterval) -> String {
        interval.isFinite && abs(interval) < 1e12 ? "\(Int(interval)) s" : "a very long time"
    }
}
