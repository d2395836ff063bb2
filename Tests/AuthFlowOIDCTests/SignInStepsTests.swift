import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import Expectations
import Foundation
import Testing

/// Sign-ins in separate steps with ``OAuthClient``: their state is a value, so another process can complete them.
@Suite struct SignInStepsTests {
    private let environment: EmulatorEnvironment

    init() throws { environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com")) }

    /// A client with a separate server instance, as in another process.
    private func client(_ change: (inout ClientRegistration.Values) -> Void = { _ in }) throws -> OAuthClient {
        var values = try EmulatorEnvironment.registration()
        change(&values)
        return OAuthClient(server: environment.server(), registration: try ClientRegistration(values))
    }

    private let browser = Secret("a cookie of the browser")

    private func query(_ url: String) -> FormParameters {
        FormURLEncoding.decode(url.drop { $0 != "?" }.dropFirst()) ?? [:]
    }

    @Test func anotherProcessCompletesTheSignInWithTheStoredRequest() async throws {
        let request = try await client { $0.usesDPoP = true }.authorizationRequest(.init(maxAge: .seconds(60)))
        let stored = try JSONEncoder().encode(request)
        let callback = try await environment.visit(request.url)
        let decoded = try JSONDecoder().decode(AuthorizationRequest.self, from: stored)
        #expect(decoded == request)
        let finisher = try client { $0.usesDPoP = true }
        let credential = try await finisher.exchange(callback, for: decoded)
        #expect(credential.identity?.subject == "248289761001")
        #expect(credential.tokens.tokenType == "DPoP")
        let replay = await #expect(throws: AuthError.self) { try await finisher.exchange(callback, for: decoded) }
        #expect(replay?.code == .invalidCallback)
        // A third process cannot detect the replay, but the server rejects the code.
        let third = await #expect(throws: AuthError.self) { try await client().exchange(callback, for: decoded) }
        #expect(third?.code == .providerRejected)
    }

    @Test(arguments: [
        "version", "url", "redirect_uri", "issuer", "expires_at", "client_id", "state", "code_verifier",
        "response_mode", "scopes", "resources", "binding", "nonce", "max_age", "acr_values", "dpop_key",
        "subjects", "authorization_details", "iss_required",
    ]) func aDamagedStoredAuthorizationRequestIsRejected(_ member: String) async throws {
        let request = try await client { $0.usesDPoP = true }
            .authorizationRequest(.init(maxAge: .seconds(60)))
        let stored = try JSONDecoder().decode(String.self, from: try JSONEncoder().encode(request))
        var json = try #require(try JSON(parsing: Array(stored.utf8)).object)
        #expect(json[member] != nil || ["acr_values", "subjects", "authorization_details"].contains(member))
        // An empty state would match an empty state in the response.
        let isBoolean = member == "iss_required"
        for damage in [isBoolean ? 1 : JSON.bool(true), .null, ["x": 1]] + (member == "state" ? [""] : []) {
            json[member] = damage
            let text = String(decoding: try JSON.object(json).serialized(), as: UTF8.self)
            let bytes = try JSONEncoder().encode(text)
            #expect(throws: (any Error).self, "\(damage)") {
                try JSONDecoder().decode(AuthorizationRequest.self, from: bytes)
            }
        }
    }

