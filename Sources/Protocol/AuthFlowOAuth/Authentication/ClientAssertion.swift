import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowJOSE
import AuthFlowJSON

/// A JWT that authenticates a client (RFC 7523 section 2.2, OIDC Core section 9).
///
/// It expires after one minute, and a new assertion is created for each request, because servers reject a reused `jti`.
package struct ClientAssertion: Sendable {
    /// The key or secret that signs the assertion.
    enum Signer: Sendable {
        case key(SigningKeySource)
        case secret(Secret)
    }

    /// RFC 7523 section 2.2.
    static let type = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

    /// draft-ietf-oauth-spiffe-client-auth section 4.1.
    static let spiffeType = "urn:ietf:params:oauth:client-assertion-type:jwt-spiffe"

    package static let lifetime: Int64 = 60

    let signer: Signer
    let algorithm: SignatureAlgorithm?
    let audience: ClientAuthentication.Audience
    /// The key's certificate, if the server identifies the key by its certificate.
    var certificate: CertificateBinding?

    /// The parameters with a new assertion for one request. In RFC 7521 section 4.2 `client_id` is optional, but some
    /// servers require it.
    func parameters(for request: ClientAuthentication.Request) async throws -> ClientAuthentication.Proof {
        [
            "client_id": request.clientID, "client_assertion_type": Self.type,
            "client_assertion": try await make(for: request),
        ]
    }

    private func make(for request: ClientAuthentication.Request) async throws -> String {
        let own: [String: JSON] = [
            // RFC 7523 section 3: iss, sub, aud and exp are required; other claims prevent replay and premature use.
            "iss": .string(request.clientID), "sub": .string(request.clientID),
            "aud": .string(try audience(of: request)),
            "jti": .string(request.identifier),
        ]
        let claims = JSON.object(own.merging(SignedTimes.claims(at: request.time, lifetime: Self.lifetime)) { $1 })
        switch signer {
        case .key(let source):
            let key = try await source.loadKey()
            return try await key.jwt(
                claims,
                type: "JWT",
                algorithm: try key.algorithm(
                    algorithm,
                    allowed: request.allowedAlgorithms,
                    advertised: request.advertisedAlgorithms
                ),
                certificate: certificate
            )
        case .secret(let secret):
            let algorithm = algorithm ?? .hs256
            let header: JSON = ["typ": "JWT", "alg": .string(algorithm.rawValue)]
            let text = "\(Base64URL.encode(try header.serialized())).\(Base64URL.encode(try claims.serialized()))"
            let code = HMACSignature.code(
                for: Array(text.utf8),
                hash: algorithm.definition?.hash ?? .sha256,
                secret: secret
            )
            return "\(text).\(Base64URL.encode(code))"
        }
    }

    /// FAPI 2.0 section 5.3.3.1: "shall use the issuer identifier value ... as a string".
    private func audience(of request: ClientAuthentication.Request) throws(AuthError) -> String {
        switch audience {
        case .issuer: return request.issuer
        case .tokenEndpoint:
            let tokenEndpoint = request.tokenEndpoint ?? request.endpoint
            // Both URLs come from the metadata. Without this check a hostile provider could have an assertion for another provider's
            // token endpoint sent to its own endpoint, and then use it at the other provider.
            guard tokenEndpoint.origin == request.endpoint.origin else {
                throw AuthError(
                    .unsupported,
                    "A client assertion for \(tokenEndpoint) must not be sent to \(request.endpoint.origin). Use the issuer or the endpoint itself as the audience."
                )
            }
            return tokenEndpoint.url
        case .endpoint: return request.endpoint.url
        }
    }
}
