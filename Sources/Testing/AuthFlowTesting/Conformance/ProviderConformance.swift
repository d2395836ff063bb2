public import AuthFlow

/// Checks the requirements for every ``/AuthFlow/ProviderAdapter``: it must sign in two users at an emulator of its
/// provider, distinguish them, refresh and revoke tokens, and preserve the protections of the flow. Run it from one
/// of your own tests.
public struct ProviderConformance: Sendable {
    private let adapter: any ProviderAdapter
    private let client: AuthClient
    private let other: AuthClient
    private let issuesRefreshTokens: Bool
    private let revokesTokens: Bool
    private let apiOrigins: [String]
    private let transports: [ObservedTransport]

    /// Creates a suite.
    /// - Parameters:
    ///   - adapter: The adapter under test.
    ///   - client: A client that uses the adapter. Its user agent must be able to sign in, and its loopback redirect
    ///     URI must include the port.
    ///   - other: A similar client with a separate store, whose user agent signs in another user.
    ///   - issuesRefreshTokens: Whether the provider issues refresh tokens to these clients; default: true.
    ///   - revokesTokens: Whether the provider can revoke tokens (RFC 7009); default: true.
    ///   - apiOrigins: The origins to which the adapter may send requests, such as those of an API, in addition to those of the issuer and of the
    ///     endpoints in the metadata; default: none.
    public init(
        adapter: any ProviderAdapter,
        client: AuthClient,
        other: AuthClient,
        issuesRefreshTokens: Bool = true,
        revokesTokens: Bool = true,
        apiOrigins: [String] = []
    ) {
        self.adapter = adapter
        self.transports = [client, other].map { ObservedTransport(base: $0.client.server.transport) }
        self.client = client.observed(by: transports[0])
        self.other = other.observed(by: transports[1])
        self.issuesRefreshTokens = issuesRefreshTokens
        self.revokesTokens = revokesTokens
        self.apiOrigins = apiOrigins
    }

    /// Runs every check. Both clients are signed out afterward.
    /// - Throws: ``ConformanceFailure`` for the first rule that is violated, or the error of a failed sign-in or other request.
    public func run() async throws {
        try require((try? Endpoint(adapter.issuer)) != nil, "The issuer must be an https URL (RFC 8414 section 2).")
        try propagatesErrors()
        try await protectsTheRequest()
        let credential = try await client.signIn().credential
        try await identifiesTheUser(credential)
        let second = try await other.signIn().credential
        try await distinguishesUsers(credential, second)
        try await requestsNoSignIn(with: [credential, second])
        try await rejectsAnInventedToken(credential)
        try await TokenHandling(adapter: adapter, client: client, credential: credential).run()
        try await refreshes(credential)
        try await revokes()
        if issuesRefreshTokens {
            do {
                _ = try await other.refresh()
            } catch {
                try require(false, "Signing out one user must not end another user's session: \(error)")
            }
        }
        _ = try await other.signOut()
        try await contactsOnlyTheProvider()
    }

    /// The adapter could send tokens in any form, so it must not contact other servers at all.
    private func contactsOnlyTheProvider() async throws {
        let metadata = try await client.metadata()
        let origins = try Set(
            metadata.endpoints.compactMap { $0.endpoint?.origin } + apiOrigins + [Endpoint(adapter.issuer).origin]
        )
        for request in transports.flatMap(\.requests) {
            let origin = (try? Endpoint(request.url).origin) ?? request.url
            try require(
                origins.contains(origin),
                "A request was sent to \(origin), which is neither the origin of an endpoint in the metadata nor one of apiOrigins."
            )
        }
    }

    /// The URL of an authorization request appears in the browser's history.
    private func requestsNoSignIn(with credentials: [Credential]) async throws {
        let tokens = credentials.flatMap { [$0.tokens.accessToken, $0.tokens.refreshToken].compactMap(\.self) }
        let url = try await other.beginSignIn().url
        try require(
            !tokens.contains { $0.isRevealed(by: url) },
            "The URL of an authorization request must not contain a token."
        )
    }

    // MARK: Users

    private func identifiesTheUser(_ credential: Credential) async throws {
        let metadata = try await client.metadata()
        try require(
            metadata.issuer.isIdentical(to: adapter.issuer),
            "The metadata must name the adapter's issuer \(adapter.issuer), not \(metadata.issuer)."
        )
        guard let identity = credential.identity else {
            return try require(
                !client.client.identifiesUsers,
                "The user must be identified if the adapter identifies users (identifiesUsers)."
            )
        }
        try require(!identity.subject.isEmpty, "An identified user must have a subject.")
        // If users of several tenants sign in, the issuer of the ID Token is the tenant's.
        let tenant = metadata.tokenIssuer == nil ? nil : credential.tokens.verifiedIDToken?.issuer
        let issuer = tenant ?? metadata.issuer
        try require(
            identity.issuer.isIdentical(to: issuer),
            "The identity's issuer must match the metadata: \(issuer), not \(identity.issuer)."
        )
        try await requireUser(identity, credential.tokens, "The same tokens must belong to the same user.")
    }

