import AuthFlowHTTP
import AuthFlowJOSE
import AuthFlowJSON

/// The parameters of an authorization response that came as a signed JWT (JARM), once they may be believed.
struct SignedAuthorizationResponse: Sendable {
    /// The parameters that were signed, `iss` among them.
    let parameters: FormParameters

    /// Checks a response in the order of JARM section 2.4: the claims, which cost nothing, and then the signature, for which keys
    /// may have to be fetched.
    /// - Parameters:
    ///   - received: The parameters of the redirect.
    ///   - request: The request that it must belong to.
    ///   - client: The client that made the request.
    ///   - metadata: The server's.
    /// - Throws: ``AuthError`` with `invalid_callback`, or what fetching the keys throws.
    init(
        _ received: FormParameters,
        to request: AuthorizationRequest,
        client: OAuthClient,
        metadata: ProviderMetadata
    ) async throws {
        let refusal: @Sendable (String) -> AuthError = {
            AuthError(.invalidCallback, "The signed authorization response was refused: \($0).")
        }
        // JARM section 2.3: one parameter, "response". What stands beside it is not signed.
        guard let text = received["response"], received.values(for: "response").count == 1 else {
            throw AuthError(
                .invalidCallback,
                "The redirect carries no signed response (JARM), although one was asked for (response_mode)."
            )
        }
        for name in received.names where Self.unsigned.contains(name) {
            throw refusal("the parameter \"\(name)\" stands beside it, outside the signature")
        }
        let jws: JWS
        do throws(AuthError) {
            // JARM section 2.4: "1. (OPTIONAL) The client decrypts the JWT".
            jws = try JWS(try client.decrypted(Secret(text), .authorizationResponse))
        } catch {
            throw AuthError(error.code == .unsupported ? .unsupported : .invalidCallback, error.message)
        }
        var claims = JWTClaims(
            jws,
            now: client.host.now(),
            leeway: client.registration.clockLeeway.seconds,
            refusal: refusal
        )
        claims.specification = "JARM section 2.1"
        claims.clockOffset = client.server.clockOffset
        // "3. ... the alg value MUST NOT be none": nor anything else that has no public key of the issuer's.
        let algorithms = client.responseAlgorithms(metadata)
        guard algorithms.contains(jws.header.algorithm) else {
            let name = DisplayText.sanitized(jws.header.algorithm.rawValue, limit: 20)
            throw refusal("it is signed with \"\(name)\", which was not agreed on (alg)")
        }
        try claims.requireNoCriticalExtension()
        try claims.requireKeyIDIsString()
        // "2. The client checks the iss element": before keys are fetched.
        _ = try claims.requireIssuer(request.issuer)
        // "3. The client checks the aud element".
        let audience = try claims.requireAudience(request.clientID)
        guard audience.count == 1 else { throw refusal("it is meant for other clients too (aud)") }
        // "4. The client checks the exp element".
        _ = try claims.requireUnexpired()
        try claims.requireStarted()
        // "5. The client checks the signature of the JWT".
        _ = try await client.server.verifySignature(of: jws, metadata: metadata, secret: nil, refusal: refusal)

        var parameters = FormParameters()
        for (name, value) in (jws.payload.object ?? [:]).sorted(by: { $0.key < $1.key })
        where !Self.ownClaims.contains(name) {
            guard let text = value.string ?? value.integer.map(String.init) else { continue }
            parameters.append(name, text)
        }
        self.parameters = parameters
    }

    /// Parameters that mean something, and have to be inside.
    private static let unsigned: Set<String> = [
        "code", "state", "iss", "error", "error_description", "error_uri", "id_token", "access_token",
    ]

    /// The claims of the JWT itself. `iss` stays: it names the issuer, as RFC 9207 asks.
    private static let ownClaims: Set<String> = ["aud", "exp", "iat", "nbf", "jti"]
}

extension OAuthClient {
    /// The algorithms that a signed authorization response may have: with a public key, and announced where the server
    /// announces any (`authorization_signing_alg_values_supported`).
    fileprivate func responseAlgorithms(_ metadata: ProviderMetadata) -> [SignatureAlgorithm] {
        let allowed = registration.securityProfile?.algorithms ?? SignatureAlgorithm.asymmetric
        guard let announced = metadata.json["authorization_signing_alg_values_supported"]?.strings else {
            return allowed
        }
        return allowed.filter { announced.contains($0.rawValue) }
    }
}
