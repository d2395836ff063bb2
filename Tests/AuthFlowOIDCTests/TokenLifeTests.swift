import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import ConformanceRows
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// A wall clock that tests set.
final class TestTime: Sendable {
    private let time = Mutex(Date(timeIntervalSince1970: 1_800_000_000))
    private let error = Mutex(TimeInterval(0))
    var now: Date { time.withLock { $0 } }
    /// The services of this machine, whose clock may be wrong.
    var host: HostServices { HostServices(now: { self.now + self.error.withLock { $0 } }) }
    func setError(_ seconds: TimeInterval) { error.withLock { $0 = seconds } }
    func advance(_ seconds: TimeInterval) { time.withLock { $0 += seconds } }
}

/// A transport that can be taken down, or told to return another response.
final class FlakyTransport: HTTPTransport {
    private let base: any HTTPTransport
    private let state = Mutex<(response: TransportResponse?, isDown: Bool, calls: Int)>((nil, false, 0))

    init(_ base: any HTTPTransport) { self.base = base }

    var calls: Int { state.withLock { $0.calls } }
    func takeDown(_ isDown: Bool = true) { state.withLock { $0.isDown = isDown } }
    func answer(_ response: TransportResponse?) { state.withLock { $0.response = response } }

    func send(_ call: TransportRequest) async throws -> TransportResponse {
        let (response, isDown) = state.withLock { state in
            if call.head.path == "/token" { state.calls += 1 }
            return (call.head.path == "/token" ? state.response : nil, state.isDown)
        }
        if isDown { throw AuthError(.networkFailed, "The network is down.") }
        if let response { return response }
        return try await base.send(call)
    }
}

/// A store whose writes can be made to fail.
final class FailingStore: TokenStore {
    private let base = MemoryTokenStore()
    private let isBroken = Mutex(false)

    func fail(_ isBroken: Bool) { self.isBroken.withLock { $0 = isBroken } }
    func bytes(for key: RecordKey) async throws -> [UInt8]? { await base.bytes(for: key) }
    func write(_ bytes: [UInt8]?, under lease: Lease) async throws {
        if isBroken.withLock({ $0 }) { throw AuthError(.storageFailed, "No space is left.") }
        try await base.write(bytes, under: lease)
    }
    func withLease<Return: Sendable>(
        on key: RecordKey,
        _ body: (Lease) async throws -> Return
    ) async throws -> Return {
        try await base.withLease(on: key, body)
    }
}

/// Keeping tokens fresh.
@Suite struct TokenLifeTests {
    private let time: TestTime
    private let scene: EmulatorScene
    private let transport: FlakyTransport

    init() throws {
        let time = TestTime()
        self.time = time
        self.scene = EmulatorScene(try OIDCEmulator(issuer: "https://id.example.com", now: { time.now }))
        self.transport = FlakyTransport(scene.transport)
    }

    private func client(
        store: any TokenStore = MemoryTokenStore(),
        scopes: [String] = ["openid", "profile", "offline_access"],
        user: OIDCEmulator.User = .alice,
        account: String? = nil,
        apiOrigins: [Endpoint] = [],
        observer: @escaping @Sendable (FlowEvent) -> Void = { _ in },
        settings change: (inout ClientRegistration.Values) throws -> Void = { _ in }
    ) throws -> AuthClient {
        var settings = try EmulatorScene.registration()
        settings.scopes = scopes
        try change(&settings)
        var options = AuthClient.Options.named(account: account)
        options.apiOrigins = apiOrigins
        return try scene.client(
            registration: settings,
            user: user,
            store: store,
            options: options,
            transport: transport,
            host: time.host,
            observer: observer
        )
    }

    private var refreshes: Int {
        scene.emulator.receivedRequests.count { $0.path == "/token" && $0.form["grant_type"] == "refresh_token" }
    }

    // MARK: Fresh

