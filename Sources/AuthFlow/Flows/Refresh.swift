import AuthFlowJSON
import HTTPTypes

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// What came of a refresh.
enum RefreshOutcome: Sendable {
    /// New tokens, every check passed.
    case refreshed(Credential)
    /// The provider has replaced the refresh token, and what came with the new one was refused: the credential to keep, with
    /// the new refresh token and no other new thing, and why nothing may be handed out.
    case refused(Credential, AuthError)
    /// The provider has replaced the refresh token, and what came with the new one could not be checked, because its keys could
    /// not be had: the credential to keep, whose access token is still the old one, and why.
    case unchecked(Credential, AuthError)
}

extension Engine {
    /// The provider's metadata, when the endpoints in it are those that a credential came from: a token never goes to others,
    /// whatever became of the configuration.
    /// - Parameter path: An endpoint that is needed.
    /// - Throws: ``AuthError`` with `login_required` when they are not.
    @discardableResult
    func requireBinding(
        of credential: Credential,
        with path: KeyPath<ProviderMetadata, Endpoint?>? = nil
    ) async throws -> ProviderMetadata {
        var metadata = try await metadata()
        if let path { metadata = try await self.metadata(with: path) }
        let obstacle =
            credential.binding.map { $0.obstacle(to: ProviderBinding(metadata)) }
            ?? "it is not known which endpoints the credential belongs to"
        if let obstacle {
            throw AuthError(.loginRequired, "No token was sent: \(obstacle). Sign in again.")
        }
        return metadata
    }

    /// Exchanges a refresh token for new tokens (RFC 6749 section 6), which are checked as strictly as the first ones. A refresh
    /// token or an ID Token that did not come anew is kept.
    /// - Throws: ``AuthError`` with `login_required` when there is no refresh token or it is not the provider's.
    func refreshed(_ credential: Credential) async throws -> RefreshOutcome {
        guard let refreshToken = credential.tokens.refreshToken else {
            throw AuthError(
                .loginRequired,
                "The provider gave no refresh token to \(credential.identity.displayName). Sign in again."
            )
        }
        let metadata = try await requireBinding(of: credential)
        let request = ProviderRequest(
            purpose: .refresh,
            endpoint: try metadata.required(\.tokenEndpoint, "token endpoint"),
            parameters: settings.parameters[.refresh] ?? [:],
            headerFields: [:],
            protectedParameters: ["grant_type": "refresh_token", "refresh_token": refreshToken.exposed]
        )
        // RFC 9449 section 5: a refresh token of a public client is bound to the key, and the new tokens stay with it.
        let key = credential.tokens.dpopKey
        let response = try await send(request, scopes: credential.tokens.scopes, key: key)
        do {
            return .refreshed(try await checked(try received(response, key: key), replacing: credential, metadata))
        } catch let error as AuthError {
            guard let replacement = replacement(in: response), replacement != refreshToken else { throw error }
            var kept = credential
            kept.tokens.refreshToken = replacement
            if error.isPassing { return .unchecked(kept, error) }
            // The old access token is not to be handed out either, once the provider has said something that cannot be true.
            kept.tokens.expiresAt = min(kept.tokens.expiresAt ?? .distantFuture, host.wholeSecond)
            return .refused(kept, error)
        }
    }

    /// Checks refreshed tokens, and puts them in the place of the old ones.
    private func checked(
        _ received: ReceivedTokens,
        replacing credential: Credential,
        _ metadata: ProviderMetadata
    ) async throws -> Credential {
        var tokens = try usable(received)
        // RFC 6749 section 6: "The authorization server MAY issue a new refresh token, in which case the client MUST
        // discard the old refresh token". Otherwise the old one goes on.
        tokens.refreshToken = tokens.refreshToken ?? credential.tokens.refreshToken
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
        var refreshed = credential
        refreshed.tokens = tokens
        refreshed.obtainedAt = host.wholeSecond
        refreshed.refusedRefreshes = 0
        try refreshed.requireStorableSize()
        return refreshed
    }

    /// The refresh token in a response of the token endpoint that is refused for another reason: the provider has replaced the old
    /// one by it, so without it the session would be lost.
    private func replacement(in response: ProviderResponse) -> Secret? {
        guard response.status == 200, let parameters = try? provider.parameters(of: response),
            let token = parameters["refresh_token"]?.string, !token.isEmpty,
            token.utf8.count <= TokenSet.maximumTokenSize, token.utf8.allSatisfy({ (0x20...0x7E).contains($0) })
        else { return nil }
        return Secret(token)
    }
}
