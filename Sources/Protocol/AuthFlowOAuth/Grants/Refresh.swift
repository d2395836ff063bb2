import AuthFlowEssentials
public import AuthFlowHTTP
import AuthFlowIssuer

/// The outcome of a refresh that received a response. In every case, store ``credential``: the provider may have rotated the
/// refresh token, in which case the old refresh token is no longer valid.
public enum RefreshOutcome: Sendable {
    /// New tokens that have passed every check.
    case refreshed(Credential)
    /// The response was rejected, and no tokens may be returned: the credential to store, with only the rotated refresh token and device secret
    /// from the response, and the reason.
    case rejected(Credential, AuthError)
    /// The response could not be validated, because the key set could not be read or the provider was unavailable: the credential to
    /// store, which still has the old access token, and the reason.
    case unchecked(Credential, AuthError)

    /// The credential to store.
    public var credential: Credential {
        switch self {
        case .refreshed(let credential), .rejected(let credential, _), .unchecked(let credential, _): credential
        }
    }

    /// The refreshed credential.
    /// - Throws: ``AuthError``: the reason why the response was not used.
    public func get() throws(AuthError) -> Credential {
        switch self {
        case .refreshed(let credential): return credential
        case .rejected(_, let error), .unchecked(_, let error): throw error
        }
    }
}

extension OAuthClient {
    /// The server's metadata, if its endpoints match those that issued the credential: a token is never sent to other endpoints,
    /// even if the configuration has changed.
    /// - Parameter path: An endpoint that the caller needs; if the metadata lacks it, the metadata is supplemented.
    /// - Throws: ``AuthError`` with `login_required` when the endpoints differ.
    @discardableResult
    package func requireBinding(
        of credential: Credential,
        with path: EndpointPath? = nil
    ) async throws -> ProviderMetadata {
        var metadata = try await metadata()
        if let path { metadata = try await self.metadata(with: path) }
        let mismatch =
            credential.binding.map { $0.mismatch(with: ProviderBinding(metadata)) }
            ?? "the credential does not record its endpoints"
        if let mismatch {
            throw AuthError(.loginRequired, "No token was sent: \(mismatch). Sign in again.")
        }
        return metadata
    }

    /// The error if this client requires DPoP-bound tokens, but the stored tokens, from an earlier configuration, are not bound
    /// to a key; otherwise nil.
    ///
    /// FAPI 2.0 Security Profile section 5.3.3.1: clients "shall support sender-constrained access tokens".
    package func senderConstraintError(of credential: Credential) -> AuthError? {
        guard registration.usesDPoP, credential.tokens.dpopKey == nil else { return nil }
        return AuthError(
            .loginRequired,
            "The stored tokens are not bound to a key, which this client now requires (RFC 9449). Sign in again."
        )
    }

    /// Exchanges a refresh token for new tokens (RFC 6749 section 6), which are checked as strictly as the original tokens. However, if
    /// the user cannot be determined, for example because the userinfo endpoint is unavailable, the user is
    /// assumed to be the same. If the response has no new refresh token or ID
    /// Token, the old one remains in the credential.
    ///
    /// Nothing is stored: the caller must store the credential of the outcome, as ``CredentialManager`` does.
    /// - Parameters:
    ///   - credential: The credential from a sign-in.
    ///   - scopes: A subset of the granted scopes; default: all granted scopes.
    ///   - resources: The target resources of the access token (RFC 8707 section 2.2); default: the grant's.
    ///   - check: Runs immediately before the refresh token is sent. If it throws, the token is not sent. It is
    ///     intended for a caller that holds a lease, which may expire while the request waits for a connection.
    ///   - store: Stores a credential with the old access token and the new refresh token. Called before another request identifies the user of
    ///     the new tokens, so that a process that is killed during that request does not lose the refresh token.
    /// - Throws: ``AuthError`` with `login_required` when there is no refresh token, the credential is bound to other
    ///   endpoints, or the refresh token is not bound to a required key; `provider_rejected` with `invalid_grant` when the session has ended;
    ///   `invalid_configuration` when a resource is not an absolute URI.
    public func refresh(
        _ credential: Credential,
        scopes: [String]? = nil,
        resources: [String] = [],
        checkBeforeSending check: (@Sendable () throws(AuthError) -> Void)? = nil,
        storingRotatedToken store: (@Sendable (Credential) async -> Void)? = nil
    ) async throws -> RefreshOutcome {
        guard let refreshToken = credential.tokens.refreshToken else {
            throw AuthError(
                .loginRequired,
                "The provider did not issue a refresh token for \(credential.displayName). Sign in again."
            )
        }
        try ResourceIdentifier.check(resources)
        return try await withPinnedMetadata().sendRefresh(refreshToken, of: credential, scopes, resources, check, store)
    }

