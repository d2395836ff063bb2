import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// Tokens for the client itself (RFC 6749 section 4.4).
@Suite struct ClientCredentialsTests {
    static let robot = OIDCEmulator.Client(id: "robot", secret: "s3cret", authenticationMethod: "client_secret_basic")

    private func registration() -> ClientRegistration.Values {
        var values = ClientRegistration.Values(clientID: "robot")
        values.authentication = .clientSecretBasic(Secret("s3cret"))
        values.scopes = ["openid", "reports"]
        return values
    }

    @Test(arguments: EmulatorEnvironment.Setting.allCases)
    func freshTokensSendsOneClientCredentialsRequestWithoutASignIn(_ setting: EmulatorEnvironment.Setting) async throws
    {
        try await EmulatorEnvironment.with(setting, clients: [Self.robot]) { environment in
            let store = MemoryTokenStore()
            let client = try environment.client(registration: registration(), flows: [.clientCredentials], store: store)
            // A hundred concurrent callers share one request.
            let tokens = try await withThrowingTaskGroup(of: TokenSet.self) { group in
                for _ in 0..<100 { group.addTask { try await client.freshTokens() } }
                var all: Set<TokenSet> = []
                for try await tokens in group { all.insert(tokens) }
                return all
            }
            #expect(tokens.count == 1)
            #expect(tokens.first?.scopes == ["reports"])
            #expect(environment.emulator.requests.count { $0 == "POST /token" } == 1)
            #expect(environment.emulator.receivedRequests.last { $0.path == "/token" }?.form["scope"] == "reports")
            // Another process reads the token from the store.
            let other = try environment.client(registration: registration(), flows: [.clientCredentials], store: store)
            #expect(try await other.freshTokens().accessToken == tokens.first?.accessToken)
            #expect(environment.emulator.requests.count { $0 == "POST /token" } == 1)
        }
    }

