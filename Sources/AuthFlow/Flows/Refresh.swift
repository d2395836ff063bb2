import HTTPTypes

extension Engine {
    /// The provider's metadata, when it is the provider that a credential came from: a token never goes to another one,
    /// whatever became of the configuration.
    /// - Throws: ``AuthError`` with `login_required` when it is not.
    @discardableResult
    func requireIssuer(of credential: Credential) async throws -> ProviderMetadata {
        let metadata = try await metadata()
        guard metadata.issuer == credential.identity.issuer else {
            throw AuthError(
                .loginRequired,
                "The person is signed in at \(credential.identity.issuer), and the configuration now says \(metadata.issuer). Sign in again."
            )
        }
        return metadata
    }

    /// Exchanges a refresh token for new tokens (RFC 6749 section 6), which are checked as strictly as the first ones.
    /// - Returns: The credential with the new tokens. A refresh token or an ID Token that did not come anew is kept.
    /// - Throws: ``AuthError`` with `login_required` when there is no refresh token or it is not the provider's.
    func refreshed(_ credential: Credential) async throws -> Credential {
        guard let refreshToken = credential.tokens.refreshToken else {
            throw AuthError(
                .loginRequired,
                "The provider gave no refresh token to \(credential.identity.displayName). Sign in again."
            )
        }
        let metadata = try await requireIssuer(of: credential)
        let request = ProviderRequest(
            purpose: .refresh,
            endpoint: try metadata.required(\.tokenEndpoint, "token endpoint"),
            parameters: settings.parameters[.refresh] ?? [:],
            headerFields: [:],
            protectedParameters: ["grant_type": "refresh_token", "refresh_token": refreshToken.exposed]
        )
        // RFC 9449 section 5: a refresh token of a public client is bound to the key, and the new tokens stay with it.
        let key = credential.tokens.dpopKey
        let received = try received(try await send(request, scopes: credential.tokens.scopes, key: key), key: key)
        var tokens = try usable(received)
        // RFC 6749 section 6: "The authorization server MAY issue a new refresh token, in which case the client MUST
        // discard the old refresh token". Otherwise the old one goes on.
        tokens.refreshToken = tokens.refreshToken ?? refreshToken
        tokens.deviceSecret = tokens.deviceSecret ?? credential.tokens.deviceSecret

        if let original = credential.tokens.verifiedIDToken, let idToken = tokens.idToken {
            var expectation = expectation(of: metadata, occasion: .refresh(of: original))
            expectation.accessToken = tokens.accessToken
            expectation.clockOffset = received.clockOffset
            tokens.verifiedIDToken = try await verify(idToken, expectation, metadata: metadata)
        } else {
            // OIDC Core section 12.2: the response "might not contain an id_token". The one of the sign-in stays a hint.
            tokens.idToken = credential.tokens.idToken
            tokens.verifiedIDToken = credential.tokens.verifiedIDToken
        }
        var credential = credential
        credential.tokens = tokens
        credential.obtainedAt = host.wholeSecond
        return credential
    }
}