    private func sendRefresh(
        _ refreshToken: Secret,
        of credential: Credential,
        _ scopes: [String]?,
        _ resources: [String],
        _ check: (@Sendable () throws(AuthError) -> Void)?,
        _ store: (@Sendable (Credential) async -> Void)?
    ) async throws -> RefreshOutcome {
        let metadata = try await requireBinding(of: credential)
        if let error = senderConstraintError(of: credential) { throw error }
        var request = try tokenRequest(
            .refresh,
            ["grant_type": "refresh_token", "refresh_token": refreshToken.exposed],
            at: metadata
        )
        if let scopes { request.parameters["scope"] = scopes.joined(separator: " ") }
        request.addResources(resources)
        // RFC 9449 section 5: a refresh token of a public client is bound to the key, and so are the new tokens.
        let key = credential.tokens.dpopKey
        let response = try await sendFormRequest(
            request,
            scopes: credential.tokens.scopes,
            key: key,
            checkBeforeSending: check
        )
        do {
            let tokens = try parseTokenResponse(response, key: key)
            let isWhole = scopes == nil && (resources.isEmpty || Set(resources) == Set(credential.resources))
            return .refreshed(
                try await checkRefreshedTokens(tokens, replacing: credential, metadata, namesUser: isWhole, store)
            )
        } catch {
            // The new refresh token belongs to a different user, and must not be stored for this user.
            if (error as? AuthError)?.isSubjectMismatch == true { throw error }
            // The new refresh token has replaced the old one, so the session would be lost without it.
            let replacement = token("refresh_token", in: response)
            guard let replacement, replacement != refreshToken else { throw error }
            // The task was cancelled, or a custom transport threw an error, while keys were being fetched.
            let error =
                error as? AuthError
                ?? AuthError(.networkFailed, "The refreshed tokens could not be checked.", underlyingError: error)
            var updated = credential
            updated.hasUncheckedUser = true
            updated.tokens.refreshToken = replacement
            let secret = (try? adapter.responseParameters(response))?.token("device_secret")
            if let secret, TokenSet.problem(of: secret) == nil { updated.tokens.deviceSecret = secret }
            if error.isTransient { return .unchecked(updated, error) }
            // The old access token must not be returned either, after the provider has sent an invalid response.
            updated.tokens.expiresAt = min(updated.tokens.expiresAt ?? .distantFuture, host.wholeSecond)
            return .rejected(updated, error)
        }
    }

    /// Checks, through the adapter, that tokens without an ID Token belong to a credential's user.
    /// - Throws: ``AuthError`` with `invalid_user_info` when they belong to another user, or the user is not identified; any error thrown by the
    ///   adapter or the userinfo request.
    package func requireUser(of credential: Credential, _ tokens: TokenSet) async throws {
        guard Self.mustIdentifyUser(of: credential, tokens), let known = credential.identity else { return }
        let provider = adapter as? any UserInfoProviding
        let named = try await provider?.identity(for: tokens, in: providerContext)
        // The device flow may have identified the user through userinfo.
        guard let identity = if let named { named } else { try await identityFromUserInfo(tokens) } else {
            throw AuthError(
                .invalidUserInfo,
                "The provider does not identify the user of the tokens, so they were not used.",
                underlyingError: UnidentifiedUser()
            )
        }
        // OIDC Core section 5.3.2 requires this comparison for userinfo and the ID Token: "if they do not match, the UserInfo Response values MUST NOT
        // be used".
        // With an earlier configuration, the adapter may have read the subject from another claim, although the response had a `sub`.
        let wasReadElsewhere =
            named == nil && known.issuer == identity.issuer
            && known.claims["sub"]?.string.isIdentical(to: identity.subject) == true
        guard identity.account == known.account || wasReadElsewhere else {
            throw AuthError(
                .invalidUserInfo,
                "The tokens belong to another user, so they were not used.",
                underlyingError: SubjectMismatch()
            )
        }
    }

