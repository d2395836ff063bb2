public import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowJOSE
package import AuthFlowJSON

/// The result of a sign-in, which a store keeps: the tokens and the user they belong to.
public struct Credential: Sendable, Hashable {
    /// The tokens.
    public var tokens: TokenSet

    /// The user who signed in; nil when the provider does not say: plain OAuth 2.0 has no ID Token.
    public var identity: Identity?

    /// When the user signed in, by this machine's clock.
    public var signedInAt: Date

    /// When the tokens came, by this machine's clock: at the sign-in, or at the last refresh.
    public var obtainedAt: Date

    /// The user's authentication at the sign-in, which no refresh changes; nil without an ID Token.
    public private(set) var authentication: UserAuthentication?

    /// The resources that the grant is for (RFC 8707); empty for none in particular.
    public package(set) var resources: [String] = []

    /// Where it came from, and so where its tokens may go; nil for one that was made by hand, whose tokens go nowhere.
    var binding: ProviderBinding?

    /// The access tokens for single resources of the grant.
    package var resourceTokens: [ResourceToken] = []

    /// The data that the application keeps in the session; nil for none. A refresh leaves it as it is.
    package var applicationData: Secret?

    /// How often the provider has refused to refresh the tokens since the last time it did, without saying why.
    package var refusedRefreshes: Int64 = 0

    /// Creates a credential.
    /// - Parameters:
    ///   - tokens: The tokens.
    ///   - identity: The user who signed in; nil when unknown.
    ///   - signedInAt: When.
    ///   - obtainedAt: When the tokens came; default: at the sign-in.
    public init(tokens: TokenSet, identity: Identity?, signedInAt: Date, obtainedAt: Date? = nil) {
        self.tokens = tokens
        self.identity = identity
        self.signedInAt = signedInAt
        self.obtainedAt = obtainedAt ?? signedInAt
        self.authentication = tokens.verifiedIDToken.map { UserAuthentication($0.claims) }
    }

    /// A name to show for the user, also when the user is unknown. Not an identifier.
    public var displayName: String { identity?.displayName ?? "an unknown user" }

    /// The issuer whose tokens these are; nil for a credential that was made by hand and has no user.
    public var issuer: String? { identity?.issuer ?? binding?.issuer }

    /// The account. A user who is unknown has one account at the issuer.
    package var account: AccountID { identity?.account ?? AccountID(issuer: binding?.issuer ?? "", subject: nil) }

    /// Whether the access token has expired; false when its expiry is not known.
    package func isExpired(at now: Date) -> Bool { tokens.expiresAt.map { now >= $0 } ?? false }

    /// Until when the access token is worth using: its end less a margin, which is no more than a quarter of its life, so
    /// that tokens that live shortly are used at all. Without a known end it is used until an API refuses it.
    package func freshUntil(margin: Duration) -> Date {
        guard let end = tokens.expiresAt else { return .distantFuture }
        let life = max(0, end.timeIntervalSince(obtainedAt))
        return end - min(margin.seconds, life / 4)
    }

    /// Before when this machine's clock cannot be: a clock that was set back would make tokens last longer than they do.
    package var notBefore: Date { obtainedAt - 300 }
}

// MARK: - Stored form

extension Credential {
    /// The credential as one entry of ``StoredAccounts``. It holds secrets.
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
        if refusedRefreshes > 0 { json["refused_refreshes"] = .integer(refusedRefreshes) }
        return .object(json)
    }

    /// Reads what ``json`` wrote.
    /// - Returns: nil when something is missing.
    package init?(_ json: JSON) {
        guard let accessToken = json["access_token"]?.string, let tokenType = json["token_type"]?.string,
            let signedInAt = json["signed_in_at"]?.number, let scopes = json["scopes"]?.strings
        else { return nil }
        let identity = json["identity"].flatMap(Identity.init)
        guard json["identity"] == nil || identity != nil else { return nil }
        var tokens = TokenSet(
            accessToken: Secret(accessToken),
            tokenType: tokenType,
            expiresAt: json["expires_at"]?.number.map(Date.init(timeIntervalSince1970:)),
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
            signedInAt: Date(timeIntervalSince1970: signedInAt),
            obtainedAt: json["obtained_at"]?.number.map(Date.init(timeIntervalSince1970:))
        )
        if let claims = json["authentication"] { self.authentication = UserAuthentication(claims) }
        self.binding = json["binding"].flatMap(ProviderBinding.init(stored:))
        self.resources = json["resources"]?.strings ?? []
        self.resourceTokens = (json["resource_tokens"]?.array ?? []).compactMap(ResourceToken.init)
        self.applicationData = json["application_data"]?.string.map(Secret.init)
        self.refusedRefreshes = json["refused_refreshes"]?.integer ?? 0
    }
}

extension Credential {
    /// The most that is kept of one sign-in, in bytes of its stored form.
    package static let maximumSize = 192 * 1024

    /// Whether it can be kept.
    package var hasStorableSize: Bool {
        let json = json
        // Nearly all are far too small for it to matter how they are written.
        if json.maximumSerializedSize <= Self.maximumSize { return true }
        return (try? json.serialized()).map { $0.count <= Self.maximumSize } ?? false
    }

    /// Passes when the credential can be kept. It is asked before it is: what is written and too large to be read would lock
    /// out every account of the client.
    /// - Throws: ``AuthError`` with `invalid_reply`.
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
