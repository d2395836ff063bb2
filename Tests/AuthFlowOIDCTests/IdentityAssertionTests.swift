import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import Foundation
import Testing

/// A sign-in at one provider that grants access at another (draft-ietf-oauth-identity-assertion-authz-grant).
@Suite struct IdentityAssertionTests {
    private static let work = OIDCEmulator.Client(
        id: "app-at-work",
        secret: "s3cret",
        authenticationMethod: "client_secret_basic",
        redirectURIs: ["http://127.0.0.1:8400/callback"]
    )
    private static let api = OIDCEmulator.Client(
        id: "app-at-api",
        secret: "other",
        authenticationMethod: "client_secret_post"
    )

    private struct Environment {
        let work: EmulatorEnvironment
        let api: EmulatorEnvironment
        let user: AuthClient
        let store = MemoryTokenStore()

        init(dpop: Bool = false, now: @escaping @Sendable () -> Date = { Date() }) throws {
            work = EmulatorEnvironment(
                try OIDCEmulator(issuer: "https://work.example.com", clients: [IdentityAssertionTests.work], now: now)
            )
            api = EmulatorEnvironment(
                try OIDCEmulator(issuer: "https://api.example.com", clients: [IdentityAssertionTests.api], now: now)
            )
            work.emulator.identityAudiences = [api.emulator.issuer: "app-at-api"]
            api.emulator.trustedIssuers = [work.emulator.issuer: try work.emulator.publicKeys()]
            var values = ClientRegistration.Values(clientID: "app-at-work")
            values.authentication = .clientSecretBasic(Secret("s3cret"))
            values.redirectURIs = ["http://127.0.0.1:8400/callback"]
            values.scopes = ["openid", "offline_access"]
            values.usesDPoP = dpop
            user = try work.client(registration: values, store: store, host: HostServices(now: now))
        }

        func machine(
            of other: AuthClient? = nil,
            dpop: Bool = false,
            dpopKey: SigningKeySource? = nil,
            store: any TokenStore = MemoryTokenStore(),
            transport: (any HTTPTransport)? = nil,
            host: HostServices = .system
        ) throws -> AuthClient {
            var values = ClientRegistration.Values(clientID: "app-at-api")
            values.authentication = .clientSecretPost(Secret("other"))
            values.scopes = ["chat.read"]
            values.resources = ["https://chat.example.com/"]
            values.usesDPoP = dpop
            values.dpopKey = dpopKey
            let user = other ?? user
            return try api.client(
                registration: values,
                flows: [.jwtBearer],
                assertions: .signIn("work") { user },
                store: store,
                transport: transport,
                host: host
            )
        }
    }

    @Test(arguments: [false, true]) func obtainsAnAccessTokenFromTheOtherAuthorizationServer(_ dpop: Bool) async throws
    {
        let environment = try Environment(dpop: dpop)
        _ = try await environment.user.signIn()
        let tokens = try await environment.machine(dpop: dpop).freshTokens()
        #expect(tokens.scopes == ["chat.read"])
        #expect(tokens.tokenType == (dpop ? "DPoP" : "Bearer"))
        let exchange = try #require(environment.work.emulator.receivedRequests.last { $0.path == "/token" })
        #expect(exchange.form["audience"] == "https://api.example.com")
        #expect(exchange.form.values(for: "resource") == ["https://chat.example.com/"])
        // The other server uses the scopes and resources in the assertion.
        let grant = try #require(environment.api.emulator.receivedRequests.last { $0.path == "/token" })
        #expect(grant.form["scope"] == nil && grant.form["resource"] == nil)
    }

    /// If the first request contains a DPoP proof, "the same key" must be used in the second.
    @Test func usesTheDPoPKeyThatTheAssertionIsBoundTo() async throws {
        let environment = try Environment(dpop: true)
        _ = try await environment.user.signIn()
        let tokens = try await environment.machine(dpop: false).freshTokens()
        #expect(tokens.tokenType == "DPoP")
    }

    /// Otherwise, the tokens would be bound to the generated key of the first sign-in, which can be copied.
    @Test func anAssertionIsNotUsedWithAKeyOtherThanTheConfiguredDPoPKey() async throws {
        let environment = try Environment(dpop: true)
        _ = try await environment.user.signIn()
        let key = SigningKeySource(try PrivateKey(generatedFor: .es256))
        let machine = try environment.machine(dpop: true, dpopKey: key)
        let error = await #expect(throws: AuthError.self) { try await machine.freshTokens() }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.message.contains("bound to a DPoP key other than this client's") == true)
        #expect(!environment.api.emulator.requests.contains("POST /token"))
    }

    /// No tokens are returned after a sign-out, and the next user who signs in gets separate tokens.
    @Test func aUsersTokensAreNotReturnedToTheNextUser() async throws {
        let environment = try Environment()
        _ = try await environment.user.signIn()
        let machine = try environment.machine()
        let alice = try await machine.freshTokens()
        #expect(try await machine.freshTokens().accessToken == alice.accessToken)
        _ = try await environment.user.signOut()
        let error = await #expect(throws: AuthError.self) { try await machine.freshTokens() }
        #expect(error?.code == .loginRequired)
        let bob = try environment.work.client(
            registration: environment.user.registration.values,
            user: .bob,
            store: environment.store
        )
        _ = try await bob.signIn(.replaceAccount)
        #expect(try await machine.freshTokens().accessToken != alice.accessToken)
    }

