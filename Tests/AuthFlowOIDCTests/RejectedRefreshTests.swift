import AuthFlow
import AuthFlowHeadless
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// Refreshes that neither succeed nor end the session, and the cases in which the user must sign in.
@Suite struct RejectedRefreshTests {
    private let life: TokenLifeEnvironment
    private let empty = TransportResponse(head: HTTPResponse(status: .badRequest))

    init() throws { self.life = try TokenLifeEnvironment() }

    private func code(_ body: () async throws -> TokenSet) async -> AuthError.Code? {
        do {
            _ = try await body()
            return nil
        } catch {
            return (error as? AuthError)?.code
        }
    }

    @Test func callersGetLoginRequiredDuringTheBackoffAfterASecondRejectedRefresh() async throws {
        let client = try life.client()
        _ = try await client.signIn()
        life.transport.respond(empty)
        life.time.advance(3600)
        #expect(await code { try await client.freshTokens() } == .invalidResponse)
        life.time.advance(10)
        #expect(await code { try await client.freshTokens() } == .loginRequired)
        let calls = life.transport.calls
        let waiting = await #expect(throws: AuthError.self) { try await client.freshTokens() }
        #expect(waiting?.code == .loginRequired)
        // No request is sent during the backoff, and the message announces no further attempt.
        #expect(waiting?.message.contains("next attempt") == false)
        #expect(waiting?.status == 400)
        #expect(life.transport.calls == calls)
        // The credential is still stored, because it is not known to be invalid.
        life.transport.respond(nil)
        life.time.advance(400)
        #expect(await code { try await client.freshTokens() } == nil)
    }

    /// Otherwise, an app would ask the user to sign in, although it receives tokens.
    @Test(.timeLimit(.minutes(1)))
    func anObserverOfAnExpiredCredentialLearnsOfARefreshInAnotherProcess() async throws {
        let store = MemoryTokenStore()
        let client = try life.client(store: store)
        let other = try life.client(store: store)
        _ = try await client.signIn()
        var states = try await client.states().makeAsyncIterator()
        _ = await states.next()
        life.transport.respond(empty)
        life.time.advance(3600)
        #expect(await code { try await client.freshTokens() } == .invalidResponse)
        life.time.advance(10)
        #expect(await code { try await client.freshTokens() } == .loginRequired)
        let expired = await states.next()
        #expect(expired == .expired)
        life.transport.respond(nil)
        let refreshed = try await other.freshTokens()
        #expect(try await client.freshTokens() == refreshed)
        let next = await states.next()
        #expect(next == .refreshed)
    }

    /// The state `expired` may also be that of a sign-in in another process. An unknown user who signs in again cannot be distinguished.
    @Test(.timeLimit(.minutes(1)))
    func anObserverOfAnExpiredCredentialOfAnotherProcessLearnsOfItsNextSignIn() async throws {
        let store = MemoryTokenStore()
        let client = try life.client(store: store, scopes: ["repo"])
        let other = try life.client(store: store, scopes: ["repo"])
        var states = try await client.states().makeAsyncIterator()
        let first = await states.next()
        #expect(first == .signedOut)
        _ = try await other.signIn()
        life.time.advance(7200)
        _ = try await client.credential()
        let expired = await states.next()
        #expect(expired == .expired)
        let tokens = try await other.signIn(.replaceAccount).credential.tokens
        life.time.advance(20)
        #expect(try await client.credential()?.tokens == tokens)
        let next = await states.next()
        #expect(next == .refreshed)
    }

    @Test func aSecondFailedRefreshOfRejectedTokensWithoutExpiryRequiresSignIn() async throws {
        life.environment.emulator.fault = .tokenResponse(.missingExpiry)
        let client = try life.client()
        _ = try await client.signIn()
        life.transport.respond(empty)
        func call() async -> AuthError.Code? {
            await code { try await client.perform { _ in throw AuthError(.accessTokenRejected, "Rejected.") } }
        }
        #expect(await call() == .invalidResponse)
        life.time.advance(10)
        #expect(await call() == .loginRequired)
    }