    /// Whether only another request can identify the user of the tokens.
    private static func mustIdentifyUser(of credential: Credential, _ tokens: TokenSet) -> Bool {
        tokens.verifiedIDToken == nil && credential.identity != nil
    }

    /// Rejects refreshed tokens of another user, for example from a response that a proxy has cached. If the user cannot be determined, the tokens
    /// are used, because the refresh token belongs to the user's grant (RFC 6749 section 6), and the provider may have invalidated the old tokens.
    /// A refresh token whose own user is unchecked proves nothing.
    private func rejectAnotherUser(than credential: Credential, _ tokens: TokenSet) async throws {
        do {
            // The caller holds a lease in the meantime, and its own callers are waiting.
            try await withDeadline(.seconds(3), clock: host.clock) {
                AuthError(
                    .timedOut,
                    "The user of the tokens was not identified within 3 seconds.",
                    underlyingError: UserCheckTimeout()
                )
            } _: {
                try await requireUser(of: credential, tokens)
            }
        } catch let error as AuthError
            where error.isKeySetFailure || error.underlyingError is UserCheckTimeout
            || Self.localCodes.contains(error.code)
        {
            throw unverifiableError(error)
        } catch let error as AuthError where error.isSubjectMismatch || !Self.leavesUserUndetermined(error) {
            // The status code is omitted, because the refresh itself was not rejected.
            throw AuthError(
                .invalidUserInfo,
                "The refreshed tokens were rejected. \(error.message)",
                underlyingError: error
            )
        } catch let error as AuthError {
            // The provider did not identify the user of the tokens, so they are used.
            if credential.hasUncheckedUser { throw unverifiableError(error) }
        }
    }

    /// The provider did not respond in time, so the tokens are neither used nor rejected.
    private struct UserCheckTimeout: Error {}

    /// The provider does not identify the user of tokens.
    private struct UnidentifiedUser: Error {}

    /// Whether the user remains unknown after an error: the provider rejected the request, or sent something other than a response about a user. False
    /// if such a response failed a check.
    private static func leavesUserUndetermined(_ error: AuthError) -> Bool {
        error.isTransient || [.accessTokenRejected, .insufficientScope].contains(error.code)
            || (400..<500).contains(error.status ?? 0) || error.underlyingError is UnidentifiedUser
    }

