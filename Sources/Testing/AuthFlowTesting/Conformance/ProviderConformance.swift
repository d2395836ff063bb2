public import AuthFlow
import AuthFlowJSON
import HTTPTypes

/// Checks the requirements on every ``/AuthFlow/ProviderAdapter``: it must sign two users in against an emulator of its provider, tell them
/// apart, refresh, revoke, and preserve the protections of the flow. Run it from one of your own tests.
public struct ProviderConformance: Sendable {
    private let adapter: any ProviderAdapter
    private let client: AuthClient
    private let other: AuthClient
    private let givesRefreshTokens: Bool

    /// Creates a suite.
    /// - Parameters:
    ///   - adapter: The adapter under test.
    ///   - client: A client that uses the adapter, whose user agent can sign in, with a loopback redirect URI that includes its port.
    ///   - other: A similar client with a separate store, whose user agent signs in another user.
    ///   - givesRefreshTokens: Whether the provider issues refresh tokens to these clients; default: true.
    public init(
        adapter: any ProviderAdapter,
        client: AuthClient,
        other: AuthClient,
        givesRefreshTokens: Bool = true
    ) {
        self.adapter = adapter
        self.client = client
        self.other = other
        self.givesRefreshTokens = givesRefreshTokens
    }

    /// Runs every check. Both clients are signed out afterwards.
    /// - Throws: ``ConformanceFailure`` for the first rule that is violated, or the error of a failed sign-in.
    public func run() async throws {
        try require((try? Endpoint(adapter.issuer)) != nil, "The issuer is an https URL (RFC 8414 section 2).")
        try passesErrorsOn()
        try await protectsTheRequest()
        let credential = try await client.signIn().credential
        try await namesTheUser(credential)
        let second = try await other.signIn().credential
        try await tellsUsersApart(credential, second)
        try await rejectsAnInventedToken(credential)
        try await refreshes(credential)
        try await revokes()
        if givesRefreshTokens {
            do {
                _ = try await other.refresh()
            } catch {
                try require(false, "The sign-out of one user does not end the session of another: \(error)")
            }
        }
        _ = try await other.signOut()
    }

    // MARK: Users

    private func namesTheUser(_ credential: Credential) async throws {
        let issuer = try await client.metadata().issuer
        try require(issuer.isIdentical(to: adapter.issuer), "The metadata names the adapter's issuer.")
        guard let identity = credential.identity else {
            return try require(
                !client.client.identifiesUsers,
                "A user is known if the adapter identifies users (identifiesUsers)."
            )
        }
        try require(!identity.subject.isEmpty, "An identified user has a subject.")
        try require(identity.issuer.isIdentical(to: issuer), "The issuer of the identity is that of the metadata.")
        try await requireUser(identity, credential.tokens, "The same tokens belong to the same user.")
    }

    /// Checks that tokens belong to a user, and that userinfo describes that user.
    private func requireUser(_ identity: Identity, _ tokens: TokenSet, _ rule: String) async throws {
        if let adapter = adapter as? any UserInfoProviding {
            let again = try await adapter.identity(for: tokens, in: client.providerContext)
            try require(again?.subject.isIdentical(to: identity.subject) == true, rule)
        }
        guard let claims = try await userInfo(client) else { return }
        let subject = identity.claims["sub"] ?? .string(identity.subject)
        try require(claims["sub"] == nil || claims["sub"] == subject, "Userinfo is about the user who signed in.")
        for name in ["id", "email", "preferred_username"] {
            guard let one = identity.claims[name], let other = claims[name] else { continue }
            try require(one == other, "Userinfo is about the user who signed in (\(name)).")
        }
    }

    /// The userinfo response; nil when the provider has no userinfo endpoint.
    private func userInfo(_ client: AuthClient) async throws -> JSON? {
        do {
            return try await client.userInfo()
        } catch let error as AuthError where error.code == .unsupported {
            return nil
        }
    }

    private func tellsUsersApart(_ one: Credential, _ two: Credential) async throws {
        guard let first = one.identity, let second = two.identity else {
            return try require(one.identity == nil && two.identity == nil, "All users are identified, or none is.")
        }
        try require(!first.subject.isIdentical(to: second.subject), "Two users have two subjects.")
        guard let own = try await userInfo(client), let others = try await userInfo(other) else { return }
        try require(own != others, "Userinfo of two users differs.")
    }

    private func rejectsAnInventedToken(_ credential: Credential) async throws {
        let invented = TokenSet(
            accessToken: Secret("invented-by-the-conformance-suite"),
            scopes: credential.tokens.scopes
        )
        if let adapter = adapter as? any UserInfoProviding {
            let identity = try? await adapter.identity(for: invented, in: client.providerContext)
            try require(identity == nil, "An access token that the provider has not issued identifies no user.")
        }
        let claims = try? await client.client.userInfo(invented)
        try require(claims == nil, "Userinfo needs an access token that the provider has issued.")
    }

