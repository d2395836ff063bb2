package import AuthFlowIssuer

extension OAuthClient {
    /// The expected claims of every ID Token that this server issues to this client.
    /// - Parameter response: The response with the ID Token.
    package func expectation(
        of metadata: ProviderMetadata,
        context: IDTokenValidation.Context,
        _ response: TokenResponse? = nil
    ) -> IDTokenValidation.Expectation {
        var expectation = IDTokenValidation.Expectation(
            issuer: metadata.issuer,
            clientID: registration.clientID,
            algorithms: idTokenAlgorithms(metadata),
            context: context,
            leeway: registration.clockLeeway.seconds
        )
        expectation.trustedAudiences = registration.trustedAudiences
        expectation.issuerTemplate = metadata.tokenIssuer
        expectation.accessToken = response?.tokens.accessToken
        expectation.clockOffset = response?.clockOffset ?? server.clockOffset
        return expectation
    }

    /// The signature algorithms to accept for ID Tokens: those in the registration, or else in the server metadata, as far as
    /// the security profile allows.
    package func idTokenAlgorithms(_ metadata: ProviderMetadata) -> [SignatureAlgorithm] {
        let algorithms = registration.idTokenSigningAlgorithms ?? metadata.usableIDTokenAlgorithms
        return algorithms.filter { registration.securityProfile?.algorithms.contains($0) != false }
    }

    /// Decrypts and verifies an ID Token for this client, with the client's secret if the client is registered for HMAC
    /// algorithms.
    /// - Returns: The signed token, which becomes the `id_token_hint` (RP-Initiated Logout 1.0 section 2), and its claims.
    func verifyIDToken(
        _ idToken: Secret,
        _ expectation: IDTokenValidation.Expectation,
        metadata: ProviderMetadata,
        reporter: FlowReporter? = nil
    ) async throws -> (signed: Secret, verified: IDToken) {
        let signed = try decrypted(idToken, .idToken)
        let verified = try await server.verifyIDToken(
            signed,
            expectation,
            metadata: metadata,
            secret: registration.authentication.secret,
            reporter: reporter
        )
        return (signed, verified)
    }

    /// The last step of every grant that signs a user in: validates the tokens and identifies the user. No token is released
    /// before these checks (RFC 9700 section 4.5.3.2).
    /// - Parameters:
    ///   - authorizedScopes: The scopes of the authorization request. A configuration or an adapter may change the scopes of the token
    ///     request, but the authorization request determines which tokens the response must contain.
    ///   - mayLackIDToken: Whether another source may identify the user even if `openid` was requested.
    package func credential(
        of response: TokenResponse,
        _ expectation: IDTokenValidation.Expectation,
        authorizedScopes: [String] = [],
        metadata: ProviderMetadata,
        reporter: FlowReporter,
        mayLackIDToken: Bool = false
    ) async throws -> Credential {
        try await revokingRejectedTokens(response.tokens) {
            var tokens = try requireUsable(response)
            // OIDC Core section 3.1.3.3: id_token is REQUIRED in the token response to an OpenID request.
            let isOpenID =
                (authorizedScopes + response.requestedScopes).contains("openid")
                && (adapter as? any IDTokenOptional)?.mayOmitIDToken(metadata) != true
            if !isOpenID, !canVerifyIDTokens(metadata) { tokens.idToken = nil }
            if tokens.idToken != nil || isOpenID && !mayLackIDToken {
                (tokens.idToken, tokens.verifiedIDToken) = try await reporter.step(.idTokenValidation) {
                    guard let idToken = tokens.idToken else {
                        throw AuthError(
                            .invalidIDToken,
                            "The provider sent no ID Token although \"openid\" was requested (OpenID Connect Core section 3.1.3.3)."
                        )
                    }
                    return try await verifyIDToken(idToken, expectation, metadata: metadata, reporter: reporter)
                }
            }
            // Only an ID Token identifies the user's tenant.
            guard metadata.tokenIssuer == nil || tokens.verifiedIDToken != nil else {
                throw AuthError(
                    .invalidIDToken,
                    "The server serves users of several tenants, but sent no ID Token that identifies the tenant. Add the openid scope."
                )
            }
            let identity = try await reporter.step(.identity) { () -> Identity? in
                if let identity = try await self.identity(of: tokens) { return identity }
                return isOpenID && mayLackIDToken ? try await self.identityFromUserInfo(tokens) : nil
            }
            // RFC 8628 section 3.5 specifies the response of RFC 6749 section 5.1, which has no ID Token, so another source
            // must identify the user.
            guard tokens.verifiedIDToken != nil || !isOpenID || identity != nil else {
                throw AuthError(
                    .invalidIDToken,
                    "The provider sent no ID Token although \"openid\" was requested, so the user cannot be identified. Set \"identity\" to introspection or access_token, if the provider supports one of them, or configure its userinfo endpoint."
                )
            }
            if identity == nil { reporter.report(.identity, details: ["user": "unknown"]) }
            // This issuer cannot issue claims about another issuer's user.
            let issuer =
                metadata.tokenIssuer == nil ? metadata.issuer : tokens.verifiedIDToken?.issuer ?? metadata.issuer
            guard identity?.issuer.isIdentical(to: issuer) != false else {
                throw AuthError(
                    .issuerMismatch,
                    "The adapter returned a user of an issuer other than \(metadata.issuer)."
                )
            }
            var credential = Credential(tokens: tokens, identity: identity, signedInAt: host.wholeSecond)
            credential.binding = ProviderBinding(metadata)
            try credential.requireStorableSize()
            try await adapter.check(credential, replacing: nil, in: providerContext)
            return credential
        }
    }