    /// Only a new sign-in can restore the authorization details, for example after the user has reduced the grant.
    @Test(arguments: [OIDCEmulator.RefreshPolicy.rotating(leeway: 0), .notRotated])
    func aSecondRefreshWithOtherAuthorizationDetailsRequiresSignIn(_ policy: OIDCEmulator.RefreshPolicy) async throws {
        let (requested, other): (JSON, JSON) = ([["type": "payment"]], [["type": "account"]])
        life.environment.emulator.refreshPolicy = policy
        life.environment.emulator.fault = .tokenResponse(.member("authorization_details", requested))
        let client = try life.client(settings: {
            $0.authorizationDetails = requested
            $0.requiresExactAuthorizationDetails = true
        })
        _ = try await client.signIn()
        life.environment.emulator.fault = .tokenResponse(.member("authorization_details", other))
        life.time.advance(3600)
        #expect(await code { try await client.freshTokens() } == .providerRejected)
        life.time.advance(400)
        #expect(await code { try await client.freshTokens() } == .loginRequired)
    }

    /// A missing key set does not mean that the session has ended, and a new sign-in would not help.
    @Test(arguments: [OIDCEmulator.RefreshPolicy.rotating(leeway: 0), .notRotated], [400, 401, 403, 404])
    func anUnavailableKeySetIsNotTreatedAsARejectedRefresh(
        _ policy: OIDCEmulator.RefreshPolicy,
        _ status: Int
    ) async throws {
        life.environment.emulator.refreshPolicy = policy
        let store = MemoryTokenStore()
        let first = try await life.client(store: store).signIn().credential
        // This client has not fetched the provider's keys yet.
        let client = try life.client(store: store)
        life.environment.emulator.fault = .jwks(.response { $0.head.status = .init(code: status) })
        life.time.advance(3550)
        #expect(try await client.freshTokens().accessToken == first.tokens.accessToken)
        for _ in 0..<3 {
            life.time.advance(400)
            #expect(await code { try await client.freshTokens() } == .temporarilyUnavailable)
        }
        life.environment.emulator.fault = nil
        life.time.advance(400)
        #expect(try await client.freshTokens().accessToken != first.tokens.accessToken)
    }

    /// A refresh of the main token shows whether the session has ended, unless that token is recent. This applies even if the token has not expired or has no expiry.
    @Test(
        arguments: [(400, "token_revoked"), (400, ""), (401, "")],
        [(0, true), (400, true), (3600, true), (400, false)]
    )
    func aTokenRequestForAResourceDetectsAnEndedSession(
        _ refusal: (status: Int, error: String),
        _ token: (age: TimeInterval, hasExpiry: Bool)
    ) async throws {
        let api = "https://api.example.com"
        if !token.hasExpiry { life.environment.emulator.fault = .tokenResponse(.missingExpiry) }
        let client = try life.client(settings: { $0.resources = [api] })
        let first = try await client.signIn().credential.tokens
        life.transport.respond(Self.response(refusal.status, refusal.error))
        life.time.advance(token.age)
        let code = refusal.error.isEmpty ? AuthError.Code.invalidResponse : .providerRejected
        #expect(await self.code { try await client.freshTokens(for: api) } == code)
        if token.age == 0 {
            #expect(try await client.freshTokens() == first)
            life.time.advance(400)
            #expect(await self.code { try await client.freshTokens(for: api) } == code)
        }
        life.time.advance(10)
        #expect(await self.code { try await client.freshTokens(for: api) } == .loginRequired)
    }

