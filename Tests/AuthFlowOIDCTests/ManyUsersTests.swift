import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// One client of one authorization server serves many users in one process.
@Suite struct ManyUsersTests {
    private let time = VirtualTime()

    private func users(_ count: Int) -> [OIDCEmulator.User] {
        (0..<count).map { .init(username: "user\($0)", password: "", claims: ["sub": .string("subject-\($0)")]) }
    }

    private func registration() throws -> ClientRegistration {
        var values = try EmulatorEnvironment.registration()
        values.scopes = ["openid", "offline_access"]
        return try ClientRegistration(values)
    }

    @Test func tenThousandUsersCostOneMetadataFetchOneKeyFetchAndOneRefreshEach() async throws {
        let count = 10_000
        let time = self.time
        let emulator = try OIDCEmulator(issuer: "https://id.example.com", users: users(count), now: { time.now })
        emulator.accessTokenLifetime = 300
        let environment = EmulatorEnvironment(emulator)
        let client = OAuthClient(server: environment.server(host: time.host), registration: try registration())
        let credentials = CredentialManager(client: client, store: MemoryTokenStore())
        try await forEach(count) { number in
            let request = try await client.authorizationRequest()
            let callback = try emulator.redirect(for: request.url, as: "user\(number)")
            let credential = try await client.exchange(callback, for: request)
            #expect(credential.identity?.subject == "subject-\(number)")
            try await credentials.save(credential, for: "session-\(number)")
        }
        #expect(emulator.requests.count { $0.contains("openid-configuration") } == 1)
        #expect(emulator.requests.count { $0 == "GET /jwks" } == 1)

        time.advance(by: .seconds(299))
        try await forEach(count) { number in
            async let first = credentials.freshTokens(for: "session-\(number)")
            async let second = credentials.freshTokens(for: "session-\(number)")
            let tokens = try await (first, second)
            #expect(tokens.0 == tokens.1)
        }
        let refreshes = emulator.receivedRequests.compactMap { $0.form["refresh_token"] }
        #expect(refreshes.count == count)
        #expect(Set(refreshes).count == count)
        #expect(emulator.requests.count { $0.contains("openid-configuration") } == 1)
        #expect(emulator.requests.count { $0 == "GET /jwks" } == 1)
    }

