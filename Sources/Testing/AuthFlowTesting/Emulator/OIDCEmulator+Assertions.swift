public import AuthFlow
import AuthFlowEssentials
import Synchronization

// Assertions from other issuers (RFC 7523), and assertions that this provider issues for other servers
// (draft-ietf-oauth-identity-assertion-authz-grant).

extension OIDCEmulator {
    private static let identityAssertionType = "oauth-id-jag+jwt"

    /// The platform that issues assertions for a client.
    public struct Workload: Sendable, Hashable {
        /// The issuer of its JWTs, one of ``OIDCEmulator/trustedIssuers``.
        public var issuer: String
        /// The subject that identifies the client in these JWTs.
        public var subject: String

        /// Creates a workload.
        public init(issuer: String, subject: String) {
            self.issuer = issuer
            self.subject = subject
        }
    }

    /// The issuers whose assertions are accepted, with their key sets (RFC 7517).
    public var trustedIssuers: [String: JSON] {
        get { state.withLock { $0.trustedIssuers } }
        set { state.withLock { $0.trustedIssuers = newValue } }
    }

    /// The provider's public key set (RFC 7517).
    public func publicKeys() throws -> JSON { try state.withLock { $0.keys }.jwks() }

    /// Signs a JWT as this provider, such as an assertion that a platform issues to its workloads.
    /// - Parameters:
    ///   - claims: The claims; `iss`, `iat` and `exp` (in an hour) are added if they are missing.
    ///   - type: The `typ` header parameter.
    public func assertion(_ claims: [String: JSON], type: String = "JWT") throws -> String {
        let time = Int64(now().timeIntervalSince1970)
        let all = claims.merging(["iss": .string(issuer), "iat": .integer(time), "exp": .integer(time + 3600)]) {
            old,
            _ in old
        }
        let (keys, usual) = state.withLock { ($0.keys, $0.settings.signingAlgorithm) }
        // Other servers verify assertions with the public keys.
        let algorithm = SignatureAlgorithm.asymmetric.contains(usual) ? usual : .es256
        return try keys.sign(.object(all), header: .object(keys.header(for: algorithm, type: type)), with: algorithm)
    }

    /// The reason for rejecting an assertion.
    private struct Refusal: Error {
        let description: String

        init(_ description: String) { self.description = description }
    }

    /// The header and claims of a valid assertion from a trusted issuer.
    private func trustedClaims(_ text: String?) throws(Refusal) -> (header: JSON, claims: JSON) {
        guard let text, let jws = try? JWS(Secret(text)) else { throw Refusal("the assertion is not a signed JWT") }
        let claims = jws.payload
        guard let issuer = claims["iss"]?.string, let jwks = trustedIssuers[issuer] else {
            throw Refusal("the issuer of the assertion is not trusted")
        }
        guard
            let keys = (try? JWKSet(jwks))?.keys,
            keys.contains(where: {
                $0.keyID == jws.header.keyID
                    && $0.isValid(jws.signature, for: jws.signedBytes, algorithm: jws.header.algorithm)
            })
        else { throw Refusal("the signature of the assertion is invalid") }
        let time = now().timeIntervalSince1970
        guard let expiry = claims["exp"]?.number, expiry > time else { throw Refusal("the assertion has expired") }
        guard (claims["iat"]?.number ?? 0) <= time + 10, (claims["nbf"]?.number ?? 0) <= time + 10 else {
            throw Refusal("the assertion is not valid yet")
        }
        let audiences = claims["aud"]?.strings ?? claims["aud"]?.string.map { [$0] } ?? []
        guard audiences.contains(self.issuer) || audiences.contains("\(base)/token") else {
            throw Refusal("the assertion is for a different audience")
        }
        guard claims["sub"]?.string?.isEmpty == false else { throw Refusal("the assertion has no subject") }
        return (jws.header.json, claims)
    }

