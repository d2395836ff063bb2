import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Expectations
import Foundation
import Synchronization
import Testing

@testable import AuthFlowCredentials

/// Each user's credentials, refresh failures and states are independent of other users'.
@Suite struct SeparateUsersTests {
    private let time = VirtualTime()
    private let emulator: OIDCEmulator
    private let environment: EmulatorEnvironment

    init() throws {
        let time = time
        let users = (0..<30).map {
            OIDCEmulator.User(username: "user\($0)", password: "", claims: ["sub": .string("subject-\($0)")])
        }
        emulator = try OIDCEmulator(issuer: "https://id.example.com", users: [.alice, .bob] + users, now: { time.now })
        environment = EmulatorEnvironment(emulator)
    }

    private func client(
        transport: (any HTTPTransport)? = nil,
        _ change: (inout ClientRegistration.Values) -> Void = { _ in }
    ) throws -> OAuthClient {
        var values = try EmulatorEnvironment.registration()
        values.scopes = ["openid", "offline_access"]
        change(&values)
        return OAuthClient(
            server: environment.server(transport: transport, host: time.host),
            registration: try ClientRegistration(values)
        )
    }

    private func signIn(_ user: Int, _ client: OAuthClient) async throws -> Credential {
        let request = try await client.authorizationRequest()
        return try await client.exchange(try emulator.redirect(for: request.url, as: "user\(user)"), for: request)
    }

    /// Signs Bob in, and then Alice, whose account becomes the current account.
    private func aliceAndBob(_ store: MemoryTokenStore = MemoryTokenStore()) async throws -> (AuthClient, bob: String) {
        var registration = try EmulatorEnvironment.registration()
        registration.scopes.append("offline_access")
        let bob = try environment.client(registration: registration, user: .bob, store: store, host: time.host)
        let subject = try #require(try await bob.signIn().credential.identity?.subject)
        let alice = try environment.client(registration: registration, store: store, host: time.host)
        _ = try await alice.signIn(.addAccount)
        return (alice, subject)
    }

    @Test func sessionKeysThatDifferOnlyInUnicodeNormalizationAreDistinct() async throws {
        let client = try client()
        let credentials = CredentialManager(client: client, store: MemoryTokenStore())
        try await credentials.save(try await signIn(0, client), for: "jos\u{E9}")
        let other = await #expect(throws: AuthError.self) { try await credentials.freshTokens(for: "jose\u{301}") }
        #expect(other?.code == .loginRequired)
        try await credentials.remove(CredentialKey("jose\u{301}"))
        #expect(try await credentials.credential(for: CredentialKey("jos\u{E9}"))?.identity?.subject == "subject-0")
    }