    @Test func theTokenOfAClientIsActiveUntilItIsRevoked() async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: [Self.robot]))
        let client = try environment.client(registration: registration(), flows: [.clientCredentials])
        let token = try await client.freshTokens().accessToken
        let description = try await client.client.introspect(token)
        #expect(description["active"] == true && description["sub"] == "robot" && description["scope"] == "reports")
        environment.emulator.revokeAccessTokens()
        #expect(try await client.client.introspect(token)["active"] == false)
    }

    /// Otherwise, the token would remain valid at the provider, but nothing would use or revoke it.
    @Test("A sign-in without a user that is cancelled while its token arrives is stored", .timeLimit(.minutes(1)))
    func aCancelledSignInWithoutAUserIsStored() async throws {
        try await EmulatorEnvironment.with(.inProcess, clients: [Self.robot]) { environment in
            let running = Mutex<Task<SignIn, any Error>?>(nil)
            let (starts, start) = AsyncStream<Void>.makeStream()
            let client = try environment.client(registration: registration(), flows: [.clientCredentials]) { event in
                guard event.step == .machineToMachineGrant, event.progress == .succeeded else { return }
                running.withLock { $0?.cancel() }
            }
            let task = Task {
                for await _ in starts {}
                return try await client.signIn()
            }
            running.withLock { $0 = task }
            start.finish()
            _ = await task.result
            #expect(task.isCancelled)
            #expect(await client.drain(within: .seconds(60)))
            #expect(try await client.credential()?.tokens.scopes == ["reports"])
            #expect(environment.emulator.requests.count { $0 == "POST /token" } == 1)
        }
    }

    /// The provider may revoke a token before it expires.
    @Test func aTokenThatTheAPIRejectsIsReplaced() async throws {
        try await EmulatorEnvironment.with(.inProcess, clients: [Self.robot]) { environment in
            let client = try environment.client(registration: registration(), flows: [.clientCredentials])
            let rejected = try await client.freshTokens().accessToken
            let accepted = try await client.perform { tokens in
                guard tokens.accessToken != rejected else { throw AuthError(.accessTokenRejected, "Revoked.") }
                return tokens.accessToken
            }
            #expect(accepted != rejected)
            #expect(environment.emulator.requests.count { $0 == "POST /token" } == 2)
        }
    }

    /// Otherwise, the client's token would replace the user's tokens.
    @Test func aFlowWithoutAUserIsNotAFallbackForASignIn() async throws {
        try await EmulatorEnvironment.with(.inProcess, clients: [Self.robot]) { environment in
            let client = OAuthClient(
                server: environment.server(),
                registration: try ClientRegistration(registration())
            )
            let mixed = AuthClient(client: client, methods: [.userAgent(UnavailableAgent()), .clientCredentials])
            let error = await #expect(throws: AuthError.self) { try await mixed.signIn() }
            #expect(error?.code == .invalidConfiguration)
            #expect(!environment.emulator.requests.contains("POST /token"))
        }
    }

    static let requests: [(String, AuthorizationOptions)] = [
        ("scope", AuthorizationOptions(scopes: ["invoices"])),
        ("resource", AuthorizationOptions(resources: ["https://api.example.com"])),
        ("max_age", AuthorizationOptions(maxAge: .seconds(60))), ("login_hint", AuthorizationOptions(loginHint: "bob")),
    ]

    /// Otherwise, the caller would receive a token with the scopes or for the resource of the registration.
    @Test(arguments: requests)
    func aSignInWithoutAUserRejectsOptionsThatItDoesNotSupport(_ name: String, _ options: AuthorizationOptions)
        async throws
    {
        try await EmulatorEnvironment.with(.inProcess, clients: [Self.robot]) { environment in
            let client = try environment.client(registration: registration(), flows: [.clientCredentials])
            let error = await #expect(throws: AuthError.self) { try await client.signIn(options: options) }
            #expect(error?.code == .unsupported)
            #expect(error?.message.contains(name) == true)
            #expect(!environment.emulator.requests.contains("POST /token"))
            // RFC 6749 section 3.3: the order of scopes does not matter.
            for scopes in [["openid", "reports"], ["reports", "openid"]] {
                let same = AuthorizationOptions(scopes: scopes, resources: [])
                #expect(try await client.signIn(options: same).credential.tokens.scopes == ["reports"])
            }
        }
    }

    private struct UnavailableAgent: UserAgent {
        func withRedirectSession<Return: Sendable>(
            _ options: RedirectOptions,
            _ body: nonisolated(nonsending) (RedirectSession) async throws -> Return
        ) async throws -> Return {
            throw AuthError(.noUserAgent, "There is no browser.")
        }
    }

    enum Change: CaseIterable { case fewerScopes, otherScopes, resources, authorizationDetails, parameters }

    @Test(arguments: Change.allCases) func aTokenStoredForDifferentRequestParametersIsNotReused(_ change: Change)
        async throws
    {
        try await EmulatorEnvironment.with(.inProcess, clients: [Self.robot]) { environment in
            let store = MemoryTokenStore()
            var before = registration()
            before.scopes = ["reports", "invoices"]
            let first = try environment.client(registration: before, flows: [.clientCredentials], store: store)
            let old = try await first.freshTokens()
            var after = before
            switch change {
            case .fewerScopes: after.scopes = ["reports"]
            case .otherScopes: after.scopes = ["reports", "payments"]
            case .resources: after.resources = ["https://api.example.com"]
            case .authorizationDetails: after.authorizationDetails = [["type": "payment"]]
            case .parameters: after.parameters = [.clientCredentials: ["audience": "https://b.example"]]
            }
            let changed = try environment.client(registration: after, flows: [.clientCredentials], store: store)
            let new = try await changed.freshTokens()
            #expect(new.accessToken != old.accessToken)
            if change == .fewerScopes || change == .otherScopes { #expect(new.scopes == after.scopes) }
            // A different order of the scopes is not a change.
            after.scopes.reverse()
            let same = try environment.client(registration: after, flows: [.clientCredentials], store: store)
            #expect(try await same.freshTokens().accessToken == new.accessToken)
            // During an upgrade, processes with the old configuration continue to use their token.
            let replica = try environment.client(registration: before, flows: [.clientCredentials], store: store)
            #expect(try await replica.freshTokens().accessToken == old.accessToken)
        }
    }

    @Test func clientCredentialsYieldAJWTAccessTokenForTheResource() async throws {
        try await EmulatorEnvironment.with(.inProcess, clients: [Self.robot]) { environment in
            var values = registration()
            values.resources = ["https://api.example.com/orders"]
            let client = try environment.client(registration: values, flows: [.clientCredentials])
            let payload = try await client.freshTokens().accessToken.exposed.split(separator: ".")[1]
            let claims = try JSON(parsing: #require(Base64URL.decode(payload)))
            #expect(claims["aud"] == "https://api.example.com/orders")
            // RFC 9068 section 2.2
            #expect(claims["sub"] == "robot")
            #expect(claims["client_id"] == "robot")
            #expect(claims["scope"] == "reports")
        }
    }

    /// Each resource has a separate record and a separate token.
    @Test(arguments: 0..<3) func afterAFailedRevocationTheOtherTokensAreStillRevokedAndRemoved(_ failing: Int)
        async throws
    {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: [Self.robot]))
        var values = registration()
        values.resources = ["https://a.example.com", "https://b.example.com"]
        let asked = Mutex(0)
        let transport = ScriptedResponses(base: environment.transport) { call in
            guard call.url.hasSuffix("/revoke") else { return nil }
            let number = asked.withLock { asked in
                defer { asked += 1 }
                return asked
            }
            return number == failing ? TransportResponse(head: HTTPResponse(status: 403)) : nil
        }
        let client = try environment.client(registration: values, flows: [.clientCredentials], transport: transport)
        _ = try await client.freshTokens()
        for resource in values.resources { _ = try await client.freshTokens(for: resource) }
        guard case .failed(let error) = try await client.signOut().revocation else {
            Issue.record("The result must report the token that was not revoked.")
            return
        }
        #expect(error.status == 403)
        #expect(asked.withLock { $0 } == 3)
        #expect(environment.emulator.requests.count { $0 == "POST /revoke" } == 2)
        #expect(try await client.signOutLocally() == false)
    }

    /// A token that was removed is revoked even if another token could not be removed.
    @Test func aFailedRecordRemovalDoesNotPreventRevocationOfTheOtherTokens() async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: [Self.robot]))
        var values = registration()
        values.resources = ["https://a.example.com", "https://b.example.com"]
        let store = FailingStore()
        let client = try environment.client(registration: values, flows: [.clientCredentials], store: store)
        _ = try await client.freshTokens()
        for resource in values.resources { _ = try await client.freshTokens(for: resource) }
        store.fail(times: 1)
        await expectError(.storageFailed) { try await client.signOut() }
        #expect(environment.emulator.requests.count { $0 == "POST /revoke" } == 2)
        #expect(try await client.signOut().credential != nil)
        #expect(environment.emulator.requests.count { $0 == "POST /revoke" } == 3)
        #expect(try await client.signOutLocally() == false)
    }

    @Test func aMachineCannotRequestFewerScopesForOneResource() async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: [Self.robot]))
        var values = registration()
        values.resources = ["https://a.example.com"]
        let client = try environment.client(registration: values, flows: [.clientCredentials])
        let error = await #expect(throws: AuthError.self) {
            try await client.freshTokens(for: "https://a.example.com", scopes: ["reports"])
        }
        #expect(error?.code == .unsupported)
        #expect(error?.message.contains("cannot request fewer scopes") == true)
        #expect(!environment.emulator.requests.contains("POST /token"))
    }

    @Test func aNewTokenIsRequestedBeforeTheOldTokenExpires() async throws {
        let time = VirtualTime()
        let emulator = try OIDCEmulator(issuer: "https://id.example.com", clients: [Self.robot], now: { time.now })
        let environment = EmulatorEnvironment(emulator)
        let client = try environment.client(
            registration: registration(),
            flows: [.clientCredentials],
            host: HostServices(now: { time.now })
        )
        let first = try await client.freshTokens()
        time.advance(by: .seconds(3590))
        let second = try await client.freshTokens()
        #expect(first.accessToken != second.accessToken)
        #expect(second.refreshToken == nil)
    }

    @Test(arguments: [(age: 3590.0, isReturned: true), (age: 3601, isReturned: false)])
    func whileTheProviderIsUnavailableTheOldTokenIsUsedUntilItExpires(_ age: Double, _ isReturned: Bool) async throws {
        let time = VirtualTime()
        let emulator = try OIDCEmulator(issuer: "https://id.example.com", clients: [Self.robot], now: { time.now })
        let environment = EmulatorEnvironment(emulator)
        let transport = FlakyTransport(environment.transport)
        let client = try environment.client(
            registration: registration(),
            flows: [.clientCredentials],
            transport: transport,
            host: HostServices(now: { time.now })
        )
        let first = try await client.freshTokens()
        time.advance(by: .seconds(age))
        transport.takeDown()
        if isReturned {
            #expect(try await client.freshTokens().accessToken == first.accessToken)
        } else {
            await expectError(.networkFailed) { try await client.freshTokens() }
        }
    }

    /// The tokens of a user who signed in under the same name are not returned as the client's own tokens.
    @Test func userTokensAndClientCredentialsTokensAreStoredSeparately() async throws {
        let both = OIDCEmulator.Client(
            id: "robot",
            secret: "s3cret",
            authenticationMethod: "client_secret_basic",
            redirectURIs: ["http://127.0.0.1:8400/callback"]
        )
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: [both]))
        let store = MemoryTokenStore()
        var values = registration()
        values.redirectURIs = ["http://127.0.0.1:8400/callback"]
        let user = try await environment.client(registration: values, store: store).signIn().credential
        let robot = try environment.client(registration: values, flows: [.clientCredentials], store: store)
        #expect(try await robot.freshTokens().accessToken != user.tokens.accessToken)
        #expect(try await robot.credential()?.identity == nil)
        // Nor vice versa.
        #expect(
            try await environment.client(registration: values, store: store).credential()?.identity == user.identity
        )
    }

    @Test func aSecondSignInReplacesTheFirst() async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: [Self.robot]))
        let client = try environment.client(registration: registration(), flows: [.clientCredentials])
        let first = try await client.signIn().credential
        let second = try await client.signIn().credential
        #expect(first.tokens.accessToken != second.tokens.accessToken)
        #expect(try await client.freshTokens().accessToken == second.tokens.accessToken)
    }

    /// RFC 8707 section 2: a token for one resource is not returned for another.
    @Test func aTokenRenewedForAnotherResourceIsRejected() async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: [Self.robot]))
        let client = OAuthClient(server: environment.server(), registration: try ClientRegistration(registration()))
        let careless = CredentialManager(
            client: client,
            store: MemoryTokenStore(),
            renewal: { client, _ in
                try await client.clientCredentials(resources: ["https://a.example.com"])
            }
        )
        let error = await #expect(throws: AuthError.self) {
            try await careless.freshTokens(for: "service", resource: "https://b.example.com")
        }
        #expect(error?.code == .invalidConfiguration)
        let careful = CredentialManager(
            client: client,
            store: MemoryTokenStore(),
            renewal: { client, resource in
                try await client.clientCredentials(resources: resource.map { [$0] })
            }
        )
        let a = try await careful.freshTokens(for: "service", resource: "https://a.example.com")
        let b = try await careful.freshTokens(for: "service", resource: "https://b.example.com")
        #expect(a.accessToken != b.accessToken)
    }

    @Test func refreshingWithoutAUserObtainsTokensEvenIfThereAreNone() async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: [Self.robot]))
        let client = OAuthClient(server: environment.server(), registration: try ClientRegistration(registration()))
        let credentials = CredentialManager(
            client: client,
            store: MemoryTokenStore(),
            renewal: { client, _ in try await client.clientCredentials() }
        )
        let first = try await credentials.refresh(CredentialKey("service"))
        let second = try await credentials.refresh(CredentialKey("service"))
        #expect(first.tokens.accessToken != second.tokens.accessToken)
        #expect(try await credentials.freshTokens(for: "service").accessToken == second.tokens.accessToken)
    }

    @Test func aRejectedTokenRequestIsNotRetriedImmediately() async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: []))
        let client = try environment.client(registration: registration(), flows: [.clientCredentials])
        for _ in 0..<5 { await #expect(throws: AuthError.self) { try await client.freshTokens() } }
        #expect(environment.emulator.requests.count { $0 == "POST /token" } == 1)
    }

    /// RFC 6749 section 4.4: only confidential clients may use this grant.
    @Test func aPublicClientIsRejectedBeforeTheTokenRequest() async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        let client = OAuthClient(
            server: environment.server(),
            registration: try ClientRegistration(clientID: "authflow-demo")
        )
        let error = await #expect(throws: AuthError.self) { try await client.clientCredentials() }
        #expect(error?.code == .invalidConfiguration)
        #expect(environment.emulator.requests.isEmpty)
    }

    /// Section 4.4.3: "A refresh token SHOULD NOT be included."
    @Test func discardsTheRefreshTokenOfAClientCredentialsResponse() async throws {
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", clients: [Self.robot]))
        environment.emulator.fault = .tokenResponse(.member("refresh_token", "unwanted"))
        let client = OAuthClient(server: environment.server(), registration: try ClientRegistration(registration()))
        #expect(try await client.clientCredentials().tokens.refreshToken == nil)
    }
}
