public import AuthFlowEssentials
import AuthFlowIssuer
package import AuthFlowJSON

/// The result of a sign-in, as it is stored: the tokens and the user to whom they belong.
public struct Credential: Sendable, Hashable {
    /// The tokens.
    public var tokens: TokenSet

    /// The user who signed in; nil when the provider does not identify the user, as with plain OAuth 2.0, which has no ID Token.
    public var identity: Identity?

    /// The time of the sign-in, according to this machine's clock.
    public var signedInAt: Date

    /// The time the tokens were received, according to this machine's clock: at the sign-in, or at the last refresh.
    public var obtainedAt: Date

    /// The user's authentication at the sign-in, which a refresh does not change; nil without an ID Token.
    public private(set) var authentication: UserAuthentication?

    /// The target resources of the grant (RFC 8707); empty for a grant without a particular resource.
    public package(set) var resources: [String] = []

    /// The origin of the credential, which determines where its tokens may be sent; nil for a credential that was created from values,
    /// whose tokens are not sent anywhere.
    var binding: ProviderBinding?

    /// Whether the user belongs to one of several tenants of the server, each of which has its own issuer.
    package var isFromTenant: Bool { binding.map { !$0.issuer.isIdentical(to: account.issuer) } ?? false }

    /// The access tokens for individual resources of the grant.
    package var resourceTokens: [ResourceToken] = []

    /// The application's data in the session; nil for none. A refresh does not change it.
    package var applicationData: Secret?

    /// The number of refreshes, since the last successful one, that the provider has rejected without giving a reason.
    package var rejectedRefreshes: Int64 = 0

    /// Whether the refresh token comes from a response whose user has not been determined. The next refresh must determine it.
    package var hasUncheckedUser = false

    /// Creates a credential.
    /// - Parameters:
    ///   - tokens: The tokens.
    ///   - identity: The user who signed in; nil when unknown.
    ///   - signedInAt: The time of the sign-in.
    ///   - obtainedAt: The time when the tokens were received; default: the time of the sign-in.
    public init(tokens: TokenSet, identity: Identity?, signedInAt: Date, obtainedAt: Date? = nil) {
        self.tokens = tokens
        self.identity = identity
        self.signedInAt = signedInAt
        self.obtainedAt = obtainedAt ?? signedInAt
        self.authentication = tokens.verifiedIDToken.map { UserAuthentication($0.claims) }
    }

    /// A display name for the user; `an unknown user` if the user's identity is unknown. Not an identifier.
    public var displayName: String { identity?.displayName ?? "an unknown user" }

    /// The issuer of the tokens; nil for a credential that was created from values and has no user.
    public var issuer: String? { identity?.issuer ?? binding?.issuer }

    /// The account. All unknown users share one account at the issuer.
    package var account: AccountID { identity?.account ?? AccountID(issuer: binding?.issuer ?? "", subject: nil) }

    /// Whether the access token has expired; false when its expiry is not known.
    package func isExpired(at now: Date) -> Bool { tokens.expiresAt.map { now >= $0 } ?? false }

    /// The time until which the access token is fresh: its expiry minus a margin of at most a quarter of its lifetime, so
    /// that even short-lived tokens can be used. A token without a known expiry is used until an API rejects it.
    package func freshUntil(margin: Duration) -> Date {
        guard let end = tokens.expiresAt else { return .distantFuture }
        let life = max(0, end.timeIntervalSince(obtainedAt))
        return end - min(margin.seconds, life / 4)
    }

    /// The earliest plausible current time. With a clock that is set back further, expired tokens could seem fresh.
    package var notBefore: Date { obtainedAt - 300 }

    /// Whether the access token is fresh enough to be used without a refresh.
    package func isFresh(at now: Date, margin: Duration) -> Bool {
        now < freshUntil(margin: margin) && now >= notBefore
    }
}

// MARK: - Stored form