    // MARK: Tokens

    private func refreshes(_ credential: Credential) async throws {
        guard givesRefreshTokens else { return }
        try require(credential.tokens.refreshToken != nil, "The refresh token that the provider gives is returned.")
        var last = credential
        // Twice: a provider that rotates refresh tokens accepts the first one once.
        for _ in 0..<2 {
            let refreshed: Credential
            do {
                refreshed = try await client.refresh()
            } catch {
                throw ConformanceFailure(description: "A session can be refreshed, and refreshed again: \(error)")
            }
            try require(
                refreshed.tokens.accessToken != last.tokens.accessToken,
                "A refresh returns a new access token."
            )
            try require(refreshed.identity == credential.identity, "A refresh does not change the user.")
            if let identity = credential.identity {
                try await requireUser(identity, refreshed.tokens, "Refreshed tokens belong to the same user.")
            }
            last = refreshed
        }
    }

    private func revokes() async throws {
        let signOut = try await client.signOut()
        guard let credential = signOut.credential else {
            throw ConformanceFailure(description: "A sign-out returns the credential of the signed-in user.")
        }
        switch signOut.revocation {
        case .done: try await requireDead(credential)
        case .nothingToDo: try require(false, "Tokens are revoked at sign-out.")
        case .unsupported(let reason):
            let endpoint = try await client.metadata().revocationEndpoint
            try require(endpoint == nil, "Tokens are revoked if the provider has an endpoint for that: \(reason)")
        case .failed(let error): try require(false, "Tokens are revoked, or revocation is unsupported: \(error)")
        }
    }

    /// RFC 7009 section 2: revoking the refresh token also invalidates the access tokens of the grant.
    private func requireDead(_ credential: Credential) async throws {
        if credential.tokens.refreshToken != nil {
            var refusal: AuthError?
            do {
                _ = try await client.client.refresh(credential)
            } catch let error as AuthError {
                refusal = error
            }
            try require(refusal != nil, "A revoked refresh token is refused.")
            // RFC 6749 section 5.2: this error makes the engine end the session.
            let name = refusal?.providerError.map { adapter.standardErrorNames[$0.error] ?? $0.error }
            try require(name == "invalid_grant", "The standard error for a refused refresh token is invalid_grant.")
        }
        // Checked at the provider: a JWT would pass local validation until it expires.
        let claims = try? await client.client.userInfo(credential.tokens)
        try require(claims == nil, "A revoked access token is refused.")
    }

    // MARK: Requests and responses

    private func protectsTheRequest() async throws {
        let pending = try await client.beginSignIn()
        let query = FormURLEncoding.decode(String(pending.url.drop { $0 != "?" }.dropFirst())) ?? [:]
        for name in ["state", "code_challenge", "client_id", "redirect_uri"] {
            try require(query.values(for: name).count == 1, "\(name) is sent once.")
        }
        try require(query["code_challenge_method"] == "S256", "PKCE is S256.")
        let asked = Set((query["scope"] ?? "").split(separator: " ").map(String.init))
        try require(asked.isSuperset(of: client.registration.scopes), "The scopes of the registration are requested.")
        try require(
            !asked.contains("openid") || query["nonce"]?.isEmpty == false,
            "An OpenID request has a nonce."
        )
    }

    /// RFC 6749 section 5.2: `invalid_grant` ends a session, so an adapter must pass it on.
    private func passesErrorsOn() throws {
        let endpoint: Endpoint = "https://id.example.com/token"
        let response = ProviderResponse(
            purpose: .refresh,
            endpoint: endpoint,
            http: TransportResponse(
                head: HTTPResponse(status: .badRequest, headerFields: [.contentType: "application/json"]),
                body: Array(#"{"error": "invalid_grant"}"#.utf8)
            )
        )
        let own = adapter as? any ResponseParsing
        let parameters = try? own?.parameters(of: response) ?? response.parameters()
        let name = parameters.flatMap { ProviderError($0, status: 400) }.map {
            adapter.standardErrorNames[$0.error] ?? $0.error
        }
        try require(name == "invalid_grant", "The provider's errors are passed on.")
        // RFC 8628 section 3.5: the device grant depends on these.
        for name in ["authorization_pending", "slow_down", "expired_token", "access_denied"] {
            try require(
                adapter.standardErrorNames[name] ?? name == name,
                "Standard errors keep their names: \(name)."
            )
        }
    }

    private func require(_ condition: Bool, _ rule: String) throws(ConformanceFailure) {
        try ConformanceFailure.require(condition, rule)
    }
}