    private static func response(_ status: Int, _ error: String) -> TransportResponse {
        TransportResponse(
            head: HTTPResponse(status: .init(code: status), headerFields: [.contentType: "application/json"]),
            body: error.isEmpty ? [] : Array(#"{"error": "\#(error)"}"#.utf8)
        )
    }

    /// A policy for one resource affects neither the other resources nor the session.
    @Test(
        arguments: [
            (400, "interaction_required", AuthError.Code.loginRequired), (400, "access_denied", .providerRejected),
            (403, "mfa_required", .loginRequired),
            (400, "invalid_target", .providerRejected), (400, "policy_violation", .providerRejected),
            (403, "policy_violation", .providerRejected), (400, "", .invalidResponse), (401, "", .invalidResponse),
            (403, "", .invalidResponse),
        ],
        [0, 3600] as [TimeInterval]
    )
    func aResourceThatTheProviderRejectsDoesNotAffectOtherResources(
        _ refusal: (status: Int, error: String, expected: AuthError.Code),
        _ age: TimeInterval
    ) async throws {
        let (refused, other) = ("https://a.example.com", "https://b.example.com")
        let store = MemoryTokenStore()
        let client = try life.client(store: store, settings: { $0.resources = [refused, other] })
        _ = try await client.signIn()
        let requests = Mutex(0)
        life.environment.emulator.refreshPolicy = .notRotated
        life.environment.emulator.customResponse = { exchange in
            guard exchange.request.form.values(for: "resource") == [refused] else { return exchange.response }
            requests.withLock { $0 += 1 }
            return Self.response(refusal.status, refusal.error)
        }
        // Once the main access token has expired, an unexplained rejection leads to a refresh of the main token, which succeeds here.
        life.time.advance(age)
        for round in 1...3 {
            // The second caller receives the same error, without another request.
            for _ in 0..<2 { #expect(await code { try await client.freshTokens(for: refused) } == refusal.expected) }
            #expect(requests.withLock { $0 } == round)
            #expect(await code { try await client.freshTokens(for: other) } == nil)
            life.time.advance(400)
        }
        #expect(await code { try await client.freshTokens() } == nil)
    }

    /// A provider's error in the ID Token, which may be temporary, does not indicate a different user.
    @Test(arguments: [JSON.integer(42), "", .null, ["bob"]])
    func aRefreshedIDTokenWithoutAUsableSubjectDoesNotEndTheSession(_ subject: JSON) async throws {
        life.environment.emulator.refreshPolicy = .rotating(leeway: 0)
        let client = try life.client()
        _ = try await client.signIn()
        life.environment.emulator.fault = .idToken(.claims { $0["sub"] = subject })
        #expect(await code { try await client.refresh().tokens } == .invalidIDToken)
        life.environment.emulator.fault = nil
        life.time.advance(400)
        #expect(await code { try await client.refresh().tokens } == nil)
    }

    /// OIDC Core section 12.2: the audience must include that of the ID Token "issued when the original authentication occurred".
    @Test func aRefreshedIDTokenMayLackAnAudienceThatOnlyAnEarlierRefreshAdded() async throws {
        @Sendable func audience(_ added: [JSON]) -> EmulatorFault {
            .idToken(
                .claims { claims in
                    claims["azp"] = claims["aud"]
                    claims["aud"] = .array([claims["aud"] ?? .null] + added)
                }
            )
        }
        let client = try life.client(settings: { $0.trustedAudiences = ["api"] })
        life.environment.emulator.fault = audience([])
        _ = try await client.signIn()
        for added: [JSON] in [["api"], []] {
            life.environment.emulator.fault = audience(added)
            life.time.advance(3600)
            #expect(await code { try await client.freshTokens() } == nil)
        }
    }

    @Test func aNewSignInInAnotherProcessEndsTheBackoff() async throws {
        let api = "https://a.example.com"
        let store = MemoryTokenStore()
        let client = try life.client(store: store, settings: { $0.resources = [api] })
        _ = try await client.signIn()
        life.transport.respond(TransportResponse(head: HTTPResponse(status: .init(code: 503))))
        #expect(await code { try await client.freshTokens(for: api) } == .temporarilyUnavailable)
        life.transport.respond(nil)
        life.time.advance(1)
        #expect(await code { try await client.freshTokens(for: api) } == .temporarilyUnavailable)
        _ = try await life.client(store: store, settings: { $0.resources = [api] }).signIn()
        #expect(await code { try await client.freshTokens(for: api) } == nil)
    }

    /// Some providers send every error with status 500, and some send forms: the session has ended, and no later attempt would succeed.
    @Test func anErrorInAFormWithStatus500EndsTheSession() async throws {
        let client = try life.client()
        _ = try await client.signIn()
        life.time.advance(3600)
        var response = Self.response(500, "")
        response.head.headerFields[.contentType] = "application/x-www-form-urlencoded"
        response.body = Array("error=invalid_grant&error_description=The+token+is+invalid.".utf8)
        life.transport.respond(response)
        #expect(await code { try await client.freshTokens() } == .loginRequired)
        #expect(try await client.credential() == nil)
    }

    /// The parser rejects the response as a whole, but the refresh token in it has replaced the old one.
    @Test(arguments: [
        #""extra": 12345678901234567890123"#, #""extra": "\ud800""#, #""extra": 1, "extra": 2"#,
        #""scope": "x", "scope": "y""#,
    ])
    func aRefreshTokenInAnUnparsableResponseIsStored(_ members: String) async throws {
        let emulator = life.environment.emulator
        emulator.refreshPolicy = .rotating(leeway: 0)
        let client = try life.client()
        _ = try await client.signIn()
        emulator.fault = .tokenResponse(
            .response { response in
                response.body = Array("{\(members), ".utf8) + response.body.dropFirst()
            }
        )
        #expect(await code { try await client.refresh().tokens } == .invalidResponse)
        emulator.fault = nil
        life.time.advance(400)
        #expect(await code { try await client.refresh().tokens } == nil)
    }

    @Test func theRefreshTokenInAnErrorResponseIsNotStored() async throws {
        let client = try life.client()
        let credential = try await client.signIn().credential
        var response = Self.response(400, "invalid_request")
        response.body = Array(#"{"error": "invalid_request", "refresh_token": "planted"}"#.utf8)
        life.transport.respond(response)
        let error = await #expect(throws: AuthError.self) { try await client.client.refresh(credential) }
        #expect(error?.code == .providerRejected && error?.providerError?.error == "invalid_request")
    }

    /// There is nothing to store, and the old access token is still valid.
    @Test func aRejectedResponseThatRepeatsTheRefreshTokenLeavesTheCredentialUnchanged() async throws {
        let client = try life.client()
        let credential = try await client.signIn().credential
        let repeated = try #require(credential.tokens.refreshToken).exposed
        var response = Self.response(200, "")
        response.body = Array(
            #"{"access_token": "a", "token_type": "mac", "refresh_token": "\#(repeated)"}"#.utf8
        )
        life.transport.respond(response)
        let error = await #expect(throws: AuthError.self) { try await client.client.refresh(credential) }
        #expect(error?.code == .unsupported && error?.message.contains("mac") == true)
    }

    /// The rotated refresh token must be kept, but a device secret that no request could contain would make the record too large.
    @Test func aDeviceSecretThatIsTooLargeIsNotStoredWithTheNewRefreshToken() async throws {
        let client = try life.client()
        let credential = try await client.signIn().credential
        let secret = String(repeating: "x", count: 200_000)
        var response = Self.response(200, "")
        response.body = Array(
            #"{"access_token": "a", "token_type": "Bearer", "refresh_token": "new", "device_secret": "\#(secret)"}"#
                .utf8
        )
        life.transport.respond(response)
        guard case .rejected(let updated, let error) = try await client.client.refresh(credential) else {
            Issue.record("The response was not rejected.")
            return
        }
        #expect(error.code == .invalidResponse)
        #expect(updated.tokens.refreshToken == Secret("new"))
        #expect(updated.tokens.deviceSecret == nil)
    }

    /// A response for another user (for example, from a gateway's cache) that also fails an earlier check.
    @Test func theRefreshTokenOfAnotherUserIsNeverStored() async throws {
        let client = try life.client()
        _ = try await client.signIn()
        let emulator = life.environment.emulator
        emulator.fault = .idToken(
            .claims { claims in
                claims["sub"] = "bob"
                claims["iat"] = claims["iat"]?.number.map { .double($0 - 3600) }
            }
        )
        #expect(await code { try await client.refresh().tokens } == .loginRequired)
        #expect(try await client.credential() == nil)
    }

    /// One resource whose tokens are unusable does not affect the others.
    @Test(
        arguments: [OIDCEmulator.RefreshPolicy.rotating(leeway: 0), .notRotated],
        [
            (EmulatorFault.tokenResponse(.member("token_type", "mac")), AuthError.Code.unsupported),
            (.idToken(.claims { $0["aud"] = "another" }), .invalidIDToken),
        ]
    )
    func invalidTokensForOneResourceDoNotEndTheSession(
        _ policy: OIDCEmulator.RefreshPolicy,
        _ failure: (fault: EmulatorFault, code: AuthError.Code)
    ) async throws {
        let (api, other) = ("https://api.example.com", "https://b.example.com")
        let emulator = life.environment.emulator
        emulator.refreshPolicy = policy
        let client = try life.client(settings: { $0.resources = [api, other] })
        _ = try await client.signIn()
        for _ in 0..<3 {
            emulator.fault = failure.fault
            #expect(await code { try await client.freshTokens(for: api) } == failure.code)
            emulator.fault = nil
            #expect(await code { try await client.freshTokens(for: other) } == nil)
            #expect(await code { try await client.freshTokens() } == nil)
            life.time.advance(200)
        }
        life.time.advance(400)
        #expect(await code { try await client.freshTokens(for: api) } == nil)
    }

    @Test func anUnverifiableResourceTokenIsNotRequestedAgainImmediately() async throws {
        let api = "https://api.example.com"
        let store = MemoryTokenStore()
        _ = try await life.client(store: store, settings: { $0.resources = [api] }).signIn()
        let client = try life.client(store: store, settings: { $0.resources = [api] })
        life.environment.emulator.fault = .jwks(.unavailable)
        for _ in 0..<5 { #expect(await code { try await client.freshTokens(for: api) } == .temporarilyUnavailable) }
        #expect(life.refreshes == 1)
        life.environment.emulator.fault = nil
        life.time.advance(400)
        #expect(await code { try await client.freshTokens(for: api) } == nil)
    }

    /// The granted scopes might not include `openid`, although it was requested.
    @Test(arguments: [true, false])
    func aDeviceFlowRefreshNeverReturnsAnotherUsersTokens(_ isGeneric: Bool) async throws {
        let time = VirtualTime()
        try await EmulatorEnvironment.with(.inProcess, now: { time.now }) { environment in
            let emulator = environment.emulator
            emulator.fault = .tokenResponse(
                .members { members in
                    members["id_token"] = nil
                    members["scope"] = "profile"
                }
            )
            let server =
                isGeneric
                ? environment.server(host: time.host)
                : AuthorizationServer(issuer: emulator.issuer, transport: environment.transport, host: time.host)
            var registration = try EmulatorEnvironment.registration()
            registration.scopes.append("offline_access")
            let client = AuthClient(
                client: OAuthClient(server: server, registration: try ClientRegistration(registration)),
                methods: [.device(DecidingPresenter { emulator.decide($0.userCode, as: .alice) })],
                store: MemoryTokenStore()
            )
            let first = try await client.signIn().credential
            #expect(first.identity?.subject == "248289761001")
            #expect(try await client.refresh().tokens.accessToken != first.tokens.accessToken)
            emulator.customResponse = { exchange in
                guard exchange.request.path == "/userinfo" else { return exchange.response }
                return TransportResponse(
                    head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"]),
                    body: Array(#"{"sub": "bob"}"#.utf8)
                )
            }
            #expect(await code { try await client.refresh().tokens } == .loginRequired)
            // The other user's refresh token is not stored either.
            #expect(try await client.credential() == nil)
        }
    }
}