    /// Checks that tokens belong to a user, and that userinfo describes that user.
    private func requireUser(_ identity: Identity, _ tokens: TokenSet, _ rule: String) async throws {
        if let adapter = adapter as? any UserInfoProviding {
            let again = try await adapter.identity(for: tokens, in: client.providerContext)
            try require(again?.subject.isIdentical(to: identity.subject) == true, rule)
        }
        guard let claims = try await userInfo(client) else { return }
        let subject = identity.claims["sub"] ?? .string(identity.subject)
        try require(claims["sub"] == nil || claims["sub"] == subject, "Userinfo must describe the user who signed in.")
        let own = (identity.claims.object ?? [:]).filter { $0.value.text == identity.subject }.keys
        for name in ["id", "email", "preferred_username"] + own {
            guard let one = identity.claims[name], let other = claims[name] else { continue }
            try require(one == other, "Userinfo must describe the user who signed in (\(name)).")
        }
    }

    /// The userinfo response; nil when it is unsupported, for example without a userinfo endpoint.
    private func userInfo(_ client: AuthClient) async throws -> JSON? {
        do {
            return try await client.userInfo()
        } catch let error as AuthError where error.code == .unsupported {
            return nil
        }
    }

    private func distinguishesUsers(_ one: Credential, _ two: Credential) async throws {
        guard let first = one.identity, let second = two.identity else {
            return try require(one.identity == nil && two.identity == nil, "All users or none must be identified.")
        }
        try require(!first.subject.isIdentical(to: second.subject), "Two users must have different subjects.")
        if let adapter = adapter as? any UserInfoProviding {
            // The first request is answered after the second has been sent.
            let tokens = [one, two].map(\.tokens.accessToken)
            let meeting = Meeting()
            let contexts = [client, other].map { client in
                let base = client.client.server.transport
                return client.observed(by: MeetingTransport(base: base, tokens: tokens, meeting: meeting))
                    .providerContext
            }
            async let firstAgain = adapter.identity(for: one.tokens, in: contexts[0])
            async let secondAgain = adapter.identity(for: two.tokens, in: contexts[1])
            let subjects = try await [firstAgain?.subject, secondAgain?.subject]
            try require(
                subjects == [first.subject, second.subject],
                "Users who are identified concurrently must not be confused."
            )
        }
        guard let own = try await userInfo(client), let others = try await userInfo(other) else { return }
        try require(own != others, "Two users must have different userinfo.")
    }

    private func rejectsAnInventedToken(_ credential: Credential) async throws {
        let invented = TokenSet(
            accessToken: Secret("invented-by-the-conformance-suite"),
            scopes: credential.tokens.scopes
        )
        if let adapter = adapter as? any UserInfoProviding {
            let identity = try? await adapter.identity(for: invented, in: client.providerContext)
            try require(identity == nil, "An access token that the provider has not issued must not identify a user.")
        }
        let claims = try? await client.client.userInfo(invented)
        try require(claims == nil, "Userinfo must require an access token that the provider has issued.")
    }

    // MARK: Tokens

    private func refreshes(_ credential: Credential) async throws {
        guard issuesRefreshTokens else { return }
        try require(
            credential.tokens.refreshToken != nil,
            "The provider's refresh token must be returned. If the provider requires a scope for it, such as offline_access, request that scope."
        )
        var last = credential
        // Refreshes twice, because a provider that rotates refresh tokens accepts the first token only once.
        for _ in 0..<2 {
            let refreshed: Credential
            do {
                refreshed = try await client.refresh()
            } catch {
                throw ConformanceFailure(description: "It must be possible to refresh tokens repeatedly: \(error)")
            }
            try require(
                refreshed.tokens.accessToken != last.tokens.accessToken,
                "A refresh must return a new access token."
            )
            try require(refreshed.identity == credential.identity, "A refresh must not change the user.")
            if let identity = credential.identity {
                try await requireUser(identity, refreshed.tokens, "Refreshed tokens must belong to the same user.")
            }
            last = refreshed
        }
    }

    private func revokes() async throws {
        let signOut = try await client.signOut()
        guard let credential = signOut.credential else {
            throw ConformanceFailure(description: "A sign-out must return the credential of the signed-in user.")
        }
        switch signOut.revocation {
        case .done: try await requireRevoked(credential)
        case .nothingToDo: try require(false, "Tokens must be revoked at sign-out.")
        case .unsupported(let reason):
            try require(
                !revokesTokens,
                "Tokens must be revoked at sign-out, unless the provider cannot revoke tokens (revokesTokens: false): \(reason)"
            )
            let endpoint = try await client.metadata().revocationEndpoint
            try require(endpoint == nil, "Tokens must be revoked if the provider has a revocation endpoint: \(reason)")
        case .failed(let error): try require(false, "Tokens must be revoked unless revocation is unsupported: \(error)")
        }
    }