    /// An access token in exchange for an assertion (RFC 7523 section 2.1).
    func jwtBearer(_ form: FormParameters, _ client: Client, _ thumbprint: String?) -> TransportResponse {
        do throws(Refusal) {
            let (header, claims) = try trustedClaims(form["assertion"])
            var scopes = form["scope"]
            if header["typ"]?.string == Self.identityAssertionType {
                // Section 4.4.1: "The aud claim MUST identify the issuer of the Resource Authorization Server", "as a string".
                guard claims["aud"]?.string == issuer || claims["aud"]?.strings == [issuer] else {
                    throw Refusal("the issuer is not the only audience of the identity assertion")
                }
                guard claims["client_id"]?.string == client.id else {
                    throw Refusal("the identity assertion is for a different client")
                }
                guard claims["jti"]?.string != nil, claims["iat"]?.number != nil else {
                    throw Refusal("the identity assertion lacks jti or iat")
                }
                guard claims["cnf"] == nil || claims["cnf"]?["jkt"]?.string == thumbprint else {
                    throw Refusal("the identity assertion is bound to a different key")
                }
                scopes = claims["scope"]?.string
            }
            return tokenWithoutUser(scopes ?? "", of: claims["sub"]?.string ?? "", client, form, thumbprint)
        } catch {
            return .refusal("invalid_grant", error.description)
        }
    }

    /// Whether a form contains a JWT from the platform that issues assertions for a client.
    func hasWorkloadAssertion(_ form: FormParameters, of client: Client) -> Bool {
        guard let workload = client.workload,
            let claims = try? trustedClaims(form["client_assertion"]).claims
        else { return false }
        let type = workload.subject.hasPrefix("spiffe://") ? "jwt-spiffe" : "jwt-bearer"
        return form["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:\(type)"
            && claims["iss"]?.string == workload.issuer && claims["sub"]?.string == workload.subject
    }

    /// An identity assertion for another server, in exchange for an ID Token from this server.
    func identityAssertion(_ form: FormParameters, _ client: Client, _ thumbprint: String?) -> TransportResponse {
        guard form["subject_token_type"] == "urn:ietf:params:oauth:token-type:id_token",
            let jws = form["subject_token"].flatMap({ try? JWS(Secret($0)) }),
            let keys = try? JWKSet(state.withLock({ $0.keys }).jwks()).keys,
            keys.contains(where: { $0.isValid(jws.signature, for: jws.signedBytes, algorithm: jws.header.algorithm) })
        else {
            return .refusal(
                "invalid_request",
                "the subject_token is not an ID Token of this provider, or the subject_token_type is wrong"
            )
        }
        guard jws.payload["aud"]?.string == client.id else {
            return .refusal("invalid_request", "the ID Token was issued to a different client")
        }
        guard let expiry = jws.payload["exp"]?.number, expiry > now().timeIntervalSince1970 else {
            return .refusal("invalid_grant", "the ID Token has expired")
        }
        guard let audience = form["audience"], let other = identityAudiences[audience] else {
            return .refusal("invalid_target", "no assertions are issued for this audience")
        }
        var claims: [String: JSON] = [
            "sub": jws.payload["sub"] ?? "", "aud": .string(audience), "client_id": .string(other),
            "jti": .string(Self.randomID()), "exp": .integer(Int64(now().timeIntervalSince1970) + 300),
        ]
        claims["scope"] = form["scope"].map(JSON.string)
        let resources = form.values(for: "resource")
        if !resources.isEmpty { claims["resource"] = .array(resources.map(JSON.string)) }
        claims["cnf"] = thumbprint.map { ["jkt": .string($0)] }
        guard let assertion = try? assertion(claims, type: Self.identityAssertionType) else { return .failure }
        var parameters: [String: JSON] = [
            "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag", "access_token": .string(assertion),
            "token_type": "N_A", "expires_in": 300,
        ]
        parameters["scope"] = form["scope"].map(JSON.string)
        return withNonce((settings.fault?.tokenResponse ?? TokenResponseFault()).applied(to: parameters))
    }

    /// The servers for which identity assertions are issued: each issuer, with the client's `client_id` at that server.
    public var identityAudiences: [String: String] {
        get { state.withLock { $0.identityAudiences } }
        set { state.withLock { $0.identityAudiences = newValue } }
    }
}