    @Test func statesDoNotReportTheEndOfAnotherAccountsSession() async throws {
        let (client, bob) = try await aliceAndBob()
        var states = try await client.states().makeAsyncIterator()
        guard case .signedIn(let alice)? = await states.next() else { return #expect(Bool(false)) }
        emulator.endSessions()
        time.advance(by: .seconds(3600))
        await expectError(.loginRequired) { try await client.freshTokens(account: bob) }
        await expectError(.loginRequired) { try await client.freshTokens() }
        guard case .ended(let session)? = await states.next() else { return #expect(Bool(false)) }
        #expect(session.identity?.subject == alice?.subject && alice?.subject != bob)
    }

    @Test func statesReportTheNewCurrentAccountAfterASignOut() async throws {
        let (client, bob) = try await aliceAndBob()
        var states = try await client.states().makeAsyncIterator()
        _ = await states.next()
        _ = try await client.signOut()
        guard case .signedIn(let identity)? = await states.next() else { return #expect(Bool(false)) }
        #expect(identity?.subject == bob)
    }

    @Test func statesReportTheNewCurrentAccountAfterItsSelection() async throws {
        let (client, bob) = try await aliceAndBob()
        var states = try await client.states().makeAsyncIterator()
        _ = await states.next()
        try await client.selectAccount(bob)
        // Without the selection, this state would be the next one.
        _ = try await client.signOut()
        guard case .signedIn(let identity)? = await states.next() else { return #expect(Bool(false)) }
        #expect(identity?.subject == bob)
    }

    @Test func statesReportTheChangesOfAnotherProcess() async throws {
        let store = MemoryTokenStore()
        let (client, bob) = try await aliceAndBob(store)
        let registration = try EmulatorEnvironment.registration()
        let other = try environment.client(registration: registration, store: store, host: time.host)
        var states = try await client.states().makeAsyncIterator()
        guard case .signedIn(let alice)? = await states.next() else { return #expect(Bool(false)) }
        try await other.selectAccount(bob)
        time.advance(by: .seconds(11))
        _ = try await client.freshTokens()
        guard case .signedIn(let identity)? = await states.next() else { return #expect(Bool(false)) }
        #expect(identity?.subject == bob && alice?.subject != bob)
        _ = try await other.signOutLocally()
        time.advance(by: .seconds(11))
        await expectError(.loginRequired) { try await client.freshTokens() }
        #expect(await states.next() == .signedOut)
        _ = try await other.signIn()
        _ = try await client.freshTokens()
        guard case .signedIn(let returned)? = await states.next() else { return #expect(Bool(false)) }
        #expect(returned?.subject == alice?.subject)
    }

    @Test func aFailedRefreshOfOneAccountDoesNotBlockAnotherAccount() async throws {
        let (client, bob) = try await aliceAndBob()
        time.advance(by: .seconds(3600))
        emulator.fault = .idToken(.wrongIssuer)
        await expectError(.invalidIDToken) { try await client.freshTokens(account: bob) }
        emulator.fault = nil
        _ = try await client.freshTokens()
    }

    @Test func sessionsWithFailedRefreshesAreEvictedFromTheCacheAfterTheBackoff() async throws {
        let client = try client()
        let credentials = CredentialManager(client: client, store: MemoryTokenStore(), cacheLimit: 6)
        for user in 0..<30 { try await credentials.save(try await signIn(user, client), for: "\(user)") }
        #expect(credentials.cachedCount <= 6)
        time.advance(by: .seconds(3600))
        emulator.fault = .tokenResponse(.notJSON)
        for user in 0..<30 {
            await expectError(.invalidResponse) { try await credentials.freshTokens(for: "\(user)") }
        }
        // The sessions stay in memory while their backoff applies, so that failed requests are not repeated.
        #expect(credentials.cachedCount == 30)
        time.advance(by: .seconds(3600))
        for user in 0..<6 { _ = try await credentials.credential(for: CredentialKey("\(user)")) }
        #expect(credentials.cachedCount <= 6)
    }

    // MARK: No tokens are lost, and no checks are weakened

    private struct Unreachable: Error {}

    /// Calls a function before the key set is fetched.
    private final class KeysTransport: HTTPTransport {
        typealias Hook = @Sendable () async throws -> Void
        private let base: any HTTPTransport
        private let hook = Mutex<Hook>({})

        init(_ base: any HTTPTransport) { self.base = base }
        func onKeys(_ new: @escaping Hook) { hook.withLock { $0 = new } }
        func send(_ call: TransportRequest) async throws -> TransportResponse {
            if call.head.path == "/jwks" { try await hook.withLock { $0 }() }
            return try await base.send(call)
        }
    }

    /// A client with an expired credential, which must fetch keys to validate the refreshed ID Token.
    private func expired() async throws -> (OAuthClient, Credential, KeysTransport) {
        let transport = KeysTransport(environment.transport)
        let client = try client(transport: transport)
        let credential = try await signIn(0, client)
        time.advance(by: .seconds(3600))
        try emulator.rotateKeys()
        return (client, credential, transport)
    }

    @Test func aRotatedRefreshTokenIsKeptWhenTheTransportThrowsACustomError() async throws {
        let (client, credential, transport) = try await expired()
        transport.onKeys { throw Unreachable() }
        guard case .unchecked(let kept, let error) = try await client.refresh(credential) else {
            return #expect(Bool(false))
        }
        #expect(error.code == .networkFailed && error.underlyingError is Unreachable)
        #expect(kept.tokens.refreshToken != credential.tokens.refreshToken)
        transport.onKeys {}
        time.advance(by: .seconds(60))
        _ = try await client.refresh(kept).get()
    }

    @Test func aRotatedRefreshTokenIsKeptWhenTheCallerIsCancelled() async throws {
        let (client, credential, transport) = try await expired()
        let (arrivals, arrival) = AsyncStream<Void>.makeStream()
        let (releases, release) = AsyncStream<Void>.makeStream()
        transport.onKeys {
            arrival.yield()
            for await _ in releases { break }
        }
        let refresh = Task { try await client.refresh(credential) }
        for await _ in arrivals { break }
        refresh.cancel()
        guard case .unchecked(let kept, _) = try await refresh.value else { return #expect(Bool(false)) }
        release.finish()
        #expect(kept.tokens.refreshToken != credential.tokens.refreshToken)
        transport.onKeys {}
        time.advance(by: .seconds(60))
        _ = try await client.refresh(kept).get()
    }

    @Test func refreshedTokensAreReportedAsUncheckedIfTheJWKSIsUnavailable() async throws {
        let (client, credential, _) = try await expired()
        emulator.fault = .jwks(.unavailable)
        guard case .unchecked = try await client.refresh(credential) else { return #expect(Bool(false)) }
    }

    @Test func aScopeOfTheTokenRequestDoesNotMakeTheIDTokenOptional() async throws {
        var parameters = FormParameters()
        parameters.append("scope", "api")
        let client = try client { $0.parameters[.token] = parameters }
        emulator.fault = .tokenResponse(.missingIDToken)
        let error = await #expect(throws: AuthError.self) { try await signIn(0, client) }
        #expect(error?.code == .invalidIDToken)
    }

    @Test func signsInWithSeparateDeviceAuthorizationAndTokenCalls() async throws {
        let client = try client()
        let authorization = try await client.deviceAuthorization()
        emulator.decide(authorization.userCode, as: .alice)
        let credential = try await client.deviceCredential(for: authorization)
        #expect(credential.identity?.subject == "248289761001")
    }
}
