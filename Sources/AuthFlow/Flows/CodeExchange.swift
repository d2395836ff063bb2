import HTTPTypes

extension Engine {
    /// Exchanges an authorization code for tokens (RFC 6749 section 4.1.3, RFC 7636 section 4.5) at the endpoint of the
    /// issuer that was asked. What comes back is not validated yet.
    func exchange(_ code: Secret, for pending: PendingAuthorization) async throws -> TokenSet {
        let request = ProviderRequest(
            purpose: .token,
            endpoint: try pending.metadata.required(\.tokenEndpoint, "token endpoint"),
            parameters: settings.parameters[.token] ?? [:],
            headerFields: [:],
            protectedParameters: [
                "grant_type": "authorization_code",
                "code": code.exposed,
                "redirect_uri": pending.redirectURI,
                "code_verifier": pending.codeVerifier.exposed,
            ]
        )
        let reply = try await send(request)
        return try provider.tokens(from: reply, in: context)
    }

    /// Checks tokens that came for a code, and releases them (RFC 9700 section 4.5.3.2: no token is used before).
    func validated(_ tokens: TokenSet, for pending: PendingAuthorization) async throws -> TokenSet {
        // RFC 6749 section 7.1: "The client MUST NOT use an access token if it does not understand the token type." The
        // name is compared without case (section 5.1).
        guard tokens.tokenType.lowercased() == "bearer" else {
            throw AuthError(
                .unsupported,
                "The provider sent an access token of type \"\(DisplayText.sanitized(tokens.tokenType, limit: 40))\", which is not understood here."
            )
        }
        var tokens = tokens
        tokens.verifiedIDToken = nil
        guard let idToken = tokens.idToken else {
            // OIDC Core section 3.1.3.3: id_token is REQUIRED in the token response to an OpenID request.
            guard pending.nonce == nil else {
                throw AuthError(
                    .invalidIDToken,
                    "The provider sent no ID Token although \"openid\" was asked for (OpenID Connect Core section 3.1.3.3)."
                )
            }
            return tokens
        }
        tokens.verifiedIDToken = try await verify(
            idToken,
            nonce: pending.nonce,
            accessToken: tokens.accessToken,
            metadata: pending.metadata
        )
        return tokens
    }

    /// Verifies an ID Token: claims first, which costs nothing, then the signature with the provider's keys.
    private func verify(
        _ idToken: Secret,
        nonce: Secret?,
        accessToken: Secret,
        metadata: ProviderMetadata
    ) async throws -> IDToken {
        let jws = try JWS(idToken)
        let announced = metadata.idTokenSigningAlgorithms?.map(SignatureAlgorithm.init(rawValue:)) ?? [.rs256]
        let validation = IDTokenValidation(
            expectation: IDTokenValidation.Expectation(
                issuer: metadata.issuer,
                clientID: settings.clientID,
                nonce: nonce?.exposed,
                accessToken: accessToken,
                algorithms: SignatureAlgorithm.supported.filter(announced.contains)
            ),
            now: host.now()
        )
        let validated = try validation.validateClaims(of: jws)

        let context = self.context
        let candidates = try await keys.candidates(
            for: jws.header,
            at: try metadata.required(\.jwksURI, "key set (jwks_uri)"),
            now: host.now()
        ) { try await context.document(at: $0) }
        guard !candidates.isEmpty else {
            throw AuthError(
                .invalidIDToken,
                "The ID Token was refused: none of the provider's keys fits its signature. Nobody is signed in."
            )
        }
        guard IDTokenValidation.hasValidSignature(jws, by: candidates) else {
            throw AuthError(.invalidIDToken, "The ID Token was refused: its signature is wrong. Nobody is signed in.")
        }
        return validated
    }
}