    @Test func returnsFreshTokensAndRefreshesOthers() async throws {
        let client = try client()
        let first = try await client.signIn().credential.tokens
        #expect(try await client.freshTokens() == first)
        time.advance(3539)
        #expect(try await client.freshTokens() == first)
        #expect(refreshes == 0)
        time.advance(1)
        let second = try await client.freshTokens()
        #expect(second.accessToken != first.accessToken)
        #expect(second.refreshToken != first.refreshToken)
        #expect(try await client.freshTokens() == second)
        #expect(refreshes == 1)
        #expect(try await client.credential()?.tokens == second)
        #expect(try await client.credential()?.obtainedAt == time.now)
    }

    @Test func keepsTheRefreshTokenWhenTheResponseHasNone() async throws {
        scene.emulator.refreshPolicy = .lasting
        let client = try client()
        let first = try await client.signIn().credential.tokens
        for _ in 0..<3 {
            time.advance(3600)
            #expect(try await client.freshTokens().refreshToken == first.refreshToken)
        }
        #expect(refreshes == 3)
    }

    @Test func requiresASignInWithoutUsableTokens() async throws {
        let client = try client()
        let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
        #expect(error?.code == .loginRequired)
        let brief = try self.client(scopes: ["openid"])
        _ = try await brief.signIn()
        // Within the margin the token is used as long as it lasts; there is no other.
        time.advance(3590)
        _ = try await brief.freshTokens()
        time.advance(10)
        let ended = await #expect(throws: AuthError.self) { try await brief.freshTokens() }
        #expect(ended?.code == .loginRequired)
        #expect(ended?.message.contains("offline_access") == true)
        #expect(refreshes == 0)
    }

