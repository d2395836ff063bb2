import AuthFlowIssuer
public import AuthFlowJSON

extension OAuthClient {
    /// The provider's claims about a user, from its userinfo endpoint (OIDC Core section 5.3) or its adapter's equivalent.
    /// - Throws: ``AuthError`` with `unsupported` when there is no such endpoint, or no ID Token for comparison;
    ///   `access_token_rejected` when the access token is not accepted; `insufficient_scope` when it lacks a scope, according to a response with
    ///   status 200; `invalid_user_info` when the response is for another user.
    public func userInfo(_ tokens: TokenSet) async throws -> JSON {
        guard let provider = adapter as? any UserInfoProviding else {
            return try await requestUserInfo(tokens, withoutIDToken: false)
        }
        return try await provider.userInfo(for: tokens, in: providerContext)
    }

    /// Like ``userInfo(_:)``, for the tokens of a user who may have been identified without an ID Token.
    package func userInfo(_ tokens: TokenSet, of credential: Credential) async throws -> JSON {
        do {
            return try await userInfo(tokens)
        } catch let error as AuthError
            where error.code == .unsupported && tokens.verifiedIDToken == nil && credential.identity != nil
        {
            let claims = try await requestUserInfo(tokens, withoutIDToken: true)
            guard claims["sub"]?.string.isIdentical(to: credential.identity?.subject) == true else {
                throw AuthError(
                    .invalidUserInfo,
                    "The \"sub\" of the userinfo response is not the identifier of the signed-in user, so the response was not used."
                )
            }
            return claims
        }
    }

    /// The user whom the userinfo endpoint identifies for tokens without an ID Token (OIDC Core section 5.3); nil if the server has no such
    /// endpoint. The `sub` is the same as in an ID Token (section 5.3.2).
    func identityFromUserInfo(_ tokens: TokenSet) async throws -> Identity? {
        let metadata = try await metadata()
        guard tokens.verifiedIDToken == nil, metadata.userInfoEndpoint != nil else { return nil }
        let claims = try await requestUserInfo(tokens, withoutIDToken: true)
        guard let subject = claims["sub"]?.string, !subject.isEmpty else {
            throw AuthError(
                .invalidUserInfo,
                "The userinfo response has no \"sub\" (OpenID Connect Core section 5.3.2), so the user cannot be identified."
            )
        }
        return Identity(issuer: metadata.issuer, subject: subject, claims: claims)
    }

    /// - Parameter withoutIDToken: Whether the response is accepted without an ID Token for comparison.
    func requestUserInfo(_ tokens: TokenSet, withoutIDToken: Bool) async throws -> JSON {
        guard withoutIDToken || tokens.verifiedIDToken != nil else {
            throw AuthError(
                .unsupported,
                "The userinfo response cannot be checked without an ID Token. Request the \"openid\" scope."
            )
        }
        return try await claims(of: try await userInfoResponse(tokens), comparedWith: tokens)
    }

    /// The userinfo endpoint's response, whose claims have not been checked yet.
    /// - Throws: The same errors as ``resource(_:with:)``, also for an error with status 200, and `insufficient_scope`.
    func userInfoResponse(_ tokens: TokenSet) async throws -> TransportResponse {
        let endpoint = try await metadata().required(\.userInfoEndpoint, "userinfo endpoint")
        let fields: HTTPFields = [.accept: "application/json, application/jwt"]
        let response = try await resource(TransportRequest(.get, endpoint, headerFields: fields), with: tokens)
        // Some providers send every error with status 200. Such a response says nothing about the user.
        guard let claims = try? response.json(from: "\(endpoint)"), claims["sub"] == nil,
            let error = response.providerError(in: claims)
        else { return response }
        // RFC 6750 section 3.1, and Slack's name for it: another token with the same scopes would also be rejected.
        let lacksScope = ["insufficient_scope", "missing_scope"].contains(error.error)
        guard error.isServerError else {
            throw AuthError(
                lacksScope ? .insufficientScope : .accessTokenRejected,
                lacksScope
                    ? "\(endpoint) requires a scope that the access token does not have."
                    : "\(endpoint) does not accept the access token. The token may be for another API; otherwise, sign in again.",
                providerError: error,
                status: response.status
            )
        }
        throw AuthError(
            .temporarilyUnavailable,
            "\(endpoint.host) is temporarily unable to process the userinfo request. Try again later.",
            providerError: error,
            status: response.status,
            retryAfter: response.retryAfter(now: host.now())
        )
    }