    @Test func aPendingAuthorizationRequestIsReturnedOnlyOnce() async throws {
        let client = try client()
        let pending = PendingAuthorizations(store: MemoryTokenStore())
        let request = try await client.authorizationRequest()
        try await pending.save(request, for: browser)
        let callback = try await environment.visit(request.url)
        #expect(try await pending.take(for: callback, in: browser, of: client) == request)
        let replay = await #expect(throws: AuthError.self) {
            try await pending.take(for: callback, in: browser, of: client)
        }
        #expect(replay?.code == .invalidCallback)
    }

    /// The remaining lifetime of the record would otherwise not fit into 64 bits.
    @Test func anAuthorizationRequestWithoutALimitCanBeStored() async throws {
        let client = try client()
        let pending = PendingAuthorizations(store: MemoryTokenStore())
        var options = AuthorizationOptions()
        options.lifetime = .seconds(Int64.max)
        let request = try await client.authorizationRequest(options)
        try await pending.save(request, for: browser)
        let callback = try await environment.visit(request.url)
        #expect(try await pending.take(for: callback, in: browser, of: client) == request)
    }

    @Test func aPendingAuthorizationRequestFromAnotherBrowserIsRejected() async throws {
        let client = try client()
        let pending = PendingAuthorizations(store: MemoryTokenStore())
        let request = try await client.authorizationRequest()
        try await pending.save(request, for: Secret("the attacker's cookie"))
        let callback = try await environment.visit(request.url)
        let error = await #expect(throws: AuthError.self) {
            try await pending.take(for: callback, in: browser, of: client)
        }
        #expect(error?.code == .invalidCallback)
        await expectError(.invalidConfiguration) { try await pending.save(request, for: Secret("short")) }
    }

    @Test func onlyOneOfManyConcurrentCallersGetsAPendingRequest() async throws {
        let client = try client()
        let pending = PendingAuthorizations(store: MemoryTokenStore())
        let request = try await client.authorizationRequest()
        try await pending.save(request, for: browser)
        let callback = try await environment.visit(request.url)
        let taken = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<20 {
                group.addTask { (try? await pending.take(for: callback, in: browser, of: client)) != nil }
            }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(taken == 1)
    }

    @Test(arguments: ["", "https://app.example.com/callback", "?code=1", "?state=&code=1", "?state=a&state=b"])
    func rejectsAnAuthorizationResponseWithoutAValidState(_ callback: String) async throws {
        let pending = PendingAuthorizations(store: MemoryTokenStore())
        let client = try client()
        let error = await #expect(throws: AuthError.self) {
            try await pending.take(for: callback, in: browser, of: client)
        }
        #expect(error?.code == .invalidCallback)
    }

    @Test func aSealedAuthorizationRequestCanBeOpenedOnlyWithItsKey() async throws {
        let request = try await client().authorizationRequest()
        let key = Secret(String(repeating: "k", count: 32))
        let sealed = try request.sealed(by: key)
        #expect(try AuthorizationRequest(sealed: sealed, by: key) == request)
        for (text, key) in [
            (sealed, Secret(String(repeating: "x", count: 32))), (String(sealed.dropLast()), key), ("", key),
            (sealed.replacing(sealed.prefix(3), with: "AAA", maxReplacements: 1), key),
        ] {
            expectError(.invalidCallback) { try AuthorizationRequest(sealed: text, by: key) }
        }
        expectError(.invalidConfiguration) { try request.sealed(by: Secret("short")) }
        #expect(
            !String(decoding: Base64URL.decode(sealed) ?? [], as: UTF8.self).contains(query(request.url)["state"] ?? "")
        )
    }

    @Test func anExpiredAuthorizationRequestIsRejected() async throws {
        let time = VirtualTime()
        let server = environment.server(host: time.host)
        let client = OAuthClient(
            server: server,
            registration: try ClientRegistration(EmulatorEnvironment.registration())
        )
        let request = try await client.authorizationRequest()
        let callback = try await environment.visit(request.url)
        time.advance(by: .seconds(3600))
        let error = await #expect(throws: AuthError.self) { try await client.exchange(callback, for: request) }
        #expect(error?.code == .timedOut)
        let pending = PendingAuthorizations(store: MemoryTokenStore())
        try await pending.save(request, for: browser)
        let late = await #expect(throws: AuthError.self) {
            try await pending.take(for: callback, in: browser, of: client)
        }
        #expect(late?.code == .timedOut)
        #expect(!environment.emulator.requests.contains("POST /token"))
    }

    @Test func rejectsAnAuthorizationRequestFromAnotherClientOrServer() async throws {
        let request = try await client().authorizationRequest()
        let callback = try await environment.visit(request.url)
        let other = EmulatorEnvironment(try OIDCEmulator(issuer: "https://other.example.com"))
        let elsewhere = OAuthClient(
            server: other.server(),
            registration: try ClientRegistration(EmulatorEnvironment.registration())
        )
        for client in [elsewhere, try client { $0.clientID = "another" }] {
            let error = await #expect(throws: AuthError.self) { try await client.exchange(callback, for: request) }
            #expect(error?.code == .invalidCallback)
            #expect(error?.message.contains("belongs to another client or server") == true, "\(error as Any)")
        }
        #expect(!other.emulator.requests.contains("POST /token"))
    }

    /// The author of a configuration could combine another party's issuer with their own token endpoint.
    @Test func doesNotSendTheCodeToEndpointsOtherThanThoseOfTheRequest() async throws {
        let request = try await client().authorizationRequest()
        let callback = try await environment.visit(request.url)
        let endpoints = ProviderMetadata(
            issuer: environment.emulator.issuer,
            tokenEndpoint: Endpoint("https://evil.example.com/token")
        )
        let elsewhere = OAuthClient(
            server: environment.server(OIDCProvider(issuer: environment.emulator.issuer, endpoints: endpoints)),
            registration: try ClientRegistration(EmulatorEnvironment.registration())
        )
        let error = await #expect(throws: AuthError.self) { try await elsewhere.exchange(callback, for: request) }
        #expect(error?.code == .invalidCallback)
        #expect(error?.message.contains("The authorization code was not sent") == true, "\(error as Any)")
    }

    @Test func rejectsAResponseThatArrivedAtAnotherRedirectURI() async throws {
        let client = try client()
        let request = try await client.authorizationRequest()
        let parameters = try await environment.visit(request.url).drop { $0 != "?" }.dropFirst()
        let response = try #require(
            try RedirectResponse(encoded: parameters, at: "https://app.example.com/callback", decrypt: nil)
        )
        let error = await #expect(throws: AuthError.self) {
            _ = try await client.exchange(.response(response), for: request, reporter: FlowReporter())
        }
        #expect(error?.code == .invalidCallback)
        #expect(error?.message.contains("did not arrive at the requested redirect URI") == true, "\(error as Any)")
        #expect(!environment.emulator.requests.contains("POST /token"))
    }

    @Test func authorizationOptionsApplyToASingleRequest() async throws {
        let client = try client { $0.parameters = [.authorization: ["prompt": "consent", "audience": "a"]] }
        var options = AuthorizationOptions(
            prompt: .login,
            loginHint: "alice@example.com",
            maxAge: .seconds(90),
            scopes: ["openid", "email"],
            resources: ["https://api.example.com", "https://other.example.com"]
        )
        options.acrValues = ["gold", "silver"]
        options.uiLocales = ["de-CH", "de"]
        options.claims = ["userinfo": ["name": ["essential": true]]]
        options.parameters = ["audience": "b", "id_token_hint": "a.b.c"]
        let sent = query(try await client.authorizationRequest(options).url)
        #expect(sent["prompt"] == "login")
        #expect(sent["login_hint"] == "alice@example.com")
        #expect(sent["max_age"] == "90")
        #expect(sent["acr_values"] == "gold silver")
        #expect(sent["ui_locales"] == "de-CH de")
        #expect(sent["scope"] == "openid email")
        #expect(sent.values(for: "resource") == ["https://api.example.com", "https://other.example.com"])
        #expect(sent["claims"] == #"{"userinfo":{"name":{"essential":true}}}"#)
        #expect(sent["audience"] == "b" && sent["id_token_hint"] == "a.b.c")
        let next = query(try await client.authorizationRequest().url)
        #expect(next["prompt"] == "consent" && next["audience"] == "a" && next["login_hint"] == nil)
    }

    @Test(arguments: ["state", "nonce", "redirect_uri", "code_challenge", "request", "response_mode"])
    func optionsCannotOverrideProtectedRequestParameters(_ name: String) async throws {
        var options = AuthorizationOptions()
        options.parameters[name] = "x"
        let error = await #expect(throws: AuthError.self) { try await client().authorizationRequest(options) }
        #expect(error?.code == .invalidConfiguration)
    }

    @Test func checksTheRequestedMaxAgeAgainstTheIDToken() async throws {
        environment.emulator.fault = .idToken(.claim("auth_time", .integer(1)))
        let client = try client()
        let request = try await client.authorizationRequest(.init(maxAge: .seconds(60)))
        let callback = try await environment.visit(request.url)
        let error = await #expect(throws: AuthError.self) { try await client.exchange(callback, for: request) }
        #expect(error?.code == .insufficientUserAuthentication)
    }

    /// A provider that ignores `claims` may sign another user in.
    @Test func checksTheRequestedSubjectAgainstTheIDToken() async throws {
        let client = try client()
        var options = AuthorizationOptions()
        options.claims = ["id_token": ["sub": ["value": "248289761001"]]]
        let request = try await client.authorizationRequest(options)
        let credential = try await client.exchange(try await environment.visit(request.url), for: request)
        #expect(credential.identity?.subject == "248289761001")
        options.claims = ["id_token": ["sub": ["value": "another"]]]
        let other = try await client.authorizationRequest(options)
        let callback = try await environment.visit(other.url)
        let error = await #expect(throws: AuthError.self) { try await client.exchange(callback, for: other) }
        #expect(error?.code == .insufficientUserAuthentication)
        #expect(!environment.emulator.requests.contains("POST /revoke"))
    }

    /// Otherwise, a weaker or older authentication would be accepted.
    @Test(arguments: ["acr", "auth_time"])
    func anEssentialClaimRequiresTheOpenIDScope(_ claim: String) async throws {
        var options = AuthorizationOptions()
        options.claims = ["id_token": .object([claim: ["essential": true]])]
        let client = try client { $0.scopes = ["profile"] }
        await expectError(.invalidConfiguration) { try await client.authorizationRequest(options) }
        options.scopes = ["openid"]
        _ = try await client.authorizationRequest(options)
        // RFC 9470 section 4: the resource checks the access token.
        let request = try await client.authorizationRequest(.init(maxAge: .seconds(60)))
        #expect(query(request.url)["max_age"] == "60")
    }

    /// OpenID Connect Core section 3.1.2.1: the provider checks `max_age` when it receives the request, and the
    /// user interaction that follows may take longer.
    @Test(arguments: [(-59, true), (0, true), (100, true), (-121, false)])
    func maxAgeIsMeasuredAtTheRequest(_ authenticatedAfter: Int, _ isAccepted: Bool) async throws {
        let time = VirtualTime()
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            let client = OAuthClient(
                server: environment.server(host: time.host),
                registration: try ClientRegistration(try EmulatorEnvironment.registration())
            )
            let request = try await client.authorizationRequest(.init(maxAge: .seconds(60)))
            let authenticated = Int64(time.now.timeIntervalSince1970) + Int64(authenticatedAfter)
            environment.emulator.fault = .idToken(.claim("auth_time", .integer(authenticated)))
            time.advance(by: .seconds(300))
            let callback = try await environment.visit(request.url)
            if isAccepted {
                _ = try await client.exchange(callback, for: request)
            } else {
                let error = await #expect(throws: AuthError.self) { try await client.exchange(callback, for: request) }
                #expect(error?.code == .insufficientUserAuthentication)
            }
        }
    }

    /// Revoking one token may make the provider revoke the entire grant, and with it the user's session.
    @Test(arguments: [
        (IDTokenFault.authenticatedAnHourAgo, 0), (.missingAuthenticationTime, 0), (.claim("nonce", "another"), 2),
    ])
    func rejectedTokensAreRevokedUnlessOnlyTheAuthenticationIsInsufficient(_ fault: IDTokenFault, _ revocations: Int)
        async throws
    {
        environment.emulator.fault = .idToken(fault)
        let client = try client { $0.scopes = ["openid", "offline_access"] }
        let request = try await client.authorizationRequest(.init(maxAge: .seconds(60)))
        let callback = try await environment.visit(request.url)
        await #expect(throws: AuthError.self) { try await client.exchange(callback, for: request) }
        #expect(environment.emulator.requests.count { $0 == "POST /revoke" } == revocations)
    }

    @Test func sendsTheSameResourceInTheTokenRequestAndEachRefresh() async throws {
        let client = try client { $0.scopes = ["openid", "offline_access"] }
        let request = try await client.authorizationRequest(.init(resources: ["https://api.example.com"]))
        let credential = try await client.exchange(try await environment.visit(request.url), for: request)
        let key = CredentialKey("s", resource: "https://api.example.com")
        let credentials = CredentialManager(client: client, store: MemoryTokenStore())
        try await credentials.save(credential, for: key)
        try await credentials.refresh(key)
        let sent = environment.emulator.receivedRequests.filter { $0.path == "/token" }.map { $0.form["resource"] }
        #expect(sent == ["https://api.example.com", "https://api.example.com"])
        #expect(try await credentials.credential(for: CredentialKey("s")) == nil)
        // A single-use refresh token is stored under one key only.
        for other in [CredentialKey("s"), CredentialKey("s", resource: "https://other.example.com")] {
            await expectError(.invalidConfiguration) { try await credentials.save(credential, for: other) }
        }
    }

    @Test func signsOutWithoutAUserAgent() async throws {
        let client = try client { $0.postLogoutRedirectURI = .loopback }
        let request = try await client.authorizationRequest()
        let credential = try await client.exchange(try await environment.visit(request.url), for: request)
        try await client.revoke(credential)
        let logout = try await client.endSessionRequest(for: credential)
        #expect(query(logout.url)["id_token_hint"] == credential.tokens.idToken?.exposed)
        let stored = try JSONDecoder().decode(EndSessionRequest.self, from: try JSONEncoder().encode(logout))
        try stored.check("\(logout.redirectURI)?state=\(logout.state)")
        for callback in [
            "\(logout.redirectURI)?state=x", logout.redirectURI,
            "\(logout.redirectURI)?state=\(logout.state)&error=server_error",
            "https://evil.example.com/?state=\(logout.state)",
        ] {
            expectError(.invalidCallback) { try stored.check(callback) }
        }
        #expect(!"\(logout)".contains(logout.state))
    }

    @Test func verifiesAnIDTokenWithoutAClient() async throws {
        let client = try client()
        let request = try await client.authorizationRequest()
        let credential = try await client.exchange(try await environment.visit(request.url), for: request)
        let idToken = try #require(credential.tokens.idToken)
        let server = environment.server()
        #expect(try await server.verify(idToken, audience: "authflow-demo").subject == "248289761001")
        let nonce = query(request.url)["nonce"].map(Secret.init)
        #expect(try await server.verify(idToken, audience: "authflow-demo", nonce: nonce).subject == "248289761001")
        for verify in [
            { try await server.verify(idToken, audience: "another") },
            { try await server.verify(idToken, audience: "authflow-demo", nonce: Secret("x")) },
            { try await server.verify(idToken, audience: "authflow-demo", accessToken: Secret("x")) },
            { try await server.verify(idToken, audience: "authflow-demo", algorithms: [.hs256]) },
            { try await server.verify(Secret(idToken.exposed + "x"), audience: "authflow-demo") },
        ] as [@Sendable () async throws -> IDToken] {
            let error = await #expect(throws: AuthError.self) { try await verify() }
            #expect(error?.code == .invalidIDToken)
        }
    }
}
