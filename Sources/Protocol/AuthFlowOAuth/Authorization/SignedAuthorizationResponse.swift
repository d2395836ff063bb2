import AuthFlowIssuer

extension OAuthClient {
    /// Verifies an authorization response in the form of a signed JWT, in the order of JARM section 2.4: first the claims, which are
    /// cheap to check, and then the signature, which may require fetching keys.
    /// - Returns: The signed parameters, including `iss`.
    /// - Throws: ``AuthError`` with `invalid_callback`, or any error from fetching the keys.
    func signedParameters(
        in received: RedirectResponse,
        to request: AuthorizationRequest,
        _ metadata: ProviderMetadata
    ) async throws -> FormParameters {
        // JARM section 2.3: one parameter, "response". Parameters outside it are not signed.
        guard let signed = received.signed else {
            // The error may come from a provider that does not support JARM. Its sender is not authenticated.
            let state = received.parameters["state"].map { Secret($0) }
            throw AuthError(
                .invalidCallback,
                "The redirect contains no signed response (JARM), although one was requested (response_mode).",
                providerError: state == request.state ? received.parameters.authorizationError : nil
            )
        }
        let profile = JWTProfile(
            "The signed authorization response",
            type: .optional(["jwt"]),
            specification: "JARM section 2.1",
            code: .invalidCallback
        )
        // This is checked here because the receiver of the redirect might not have access to the client's requirements.
        guard
            !registration.encryptedResponses.contains(.authorizationResponse)
                || JWE.isEncrypted(Secret(received.parameters["response"] ?? ""))
        else { throw profile.rejection("it is not encrypted, although the client requires encryption") }
        // RFC 9207 section 2.4: JARM's iss claim makes the parameter unnecessary, but some providers add it to every response. The claim is checked.
        let hasSameIssuer = received.parameters.values(for: "iss").allSatisfy { $0.isIdentical(to: request.issuer) }
        for name in received.parameters.names where Self.unsigned.contains(name) && !(name == "iss" && hasSameIssuer) {
            throw profile.rejection("the parameter \"\(name)\" is outside the signed response")
        }
        let claims = try await verify(
            // JARM section 2.4: "1. (OPTIONAL) The client decrypts the JWT". The response was decrypted when it arrived.
            signed,
            as: profile,
            // JARM section 3: "The algorithm none is not allowed." Symmetric (HMAC) algorithms are rejected, too.
            algorithms: metadata.advertisedAlgorithms("authorization_signing_alg_values_supported"),
            metadata: metadata
        ) { rules in
            // "2. The client obtains the iss element from the JWT and checks ...": before keys are fetched.
            _ = try rules.requireIssuer(request.issuer)
            // "3. The client obtains the aud element from the JWT and checks whether it matches the client id".
            let audience = try rules.requireAudience(request.clientID)
            guard audience.count == 1 else { throw rules.rejection("it is also intended for other clients (aud)") }
            // "4. The client checks the JWT's exp element to determine if the JWT is still valid."
            _ = try rules.requireUnexpired()
            try rules.requireNotBefore()
            // The signature (item 5) is checked after this closure, by JWTVerifier.
            return rules.json
        }

        var parameters = FormParameters()
        for (name, value) in (claims.object ?? [:]).sorted(by: { $0.key < $1.key })
        where !Self.jwtClaims.contains(name) {
            // RFC 6749 appendix A: the standard parameters are strings. Others, such as expires_in, may be numbers.
            let number = Self.unsigned.contains(name) ? nil : value.integer.map(String.init)
            guard let text = value.string ?? number else { continue }
            parameters.append(name, text)
        }
        return parameters
    }

    /// The parameters that affect how the response is processed, and so must be inside the signed response.
    private static let unsigned: Set<String> = [
        "code", "state", "iss", "error", "error_description", "error_uri", "id_token", "access_token",
    ]

    /// The claims of the JWT itself. `iss` is not included, because it identifies the issuer as in RFC 9207.
    private static let jwtClaims: Set<String> = ["aud", "exp", "iat", "nbf", "jti"]
}