    /// Whether ID Tokens can be verified. If not, an ID Token that was not requested is discarded without being decoded.
    func canVerifyIDTokens(_ metadata: ProviderMetadata) -> Bool {
        metadata.jwksURI != nil || metadata.tokenIssuer != nil || registration.idTokenSigningAlgorithms != nil
    }

    private func identity(of tokens: TokenSet) async throws -> Identity? {
        guard let provider = adapter as? any UserInfoProviding else { return try await identityFromIDToken(tokens) }
        let identity = try await provider.identity(for: tokens, in: providerContext)
        // OIDC Core section 5.7: "the only guaranteed unique identifier for a given End-User is the combination of the iss Claim and the sub
        // Claim". A value that an adapter has read elsewhere must not replace the verified one.
        if let idToken = tokens.verifiedIDToken, let identity, !identity.subject.isIdentical(to: idToken.subject) {
            throw AuthError(
                .invalidUserInfo,
                "The adapter identified a user other than the ID Token's (sub differs), so the tokens were not used."
            )
        }
        return identity
    }

    /// The implementation of ``ProviderContext/identity(for:)``.
    func identityFromIDToken(_ tokens: TokenSet) async throws -> Identity? {
        guard let idToken = tokens.verifiedIDToken else { return nil }
        var claims = Self.userClaims(idToken.claims)
        let metadata = try await metadata()
        // OIDC Core section 5.4.
        let claimScopes: Set<String> = ["profile", "email", "address", "phone"]
        if registration.requestsUserInfoAtSignIn, metadata.userInfoEndpoint != nil,
            !claimScopes.isDisjoint(with: tokens.scopes),
            let response = try await userInfoClaims(tokens)
        {
            var userInfo = Self.userClaims(response)
            for (address, flag) in Self.verifiedClaims {
                if claims[address] == nil, userInfo[address] != nil {
                    claims[flag] = nil
                } else if claims[address] != userInfo[address] {
                    userInfo[flag] = nil
                }
            }
            claims.merge(userInfo) { fromIDToken, _ in fromIDToken }
        }
        return Identity(issuer: idToken.issuer, subject: idToken.subject, claims: .object(claims))
    }

    /// The userinfo endpoint's claims about the user whom the ID Token identifies; nil if the endpoint does not exist, or rejects the access
    /// token, which may be for another resource. After a transient failure, the sign-in fails, because otherwise the claims would be missing until the next sign-in.
    private func userInfoClaims(_ tokens: TokenSet) async throws -> JSON? {
        do {
            let response: TransportResponse
            do {
                response = try await userInfoResponse(tokens)
            } catch let error as AuthError
                where [.accessTokenRejected, .insufficientScope].contains(error.code)
                || !error.isTransient && [403, 404, 405, 410].contains(error.status)
            {
                return nil
            }
            return try await claims(of: response, comparedWith: tokens)
        } catch let error as AuthError
            where [.invalidResponse, .invalidUserInfo, .unsupported].contains(error.code) && !error.isTransient
            && !(error.underlyingError is UserInfoSubjectMismatch)
        {
            throw error.withMessage(
                "\(error.message) To sign in with the claims of the ID Token alone, set \"userinfo_at_sign_in\" to false.",
                because: error
            )
        }
    }

    /// The claims about the user. Some servers send null for absent claims, which must not hide the values from the other source.
    private static func userClaims(_ claims: JSON) -> [String: JSON] {
        (claims.object ?? [:]).filter { !protocolClaims.contains($0.key) && $0.value != .null }
    }

    /// The claims that contain an e-mail address or a phone number, and the claims that state whether it has been
    /// verified. OIDC Core section 5.1: `email_verified` refers to the `email` in the same claims.
    private static let verifiedClaims = [
        ("email", "email_verified"), ("phone_number", "phone_number_verified"),
    ]

    /// Claims of an ID Token about the token and the sign-in, not about the user.
    private static let protocolClaims: Set<String> = [
        "iss", "aud", "exp", "iat", "nbf", "jti", "nonce", "azp", "at_hash", "c_hash", "auth_time", "acr", "amr", "sid",
    ]
}