    /// Validates refreshed tokens, and replaces the old tokens with them.
    /// - Parameter namesUser: Whether the tokens can identify the user: tokens with fewer scopes, or for another resource, may be insufficient.
    private func checkRefreshedTokens(
        _ response: TokenResponse,
        replacing credential: Credential,
        _ metadata: ProviderMetadata,
        namesUser: Bool,
        _ store: (@Sendable (Credential) async -> Void)?
    ) async throws -> Credential {
        var tokens: TokenSet
        do throws(AuthError) {
            tokens = try requireUsable(response)
        } catch {
            // The file of the client's certificate could not be read.
            throw Self.localCodes.contains(error.code) ? unverifiableError(error) : error
        }
        // RFC 6749 section 6: "The authorization server MAY issue a new refresh token, in which case the client MUST
        // discard the old refresh token". Otherwise the old refresh token remains valid.
        tokens.refreshToken = tokens.refreshToken ?? credential.tokens.refreshToken
        tokens.deviceSecret = tokens.deviceSecret ?? credential.tokens.deviceSecret
        // A refresh response without `authorization_details` is treated as granting the previous ones. RFC 9396 section 6.1: the resource
        // owner's previous authorization is unchanged by a refresh.
        if tokens.authorizationDetails == nil, namesUser, let details = credential.tokens.authorizationDetails {
            var parameters = tokens.parameters.exposed.object ?? [:]
            parameters[AuthorizationDetails.name] = details
            tokens.parameters = RedactedJSON(.object(parameters))
        }

        if let original = credential.tokens.verifiedIDToken, let idToken = tokens.idToken {
            var expectation = expectation(
                of: metadata,
                context: .refresh(of: original, nonce: credential.authentication?.nonce),
                response
            )
            expectation.originalAudience = credential.authentication?.audience
            do {
                let verified = try await verifyIDToken(idToken, expectation, metadata: metadata)
                (tokens.idToken, tokens.verifiedIDToken) = verified
            } catch let error as AuthError where error.isKeySetFailure || Self.localCodes.contains(error.code) {
                throw unverifiableError(error)
            }
        } else {
            // OIDC Core section 12.2: the response "might not contain an id_token". The previous ID Token remains the `id_token_hint`.
            tokens.idToken = credential.tokens.idToken
            tokens.verifiedIDToken = credential.tokens.verifiedIDToken
        }
        if namesUser {
            if let store, Self.mustIdentifyUser(of: credential, tokens),
                tokens.refreshToken != credential.tokens.refreshToken
            {
                var rotated = credential
                rotated.hasUncheckedUser = true
                (rotated.tokens.refreshToken, rotated.tokens.deviceSecret) = (tokens.refreshToken, tokens.deviceSecret)
                await store(rotated)
            }
            try await rejectAnotherUser(than: credential, tokens)
            // If the client requires an exact match, the previous details are the requested ones. Tokens that cannot identify the user are not
            // compared, because with fewer scopes, or for another resource, they may have only some of the details.
            _ = try AuthorizationDetails.compare(credential.tokens.authorizationDetails, tokens, registration)
        }
        var refreshed = credential
        refreshed.tokens = tokens
        refreshed.obtainedAt = host.wholeSecond
        refreshed.rejectedRefreshes = 0
        if namesUser { refreshed.hasUncheckedUser = false }
        while !refreshed.hasStorableSize, !refreshed.resourceTokens.isEmpty { refreshed.resourceTokens.removeFirst() }
        try refreshed.requireStorableSize()
        // Tokens with fewer scopes, or for another resource, do not replace the credential's tokens.
        if namesUser { try await checkByAdapter(refreshed, replacing: credential) }
        return refreshed
    }

    /// The codes of local errors, which do not indicate that the tokens are invalid.
    static let localCodes: Set<AuthError.Code> = [
        .storageFailed, .storeDamaged, .leaseBusy, .leaseLost, .outcomeUnknown, .keyUnavailable, .invalidConfiguration,
    ]

    /// Performs the adapter's checks, whose errors may have any code.
    private func checkByAdapter(_ refreshed: Credential, replacing credential: Credential) async throws {
        do {
            try await withDeadline(.seconds(10), clock: host.clock) {
                AuthError(.timedOut, "The refreshed tokens were not checked within 10 seconds.")
            } _: { [self] in
                try await adapter.check(refreshed, replacing: credential, in: providerContext)
            }
        } catch let error as AuthError where error.isTransient || error.code == .insufficientUserAuthentication {
            throw error
        } catch {
            if error is CancellationError { throw error }
            if let error = error as? AuthError, Self.localCodes.contains(error.code) { throw unverifiableError(error) }
            throw AuthError(
                .invalidIDToken,
                (error as? AuthError)?.message ?? "The provider's adapter rejected the refreshed tokens.",
                underlyingError: error
            )
        }
    }

    /// The error when the tokens could not be checked, for example because the key set, a key file or the certificate could not be read:
    /// the refresh itself was not rejected, and a new sign-in would have the same result.
    private func unverifiableError(_ error: AuthError) -> AuthError {
        AuthError(
            .temporarilyUnavailable,
            "The refreshed tokens cannot be checked now. \(error.message)",
            // After a local error, a successful status, because the provider itself is available.
            status: Self.localCodes.contains(error.code) ? 200 : error.status,
            underlyingError: error
        )
    }
}