    /// A user who signs in while the assertion is being requested does not get the first user's tokens.
    @Test func aChangeOfUserDuringTheTokenExchangeAbortsTheGrant() async throws {
        let environment = try Environment()
        _ = try await environment.user.signIn()
        let (work, store, registration) = (environment.work, environment.store, environment.user.registration.values)
        let switching = InProcessTransport(origin: "https://work.example.com") { request, body in
            let response = await work.emulator.handle(request, body: body)
            if work.emulator.receivedRequests.last?.form["requested_token_type"] != nil {
                let bob = try work.client(registration: registration, user: .bob, store: store)
                _ = try await bob.signIn(.replaceAccount)
            }
            return response
        }
        let user = try work.client(registration: registration, store: store, transport: switching)
        let machine = try environment.machine(of: user)
        let error = await #expect(throws: AuthError.self) { try await machine.freshTokens() }
        #expect(error?.code == .accountMismatch)
        #expect(!environment.api.emulator.requests.contains("POST /token"))
    }

    @Test func aTokenIssuedDuringAChangeOfUserIsNotReturnedToTheNextUser() async throws {
        let environment = try Environment()
        _ = try await environment.user.signIn()
        let (work, api, registration) = (environment.work, environment.api, environment.user.registration.values)
        let switching = InProcessTransport(origin: "https://api.example.com") {
            [store = environment.store] request, body in
            let response = await api.emulator.handle(request, body: body)
            if request.path == "/token", api.emulator.requests.count(where: { $0 == "POST /token" }) == 1 {
                let bob = try work.client(registration: registration, user: .bob, store: store)
                _ = try await bob.signIn(.replaceAccount)
            }
            return response
        }
        let store = MemoryTokenStore()
        let alice = try await environment.machine(store: store, transport: switching).signIn().credential.tokens
        let bob = try await environment.machine(store: store).freshTokens()
        #expect(bob.accessToken != alice.accessToken)
        #expect(environment.api.emulator.requests.count { $0 == "POST /token" } == 2)
    }

    @Test func failsWithLoginRequiredIfNoUserIsSignedIn() async throws {
        let environment = try Environment()
        let error = await #expect(throws: AuthError.self) { try await environment.machine().freshTokens() }
        #expect(error?.code == .loginRequired)
        #expect(!environment.api.emulator.requests.contains("POST /token"))
    }

    /// The access token may be valid for longer than the ID Token.
    @Test(arguments: [3600, 7200] as [Int64])
    func refreshesAnExpiredIDToken(_ accessTokenLifetime: Int64) async throws {
        let time = VirtualTime()
        let environment = try Environment(now: { time.now })
        environment.work.emulator.accessTokenLifetime = accessTokenLifetime
        _ = try await environment.user.signIn()
        time.advance(by: .seconds(3700))
        let tokens = try await environment.machine(host: HostServices(now: { time.now })).freshTokens()
        #expect(tokens.scopes == ["chat.read"])
        #expect(environment.work.emulator.receivedRequests.contains { $0.form["grant_type"] == "refresh_token" })
    }

    @Test(arguments: ["issued_token_type", "token_type", "access_token"])
    func rejectsATokenExchangeResponseWithoutAValidIdentityAssertion(_ member: String) async throws {
        let environment = try Environment()
        _ = try await environment.user.signIn()
        let other: JSON =
            member == "issued_token_type"
            ? "urn:ietf:params:oauth:token-type:access_token"
            : member == "token_type" ? "Bearer" : "opaque"
        environment.work.emulator.fault = .tokenResponse(.member(member, other))
        let error = await #expect(throws: AuthError.self) { try await environment.machine().freshTokens() }
        #expect(error?.code == (member == "access_token" ? .assertionUnusable : .invalidResponse))
        #expect(!environment.api.emulator.requests.contains("POST /token"))
    }

    @Test func rejectsAnIdentityAssertionForAnotherAudience() async throws {
        let environment = try Environment()
        _ = try await environment.user.signIn()
        let foreign = try environment.work.emulator.assertion(["sub": "x", "aud": "https://other.example.com"])
        environment.work.emulator.fault = .tokenResponse(.member("access_token", .string(foreign)))
        let error = await #expect(throws: AuthError.self) { try await environment.machine().freshTokens() }
        #expect(error?.code == .assertionUnusable)
        #expect(!environment.api.emulator.requests.contains("POST /token"))
    }

    @Test func reportsTheInvalidTargetErrorOfTheTokenExchange() async throws {
        let environment = try Environment()
        _ = try await environment.user.signIn()
        environment.work.emulator.identityAudiences = [:]
        let error = await #expect(throws: AuthError.self) { try await environment.machine().freshTokens() }
        #expect(error?.providerError?.error == "invalid_target")
    }
}