    /// The claims of a userinfo response, which must be about the ID Token's user if there is an ID Token.
    func claims(of response: TransportResponse, comparedWith tokens: TokenSet) async throws -> JSON {
        let metadata = try await metadata()
        // OIDC Core section 5.3.2: a signed response has the content type application/jwt.
        let claims =
            response.mediaType == "application/jwt"
            ? try await protectedClaims(response, metadata)
            : try plainClaims(response, metadata.required(\.userInfoEndpoint, "userinfo endpoint"))
        // OIDC Core section 5.3.2: "The sub Claim in the UserInfo Response MUST be verified to exactly match the sub
        // Claim in the ID Token; if they do not match, the UserInfo Response values MUST NOT be used."
        if let idToken = tokens.verifiedIDToken {
            guard let subject = claims["sub"]?.string else {
                throw AuthError(
                    .invalidUserInfo,
                    "The userinfo response has no \"sub\" (OpenID Connect Core section 5.3.2), so it was not used."
                )
            }
            guard subject.isIdentical(to: idToken.subject) else {
                throw AuthError(
                    .invalidUserInfo,
                    "The userinfo response is for a user other than the ID Token's (sub differs), so it was not used.",
                    underlyingError: UserInfoSubjectMismatch()
                )
            }
        }
        return claims
    }

    private func plainClaims(_ response: TransportResponse, _ endpoint: Endpoint) throws(AuthError) -> JSON {
        guard !registration.encryptedResponses.contains(.userInfo) else {
            throw AuthError(.invalidUserInfo, "The userinfo response must be encrypted, but is not.")
        }
        return try response.json(from: "\(endpoint)")
    }

    /// The claims of a response that is encrypted, signed, or both.
    private func protectedClaims(_ response: TransportResponse, _ metadata: ProviderMetadata) async throws -> JSON {
        let profile = JWTProfile(
            "The signed userinfo response",
            type: .optional(["jwt"]),
            specification: "OpenID Connect Core section 5.3.2",
            code: .invalidUserInfo,
            acceptsRegisteredAlgorithms: true
        )
        guard let token = String(validating: response.body, as: UTF8.self) else {
            throw profile.rejection("it is not valid UTF-8")
        }
        let content = try decrypted(Secret(token.trimmingWhitespace()), .userInfo, as: profile)
        // OIDC Core section 5.3.2: a response that is encrypted need not be signed.
        if JWE.isUnsigned(content) {
            guard let claims = try? JSON(parsing: Array(content.exposed.utf8)) else {
                throw profile.rejection("it is not JSON")
            }
            return claims
        }
        return try await verify(
            content,
            as: profile,
            algorithms: registration.idTokenSigningAlgorithms
                ?? metadata.advertisedAlgorithms("userinfo_signing_alg_values_supported"),
            metadata: metadata,
            usesSecret: true
        ) { rules in
            // OIDC Core section 5.3.2: "If signed, the UserInfo Response SHOULD contain the Claims iss (issuer) and aud
            // (audience) as members. The iss value SHOULD be the OP's Issuer Identifier URL. The aud value SHOULD be or include
            // the RP's Client ID value." If present, they must match; the signature is always checked, and sub if there is an ID Token.
            if rules["iss"] != nil { _ = try rules.requireIssuer(metadata.issuer) }
            if rules["aud"] != nil { _ = try rules.requireAudience(registration.clientID) }
            if rules["exp"] != nil { _ = try rules.requireUnexpired() }
            try rules.requireNotBefore()
            return rules.json
        }
    }
}

/// The cause of an error: the userinfo endpoint has returned another user's claims.
struct UserInfoSubjectMismatch: Error {}