    @Test func usesTokensWithoutAnExpiryUntilTheyAreRefused() async throws {
        // Row 105.
        scene.emulator.fault = .tokenResponse(.missingExpiry)
        let client = try client()
        let first = try await client.signIn().credential.tokens
        time.advance(1_000_000)
        #expect(try await client.freshTokens() == first)
        #expect(refreshes == 0)
        let second = try await client.perform { tokens in
            guard tokens.accessToken != first.accessToken else { throw AuthError(.accessTokenRejected, "Old.") }
            return tokens
        }
        #expect(second.accessToken != first.accessToken)
        #expect(refreshes == 1)
        // One retry, not more.
        let tries = Mutex(0)
        await #expect(throws: AuthError.self) {
            try await client.perform { _ in
                tries.withLock { $0 += 1 }
                throw AuthError(.accessTokenRejected, "Never.")
            }
        }
        #expect(tries.withLock { $0 } == 2)
    }

    @Test func refreshesWhenTheClockWasSetBack() async throws {
        // Tokens obtained while the clock was ahead would seem to last longer than they do.
        let client = try client()
        time.setError(400)
        let first = try await client.signIn().credential.tokens
        time.setError(0)
        let second = try await client.freshTokens()
        #expect(second.accessToken != first.accessToken)
        #expect(try await client.freshTokens() == second)
    }

    @Test func refreshesWhenTheCallerNeedsALongerLifetime() async throws {
        let client = try client()
        let first = try await client.signIn().credential
        #expect(try await client.freshCredential(lasting: .seconds(3600)) == first)
        time.advance(2699)
        #expect(try await client.freshCredential(lasting: .seconds(900)) == first)
        // At most three quarters of a token's lifetime are required: more would refresh it at every call.
        #expect(try await client.freshCredential(lasting: .seconds(3000)) == first)
        time.advance(1)
        #expect(try await client.freshCredential(lasting: .seconds(899)) == first)
        #expect(try await client.freshCredential(lasting: .seconds(901)) != first)
        #expect(refreshes == 1)
    }

    // MARK: One at a time

    @Test func refreshesOnceForAThousandTasksAndSeveralClients() async throws {
        let store = MemoryTokenStore()
        _ = try await client(store: store).signIn()
        time.advance(3600)
        // Each client stands for a process: they share the store and nothing else.
        let clients = try (0..<4).map { _ in try client(store: store) }
        let tokens = try await withThrowingTaskGroup(of: TokenSet.self) { group in
            for number in 0..<1000 { group.addTask { try await clients[number % clients.count].freshTokens() } }
            return try await group.reduce(into: Set<Secret>()) { $0.insert($1.accessToken) }
        }
        #expect(tokens.count == 1)
        #expect(refreshes == 1)
        time.advance(3600)
        _ = try await clients[0].freshTokens()
        #expect(refreshes == 2)
    }

    @Test func usesTheTokensThatAnotherProcessHasRefreshed() async throws {
        let store = MemoryTokenStore()
        let (one, other) = (try client(store: store), try client(store: store))
        _ = try await one.signIn()
        _ = try await other.freshTokens()
        time.advance(3600)
        let refreshed = try await one.freshTokens()
        // The other still has the old ones cached; its refresh token has been used up.
        #expect(try await other.freshTokens() == refreshed)
        #expect(refreshes == 1)
    }

    @Test func cancellingOneCallerLeavesTheSharedRefreshRunning() async throws {
        let store = MemoryTokenStore()
        let client = try client(store: store)
        _ = try await client.signIn()
        time.advance(3600)
        let key = RecordKey(name: "default", issuer: "https://id.example.com", clientID: "authflow-demo")
        // Another task has locked the store, so that the refresh has to wait.
        let (held, holding) = AsyncStream<Void>.makeStream()
        let (release, releasing) = AsyncStream<Void>.makeStream()
        let holder = Task {
            try await store.withLease(on: key) { _ in
                holding.finish()
                for await _ in release {}
            }
        }
        for await _ in held {}
        let first = Task { try await client.freshTokens() }
        let second = Task { try await client.freshTokens() }
        await Task.yield()
        first.cancel()
        await #expect(throws: CancellationError.self) { try await first.value }
        releasing.finish()
        try await holder.value
        _ = try await second.value
        #expect(refreshes == 1)
    }

    // MARK: The end of a session

    @Test func invalidGrantEndsTheSessionOnce() async throws {
        let store = MemoryTokenStore()
        let ends = Mutex(0)
        let client = try client(store: store) { event in
            if event.step == .sessionEnd { ends.withLock { $0 += 1 } }
        }
        _ = try await client.signIn()
        scene.emulator.endSessions()
        time.advance(3600)
        for _ in 0..<5 {
            let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
            #expect(error?.code == .loginRequired)
            #expect(error?.message.contains("refresh token is invalid") == true)
        }
        #expect(refreshes == 1)
        #expect(ends.withLock { $0 } == 1)
        #expect(try await client.credential() == nil)
        // Another process is told why, and sends no request.
        let other = try self.client(store: store)
        let error = await #expect(throws: AuthError.self) { try await other.requiredCredential() }
        #expect(error?.message.contains("ended by the provider") == true)
        await #expect(throws: AuthError.self) { try await other.freshTokens() }
        #expect(refreshes == 1)
        // The same user can sign in again.
        _ = try await client.signIn()
        _ = try await client.freshTokens()
    }

    // MARK: Storms

    @Test func backsOffWhileTheNetworkIsDown() async throws {
        let client = try client()
        let first = try await client.signIn().credential.tokens
        transport.takeDown()
        time.advance(3545)
        // No longer fresh, but still valid: better than an error.
        #expect(try await client.freshTokens() == first)
        time.advance(60)
        let before = transport.calls
        for _ in 0..<600 {
            let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
            #expect(error?.code == .networkFailed)
            time.advance(1)
        }
        #expect((1...8).contains(transport.calls - before), "\(transport.calls - before) in ten minutes")
        #expect(try await client.credential()?.tokens == first)
        transport.takeDown(false)
        time.advance(400)
        #expect(try await client.freshTokens().accessToken != first.accessToken)
    }

    @Test(arguments: ["120", "Fri, 15 Jan 2027 09:02:00 GMT"]) func waitsAsLongAsRetryAfterDemands(_ wait: String)
        async throws
    {
        let client = try client()
        _ = try await client.signIn()
        time.advance(3600)
        var response = TransportResponse(head: HTTPResponse(status: .tooManyRequests))
        response.head.headerFields[HTTPField.Name("retry-after") ?? .retryAfter] = wait
        transport.answer(response)
        let calls = transport.calls
        let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
        #expect(error?.code == .temporarilyUnavailable)
        #expect(error?.retryAfter == .seconds(120))
        transport.answer(nil)
        time.advance(119)
        let later = await #expect(throws: AuthError.self) { try await client.freshTokens() }
        #expect(later?.code == .temporarilyUnavailable)
        #expect(transport.calls == calls + 1)
        time.advance(2)
        _ = try await client.freshTokens()
        #expect(transport.calls == calls + 2)
    }

    @Test func keepsTheSessionWhenTheProviderReturnsInvalidClient() async throws {
        let client = try client()
        let first = try await client.signIn().credential
        time.advance(3600)
        transport.answer(
            TransportResponse(
                head: HTTPResponse(status: .unauthorized),
                body: Array(#"{"error":"invalid_client"}"#.utf8)
            )
        )
        let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
        #expect(error?.providerError?.error == "invalid_client")
        #expect(try await client.credential() == first)
    }

    // MARK: Storing

    @Test func returnsTokensThatCouldNotBeStoredAndStoresThemLater() async throws {
        let store = FailingStore()
        let warned = Mutex(0)
        let client = try client(store: store) { event in
            if event.step == .storing, event.progress == .failed(.storageFailed) { warned.withLock { $0 += 1 } }
        }
        let first = try await client.signIn().credential.tokens
        store.fail(true)
        time.advance(3600)
        let second = try await client.freshTokens()
        #expect(second.accessToken != first.accessToken)
        #expect(warned.withLock { $0 } == 1)
        #expect(try await client.credential()?.tokens == second)
        #expect(try await self.client(store: store).credential()?.tokens == first)
        // The refresh token in the store has been used up; the next refresh uses the unsaved one.
        store.fail(false)
        time.advance(3600)
        let third = try await client.freshTokens()
        #expect(third.accessToken != second.accessToken)
        #expect(try await client.credential()?.tokens == third)
    }

    @Test func refreshesAfterASignInThatCouldNotBeStored() async throws {
        let store = FailingStore()
        let client = try client(store: store)
        store.fail(true)
        let signIn = try await client.signIn()
        #expect(signIn.storageError?.code == .storageFailed)
        #expect(try await client.freshTokens() == signIn.credential.tokens)
        time.advance(3600)
        store.fail(false)
        let second = try await client.freshTokens()
        #expect(second.accessToken != signIn.credential.tokens.accessToken)
        #expect(try await client.credential()?.tokens == second)
    }

    // MARK: Accounts

    @Test func keepsAccountsApart() async throws {
        let store = MemoryTokenStore()
        let alice = try client(store: store)
        _ = try await alice.signIn()
        let bob = try client(store: store, user: .bob)
        let error = await #expect(throws: AuthError.self) { try await bob.signIn() }
        #expect(error?.code == .accountMismatch)
        #expect(try await alice.accounts().map(\.displayName) == ["Alice Example"])

        _ = try await bob.signIn(.addAccount)
        #expect(try await alice.accounts().map(\.displayName) == ["Bob Example", "Alice Example"])
        #expect(try await bob.freshTokens() == bob.credential()?.tokens)
        try await bob.selectAccount("248289761001")
        #expect(try await client(store: store).credential()?.identity?.displayName == "Alice Example")
        await #expect(throws: AuthError.self) { try await bob.selectAccount("nobody") }

        // A client for one account ignores the others.
        let own = try client(store: store, account: "248289761002")
        #expect(try await own.credential()?.identity?.displayName == "Bob Example")
        time.advance(3600)
        let refreshed = try await own.freshTokens()
        #expect(try await own.credential()?.tokens == refreshed)
        #expect(try await alice.credential()?.identity?.displayName == "Alice Example")
        let stranger = try client(store: store, account: "1")
        let missing = await #expect(throws: AuthError.self) { try await stranger.freshTokens() }
        #expect(missing?.message.contains("\"1\" is not signed in") == true)

        _ = try await own.signOut()
        #expect(try await alice.accounts().map(\.displayName) == ["Alice Example"])
        _ = try await bob.signIn(.replaceAccount)
        #expect(try await bob.accounts().map(\.displayName) == ["Bob Example"])
    }

    // MARK: Calling an API

    @Test func sendsTheTokenOnlyToConfiguredAPIOrigins() async throws {
        let client = try client(apiOrigins: [Endpoint("https://id.example.com")])
        _ = try await client.signIn()
        let call = TransportRequest(.get, Endpoint("https://id.example.com/userinfo"))
        #expect(try await client.send(call).status == 200)
        let elsewhere = TransportRequest(.get, Endpoint("https://id.example.com.evil.example.com/userinfo"))
        let refused = await #expect(throws: AuthError.self) { try await client.send(elsewhere) }
        #expect(refused?.code == .invalidConfiguration)
        var own = call
        own.head.headerFields[.authorization] = "Basic x"
        let twice = own
        await #expect(throws: AuthError.self) { try await client.send(twice) }
    }

    @Test func refreshesOnceWhenAnAPIRefusesTheToken() async throws {
        let client = try client(apiOrigins: [Endpoint("https://id.example.com")])
        let first = try await client.signIn().credential.tokens
        // Revoked at the provider, without this client's knowledge.
        _ = try await scene.transport.send(
            TransportRequest(
                .post,
                Endpoint("https://id.example.com/revoke"),
                headerFields: [.contentType: "application/x-www-form-urlencoded"],
                body: Array("client_id=authflow-demo&token=\(first.accessToken.exposed)".utf8)
            )
        )
        let response = try await client.send(TransportRequest(.get, Endpoint("https://id.example.com/userinfo")))
        #expect(response.status == 200)
        #expect(refreshes == 1)
    }

    // MARK: Signing out

    @Test func signOutRevokesAndDeletesTheTokens() async throws {
        let client = try client()
        let tokens = try await client.signIn().credential.tokens
        let signOut = try await client.signOut()
        #expect(signOut.credential?.displayName == "Alice Example")
        guard case .done = signOut.revocation, case .nothingToDo = signOut.endSession else {
            Issue.record("\(signOut)")
            return
        }
        let revoked = scene.emulator.receivedRequests.filter { $0.path == "/revoke" }.map { $0.form["token_type_hint"] }
        #expect(revoked == ["refresh_token", "access_token"])
        #expect(scene.emulator.receivedRequests.last?.form["token"] == tokens.accessToken.exposed)
        #expect(try await client.credential() == nil)
        await #expect(throws: AuthError.self) { try await client.freshTokens() }
        #expect(try await client.signOut().credential == nil)
    }

    @Test func signOutDeletesTheTokensEvenWhenRevocationFails() async throws {
        let client = try client()
        _ = try await client.signIn()
        transport.takeDown()
        let offline = try await client.signOut()
        guard case .failed = offline.revocation else {
            Issue.record("\(offline)")
            return
        }
        #expect(try await client.credential() == nil)

        transport.takeDown(false)
        scene.emulator.fault = .metadata(.member("revocation_endpoint", nil))
        let other = try self.client()
        _ = try await other.signIn()
        let unsupported = try await other.signOut(endingSession: true)
        guard case .unsupported = unsupported.revocation, case .unsupported = unsupported.endSession else {
            Issue.record("\(unsupported)")
            return
        }
        #expect(try await other.credential() == nil)
    }

    @Test func introspectsTokens() async throws {
        let client = try client()
        _ = try await client.signIn()
        // A client without a secret may not introspect.
        let refused = await #expect(throws: AuthError.self) { try await client.introspect() }
        #expect(refused?.code == .providerRejected)
        let confidential = EmulatorScene(
            try OIDCEmulator(
                issuer: "https://id.example.com",
                clients: [.init(id: "c", secret: "s", authenticationMethod: "client_secret_basic")]
            )
        )
        var settings = try EmulatorScene.registration()
        settings.clientID = "c"
        settings.authentication = .clientSecretBasic(Secret("s"))
        let trusted = try confidential.client(registration: settings)
        _ = try await trusted.signIn()
        #expect(try await trusted.introspect()["active"] == true)
        #expect(try await trusted.introspect(Secret("other"))["active"] == false)
    }

    @Test func publishesEventsToAnyNumberOfReaders() async throws {
        let events = FlowEventStream()
        let client = try client(observer: events.observer)
        let streams = (0..<2).map { _ in events.stream() }
        _ = try await client.signIn()
        for stream in streams {
            for await event in stream where event.step == .storing && event.progress == .succeeded { break }
        }
    }
}