    /// Runs `body` for each number, up to 16 concurrently.
    private func forEach(_ count: Int, _ body: @escaping @Sendable (Int) async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<count {
                if number >= 16 { try await group.next() }
                group.addTask { try await body(number) }
            }
            try await group.waitForAll()
        }
    }

    /// Delays the refreshes that a test selects until the test releases them.
    private struct HoldingTransport: HTTPTransport {
        let base: any HTTPTransport
        let held: @Sendable (String) async -> Void
        func send(_ request: TransportRequest) async throws -> TransportResponse {
            await held(FormURLEncoding.decode(String(decoding: request.body, as: UTF8.self))?["refresh_token"] ?? "")
            return try await base.send(request)
        }
    }

    @Test func aSlowRefreshForOneUserDoesNotBlockAnother() async throws {
        let time = self.time
        let emulator = try OIDCEmulator(issuer: "https://id.example.com", users: users(2), now: { time.now })
        let (gate, open) = AsyncStream<Void>.makeStream()
        let slow = Mutex("")
        let transport = HoldingTransport(base: InProcessTransport(emulator)) { token in
            guard !token.isEmpty, token == slow.withLock({ $0 }) else { return }
            for await _ in gate {}
        }
        let server = EmulatorEnvironment(emulator).server(transport: transport, host: time.host)
        let client = OAuthClient(server: server, registration: try registration())
        let credentials = CredentialManager(client: client, store: MemoryTokenStore())
        for number in 0..<2 {
            let request = try await client.authorizationRequest()
            let callback = try emulator.redirect(for: request.url, as: "user\(number)")
            try await credentials.save(try await client.exchange(callback, for: request), for: "\(number)")
        }
        let waiting = try #require(try await credentials.credential(for: CredentialKey("0"))?.tokens.refreshToken)
        slow.withLock { $0 = waiting.exposed }
        time.advance(by: .seconds(3600))
        async let first = credentials.freshTokens(for: "0")
        let second = try await credentials.freshTokens(for: "1")
        #expect(second.expiresAt ?? .distantPast > time.now)
        open.finish()
        #expect(try await first.expiresAt ?? .distantPast > time.now)
    }

    @Test func aBusySessionIsRefreshedBeforeItsTokensExpireAndNoCallerWaits() async throws {
        let time = self.time
        let emulator = try OIDCEmulator(issuer: "https://id.example.com", users: users(20), now: { time.now })
        emulator.accessTokenLifetime = 600
        let (gate, open) = AsyncStream<Void>.makeStream()
        let holds = Mutex(false)
        let transport = HoldingTransport(base: InProcessTransport(emulator)) { token in
            guard !token.isEmpty, holds.withLock({ $0 }) else { return }
            for await _ in gate {}
        }
        let server = EmulatorEnvironment(emulator).server(transport: transport, host: time.host)
        let client = OAuthClient(server: server, registration: try registration())
        let credentials = CredentialManager(client: client, store: MemoryTokenStore(), refreshesAhead: true)
        for number in 0..<20 {
            let request = try await client.authorizationRequest()
            let callback = try emulator.redirect(for: request.url, as: "user\(number)")
            try await credentials.save(try await client.exchange(callback, for: request), for: "\(number)")
        }
        func refreshes() -> Int { emulator.receivedRequests.count { $0.form["refresh_token"] != nil } }
        // The tokens stay fresh for 540 seconds. Each session is refreshed at a random time during the last 30 seconds.
        time.advance(by: .seconds(505))
        for number in 0..<20 { _ = try await credentials.freshTokens(for: "\(number)") }
        #expect(refreshes() == 0)
        time.advance(by: .seconds(20))
        for number in 0..<20 { _ = try await credentials.freshTokens(for: "\(number)") }
        _ = await credentials.drain()
        #expect((1...19).contains(refreshes()), "\(refreshes())")
        holds.withLock { $0 = true }
        time.advance(by: .seconds(14))
        for number in 0..<20 { for _ in 0..<3 { _ = try await credentials.freshTokens(for: "\(number)") } }
        open.finish()
        _ = await credentials.drain()
        #expect(refreshes() == 20)
    }

    @Test func credentialsBeyondTheCacheLimitAreReadFromTheStore() async throws {
        let emulator = try OIDCEmulator(issuer: "https://id.example.com", users: users(50))
        let environment = EmulatorEnvironment(emulator)
        let client = OAuthClient(server: environment.server(), registration: try registration())
        let store = MemoryTokenStore()
        let credentials = CredentialManager(client: client, store: store, cacheLimit: 10)
        for number in 0..<50 {
            let request = try await client.authorizationRequest()
            let callback = try emulator.redirect(for: request.url, as: "user\(number)")
            try await credentials.save(try await client.exchange(callback, for: request), for: "\(number)")
        }
        for number in 0..<50 {
            #expect(
                try await credentials.credential(for: CredentialKey("\(number)"))?.identity?.subject
                    == "subject-\(number)"
            )
        }
    }

    @Test func aFailedDiscoveryIsNotRepeatedForEveryUser() async throws {
        let time = self.time
        let emulator = try OIDCEmulator(issuer: "https://id.example.com", now: { time.now })
        emulator.fault = .metadata(.unavailable)
        let client = OAuthClient(
            server: EmulatorEnvironment(emulator).server(host: time.host),
            registration: try registration()
        )
        for _ in 0..<100 {
            let error = await #expect(throws: AuthError.self) { try await client.authorizationRequest() }
            #expect(error?.code == .temporarilyUnavailable)
        }
        #expect(emulator.requests.count == 1)
        emulator.fault = nil
        time.advance(by: .seconds(1))
        _ = try await client.authorizationRequest()
        #expect(emulator.requests.count == 2)
    }

    @Test func staleMetadataIsUsedForALimitedTimeWhileFetchesFail() async throws {
        let time = self.time
        let emulator = try OIDCEmulator(issuer: "https://id.example.com", now: { time.now })
        let server = EmulatorEnvironment(emulator).server(host: time.host)
        _ = try await server.metadata()
        emulator.fault = .metadata(.unavailable)
        time.advance(by: .seconds(7200))
        _ = try await server.metadata()
        #expect(emulator.requests.count == 2)
        time.advance(by: .seconds(86_400))
        await expectError(.temporarilyUnavailable) { try await server.metadata() }
    }

    @Test func tokensOfAGivenAccountAreRefreshedUntilItIsSignedOut() async throws {
        let time = self.time
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", now: { time.now }))
        var registration = try EmulatorEnvironment.registration()
        registration.scopes.append("offline_access")
        let store = MemoryTokenStore()
        let bob = try environment.client(registration: registration, user: .bob, store: store, host: time.host)
        let bobs = try await bob.signIn().credential
        let client = try environment.client(registration: registration, store: store, host: time.host)
        let alices = try await client.signIn(.addAccount).credential
        let subject = try #require(bobs.identity?.subject)
        #expect(try await client.freshTokens() == alices.tokens)
        #expect(try await client.freshTokens(account: subject) == bobs.tokens)
        time.advance(by: .seconds(3600))
        let refreshed = try await client.freshTokens(account: subject)
        #expect(refreshed.refreshToken != bobs.tokens.refreshToken)
        #expect(try await client.freshTokens(account: subject) == refreshed)
        #expect(try await client.freshTokens().refreshToken != alices.tokens.refreshToken)
        try await client.selectAccount(subject)
        #expect(try await client.freshTokens() == refreshed)
        _ = try await client.signOut()
        let gone = await #expect(throws: AuthError.self) { try await client.freshTokens(account: subject) }
        #expect(gone?.code == .loginRequired)
        #expect(try await client.credential(account: alices.identity?.subject) != nil)
    }

    /// A store that loses a lease during a refresh, because another process has taken over the lease.
    private actor LosingStore: ForwardingStore {
        let base = MemoryTokenStore()
        private var takeover: (@Sendable ([UInt8]) -> [UInt8]?)?
        private var lost: Lease?

        func loseLease(_ takeover: (@Sendable ([UInt8]) -> [UInt8]?)?) { self.takeover = takeover }

        func write(_ bytes: [UInt8]?, under lease: Lease) async throws {
            if lease == lost { throw Lease.lost }
            if let takeover, let stored = await base.bytes(for: lease.key) {
                (self.takeover, lost) = (nil, lease)
                try await base.write(takeover(stored), under: lease)
                throw Lease.lost
            }
            try await base.write(bytes, under: lease)
        }
    }

    private func losing() async throws -> (OIDCEmulator, AuthClient, LosingStore, RecordKey, Credential) {
        let time = self.time
        let environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", now: { time.now }))
        var registration = try EmulatorEnvironment.registration()
        registration.scopes = ["openid", "offline_access"]
        let store = LosingStore()
        let client = try environment.client(registration: registration, store: store, host: time.host)
        let credential = try await client.signIn().credential
        time.advance(by: .seconds(3600))
        let key = RecordKey(name: "default", issuer: "https://id.example.com", clientID: "authflow-demo")
        return (environment.emulator, client, store, key, credential)
    }

    @Test func tokensRefreshedUnderALostLeaseAreStoredUnderTheNextLease() async throws {
        let (_, client, store, key, old) = try await losing()
        await store.loseLease { $0 }
        let tokens = try await client.freshTokens()
        #expect(tokens.refreshToken != old.tokens.refreshToken)
        let stored = String(decoding: try #require(await store.base.bytes(for: key)), as: UTF8.self)
        #expect(stored.contains(tokens.refreshToken?.exposed ?? "none"))
    }

    /// The stored record after another lease holder has refreshed: a fresh access token and a new refresh token.
    private func refreshed(_ old: Credential) -> @Sendable ([UInt8]) -> [UInt8]? {
        let (used, access) = (old.tokens.refreshToken?.exposed ?? "", old.tokens.accessToken.exposed)
        let later = time.now.timeIntervalSince1970 + 600
        return { stored in
            let text = String(decoding: stored, as: UTF8.self).replacing(used, with: "refreshed-by-another")
                .replacing(access, with: "good-token")
            var document = (try? JSON(parsing: Array(text.utf8)))?.object ?? [:]
            var account = document["accounts"]?.array?.first?.object ?? [:]
            account["expires_at"] = .double(later)
            account["obtained_at"] = .double(later - 600)
            document["accounts"] = .array([.object(account)])
            return (try? JSON.object(document).serialized()) ?? []
        }
    }

    @Test func tokensRefreshedUnderALostLeaseDoNotOverwriteAnotherHoldersRefresh() async throws {
        let (_, client, store, key, old) = try await losing()
        await store.loseLease(refreshed(old))
        #expect(try await client.freshTokens().accessToken == Secret("good-token"))
        let stored = String(decoding: try #require(await store.base.bytes(for: key)), as: UTF8.self)
        #expect(stored.contains("refreshed-by-another"))
    }

    /// The other process has revoked the tokens that it found in the store, so the user is signed out.
    @Test func tokensRefreshedUnderALostLeaseAreRevokedAfterASignOutInAnotherProcess() async throws {
        let (emulator, client, store, _, old) = try await losing()
        await store.loseLease { _ in nil }
        await expectError(.loginRequired) { try await client.freshTokens() }
        #expect(await client.drain())
        let revoked = emulator.receivedRequests.filter { $0.path == "/revoke" }.compactMap { $0.form["token"] }
        #expect(revoked.count == 2 && !revoked.contains(old.tokens.refreshToken?.exposed ?? ""))
    }

    @Test func invalidGrantUnderALostLeaseDoesNotEndTheSession() async throws {
        let (emulator, client, store, key, old) = try await losing()
        emulator.endSessions()
        await store.loseLease(refreshed(old))
        #expect(try await client.freshTokens().accessToken == Secret("good-token"))
        let stored = String(decoding: try #require(await store.base.bytes(for: key)), as: UTF8.self)
        #expect(!stored.contains("ended"))
    }

    // MARK: States

    @Test func publishesEachStateChangeOfACredential() async throws {
        let time = self.time
        let emulator = try OIDCEmulator(issuer: "https://id.example.com", users: users(1), now: { time.now })
        let client = OAuthClient(
            server: EmulatorEnvironment(emulator).server(host: time.host),
            registration: try registration()
        )
        let credentials = CredentialManager(client: client, store: MemoryTokenStore())
        var states = try await credentials.states(of: CredentialKey("s")).makeAsyncIterator()
        #expect(await states.next() == .signedOut)
        let request = try await client.authorizationRequest()
        let credential = try await client.exchange(try emulator.redirect(for: request.url, as: "user0"), for: request)
        try await credentials.save(credential, for: "s")
        #expect(await states.next() == .signedIn(credential.identity))
        time.advance(by: .seconds(3600))
        _ = try await credentials.freshTokens(for: "s")
        #expect(await states.next() == .refreshed)
        emulator.endSessions()
        time.advance(by: .seconds(3600))
        await expectError(.loginRequired) { try await credentials.freshTokens(for: "s") }
        guard case .ended(let session) = await states.next() else {
            Issue.record("The end of the session was not published.")
            return
        }
        #expect(session.reason.contains("invalid_grant"))
        try await credentials.remove(CredentialKey("s"))
        #expect(await states.next() == .signedOut)
    }

    // MARK: Removals

    /// A store whose removals wait until a test releases them.
    private final class SlowRemovalStore: ForwardingSessionStore {
        let base = MemoryTokenStore()
        private let arrived = AsyncStream<Void>.makeStream()
        private let released = AsyncStream<Void>.makeStream()

        func arrival() async { for await _ in arrived.stream { break } }
        func release() { released.continuation.finish() }

        func remove(_ keys: [RecordKey]) async throws -> [TaggedRecord] {
            arrived.continuation.yield()
            for await _ in released.stream {}
            return await base.remove(keys)
        }
        func observeRemovals(_ observer: @escaping @Sendable (_ digest: [UInt8]?) -> Void) {}
    }

    /// A user who signs out and closes the page is signed out, although other requests used the session in the meantime.
    @Test func tokensThatWereCachedDuringACancelledRemovalAreNotReturnedAfterIt() async throws {
        let time = self.time
        let emulator = try OIDCEmulator(issuer: "https://id.example.com", users: users(1), now: { time.now })
        let client = OAuthClient(
            server: EmulatorEnvironment(emulator).server(host: time.host),
            registration: try registration()
        )
        let store = SlowRemovalStore()
        let credentials = CredentialManager(client: client, store: store)
        let request = try await client.authorizationRequest()
        let callback = try emulator.redirect(for: request.url, as: "user0")
        try await credentials.save(try await client.exchange(callback, for: request), for: "s")
        let key = credentials.recordKey(for: CredentialKey("s"))
        let removal = Task { _ = try await credentials.remove([key]) }
        await store.arrival()
        removal.cancel()
        await #expect(throws: CancellationError.self) { try await removal.value }
        _ = try await credentials.freshTokens(for: "s")
        store.release()
        #expect(await credentials.drain())
        await expectError(.loginRequired) { try await credentials.freshTokens(for: "s") }
    }
}