extension Credential {
    /// The credential as one entry of ``StoredAccounts``. It contains secrets.
    package var json: JSON {
        var json: [String: JSON] = [
            "signed_in_at": .double(signedInAt.timeIntervalSince1970),
            "obtained_at": .double(obtainedAt.timeIntervalSince1970),
            "access_token": .string(tokens.accessToken.exposed),
            "token_type": .string(tokens.tokenType),
            "scopes": .array(tokens.scopes.map(JSON.string)),
            "parameters": tokens.parameters.exposed,
        ]
        json["identity"] = identity?.json
        json["expires_at"] = tokens.expiresAt.map { .double($0.timeIntervalSince1970) }
        json["refresh_token"] = tokens.refreshToken.map { .string($0.exposed) }
        json["id_token"] = tokens.idToken.map { .string($0.exposed) }
        json["dpop_key"] = tokens.dpopKey.map { .string($0.stored.exposed) }
        json["device_secret"] = tokens.deviceSecret.map { .string($0.exposed) }
        json["verified_id_token"] = tokens.verifiedIDToken?.stored
        json["authentication"] = authentication?.claims
        json["binding"] = binding?.json
        if !resources.isEmpty { json["resources"] = .array(resources.map(JSON.string)) }
        if !resourceTokens.isEmpty { json["resource_tokens"] = .array(resourceTokens.map(\.json)) }
        json["application_data"] = applicationData.map { .string($0.exposed) }
        if rejectedRefreshes > 0 { json["refused_refreshes"] = .integer(rejectedRefreshes) }
        if hasUncheckedUser { json["unchecked_user"] = true }
        return .object(json)
    }

    /// Decodes the stored form that ``json`` returned.
    /// - Returns: The credential; nil when a required member is missing, or the identity or the DPoP key is invalid.
    package init?(_ json: JSON) {
        guard let accessToken = json["access_token"]?.string, let tokenType = json["token_type"]?.string,
            let signedInAt = json["signed_in_at"]?.number, let scopes = json["scopes"]?.strings
        else { return nil }
        let identity = json["identity"].flatMap(Identity.init)
        guard json["identity"] == nil || identity != nil else { return nil }
        var tokens = TokenSet(
            accessToken: Secret(accessToken),
            tokenType: tokenType,
            expiresAt: json["expires_at"]?.number.map(Date.init(secondsSince1970:)),
            refreshToken: json["refresh_token"]?.string.map(Secret.init),
            idToken: json["id_token"]?.string.map(Secret.init),
            scopes: scopes,
            parameters: RedactedJSON(json["parameters"] ?? [:])
        )
        tokens.deviceSecret = json["device_secret"]?.string.map(Secret.init)
        if let key = json["dpop_key"]?.string {
            guard let key = DPoPKey(stored: Secret(key)) else { return nil }
            tokens.dpopKey = key
        }
        tokens.verifiedIDToken = json["verified_id_token"].flatMap { IDToken(stored: $0) }
        self.init(
            tokens: tokens,
            identity: identity,
            signedInAt: Date(secondsSince1970: signedInAt),
            obtainedAt: json["obtained_at"]?.number.map(Date.init(secondsSince1970:))
        )
        if let claims = json["authentication"] { self.authentication = UserAuthentication(claims) }
        self.binding = json["binding"].flatMap(ProviderBinding.init(stored:))
        self.resources = json["resources"]?.strings ?? []
        self.resourceTokens = (json["resource_tokens"]?.array ?? []).compactMap(ResourceToken.init)
        self.applicationData = json["application_data"]?.string.map(Secret.init)
        self.hasUncheckedUser = json["unchecked_user"] == true
        self.rejectedRefreshes = min(max(json["refused_refreshes"]?.integer ?? 0, 0), 1000)
    }

    /// The maximum size of one sign-in's stored form, in bytes.
    package static let maximumSize = 192 * 1024

    /// Whether the credential is small enough to be stored.
    package var hasStorableSize: Bool {
        let json = json
        // Nearly all credentials are so small that the exact size of their serialized form does not matter.
        if json.maximumSerializedSize <= Self.maximumSize { return true }
        return (try? json.serialized()).map { $0.count <= Self.maximumSize } ?? false
    }

    /// Checks that the credential is small enough before it is stored, because a record that is too large to be read
    /// would lock out every account of the client.
    /// - Throws: ``AuthError`` with `invalid_response`.
    func requireStorableSize() throws(AuthError) {
        guard hasStorableSize else {
            throw AuthError(
                .invalidResponse,
                "The tokens and user information exceed the maximum size of a credential (\(Self.maximumSize / 1024) KiB)."
            )
        }
    }
}

extension Identity {
    package var json: JSON { ["issuer": .string(issuer), "subject": .string(subject), "claims": claims] }

    package init?(_ json: JSON) {
        guard let issuer = json["issuer"]?.string, let subject = json["subject"]?.string else { return nil }
        self.init(issuer: issuer, subject: subject, claims: json["claims"] ?? [:])
    }
}