    /// RFC 7009 section 2.1: when a refresh token is revoked, a server that can revoke access tokens "SHOULD also
    /// invalidate all access tokens based on the same authorization grant".
    private func requireRevoked(_ credential: Credential) async throws {
        if credential.tokens.refreshToken != nil {
            var refusal: AuthError?
            do {
                _ = try await client.client.refresh(credential)
            } catch let error as AuthError {
                refusal = error
            }
            try require(refusal != nil, "A revoked refresh token must be rejected.")
            // RFC 6749 section 5.2: this error makes the engine end the session.
            let name = refusal?.providerError.map { adapter.standardErrorNames[$0.error] ?? $0.error }
            try require(
                name == "invalid_grant",
                "The error for a rejected refresh token must be invalid_grant, not \(name ?? "\(refusal?.code.rawValue ?? "none")"): map the provider's name to it in standardErrorNames."
            )
        }
        // Checked at the provider, because a JWT would pass local validation until it expires.
        let claims = try? await client.client.userInfo(credential.tokens)
        try require(claims == nil, "A revoked access token must be rejected.")
    }

    // MARK: Requests and responses

    private func protectsTheRequest() async throws {
        guard let query = parameters(of: try await client.beginSignIn()) else { return }
        for name in ["state", "code_challenge", "client_id", "redirect_uri"] {
            try require(query.values(for: name).count == 1, "\(name) must be sent exactly once.")
        }
        try require(query["code_challenge_method"] == "S256", "The PKCE method must be S256.")
        let asked = Set((query["scope"] ?? "").split(separator: " ").map(String.init))
        let missing = client.registration.scopes.filter { !asked.contains($0) }
        try require(
            missing.isEmpty,
            "The registration's scopes must be requested; missing: \(missing.joined(separator: " "))."
        )
        let added = asked.subtracting(client.registration.scopes).subtracting([
            "openid", "offline_access", "refresh_token", "device_sso",
        ])
        try require(
            added.isEmpty,
            "Only the registration's scopes, openid, and the scopes of refresh tokens and device secrets may be requested, not \(added.sorted().joined(separator: " "))."
        )
        try require(
            !asked.contains("openid") || query["nonce"]?.isEmpty == false,
            "An OpenID request must have a nonce."
        )
    }

    /// The parameters of an authorization request: those in its URL, in the pushed request (RFC 9126), or in the signed request object (RFC
    /// 9101); nil if the request object is encrypted, or fetched by the provider.
    private func parameters(of request: AuthorizationRequest) -> FormParameters? {
        var parameters = FormURLEncoding.decode(String(request.url.drop { $0 != "?" }.dropFirst())) ?? [:]
        if parameters["request_uri"] != nil {
            let forms = transports[0].requests.map(\.body.form)
            guard let pushed = forms.last(where: { $0["code_challenge"] != nil || $0["request"] != nil }) else {
                return nil
            }
            parameters = pushed
        }
        guard let object = parameters["request"] else { return parameters }
        guard let claims = (try? JWS(Secret(object)))?.payload.object else { return nil }
        var signed = FormParameters()
        for (name, value) in claims {
            if let text = value.string { signed.append(name, text) }
        }
        return signed
    }

    /// RFC 6749 section 5.2: `invalid_grant` ends a session, so an adapter must pass it on.
    private func propagatesErrors() throws {
        // The adapter may support only one of the formats.
        let formats = [
            ("application/json", #"{"error": "invalid_grant"}"#),
            ("application/x-www-form-urlencoded", "error=invalid_grant"),
        ]
        let names = formats.compactMap { type, body -> String? in
            let response = ProviderResponse(
                purpose: .refresh,
                endpoint: "https://id.example.com/token",
                http: TransportResponse(
                    head: HTTPResponse(status: .badRequest, headerFields: [.contentType: type]),
                    body: Array(body.utf8)
                )
            )
            let own = adapter as? any ResponseParsing
            let parameters = try? own?.parameters(of: response) ?? response.parameters()
            return parameters.flatMap(response.http.providerError(in:)).map {
                adapter.standardErrorNames[$0.error] ?? $0.error
            }
        }
        try require(
            names.contains("invalid_grant"),
            "The provider's errors must be passed on: invalid_grant, as JSON or as a form, became \(names.first ?? "a response without an error")."
        )
        // RFC 8628 section 3.5: the device grant depends on these error codes.
        for name in ["authorization_pending", "slow_down", "expired_token", "access_denied"] {
            let standard = adapter.standardErrorNames[name] ?? name
            try require(standard == name, "Standard errors must keep their names: \(name) became \(standard).")
        }
        for name in ["invalid_client", "invalid_request", "server_error", "temporarily_unavailable"] {
            try require(
                adapter.standardErrorNames[name] != "invalid_grant",
                "Only errors that end the session may be mapped to invalid_grant, not \(name)."
            )
        }
    }
}

extension AuthClient {
    /// The same client with another transport.
    func observed(by transport: any HTTPTransport) -> AuthClient {
        AuthClient(
            client: OAuthClient(
                server: AuthorizationServer(client.adapter, transport: transport, host: client.server.host),
                registration: client.registration,
                sharedCredentials: client.sharedCredentials
            ),
            methods: methods,
            store: credentials.store,
            options: options,
            observer: observer
        )
    }
}

extension JSON {
    /// The value as text, for comparison with the subject; nil unless it is a string or an integer.
    fileprivate var text: String? { string ?? integer.map(String.init) }
}
