import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import ConformanceRows
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// Token refresh, from fresh tokens to the end of a session.
@Suite struct TokenLifeTests {
    private let life: TokenLifeEnvironment

    init() throws { self.life = try TokenLifeEnvironment() }

    // MARK: Fresh

    @Test func returnsFreshTokensAndRefreshesStaleTokens() async throws {
        let client = try life.client()
        let first = try await client.signIn().credential.tokens
        #expect(try await client.freshTokens() == first)
        life.time.advance(3539)
        #expect(try await client.freshTokens() == first)
        #expect(life.refreshes == 0)
        life.time.advance(1)
        let second = try await client.freshTokens()
        #expect(second.accessToken != first.accessToken)
        #expect(second.refreshToken != first.refreshToken)
        #expect(try await client.freshTokens() == second)
        #expect(life.refreshes == 1)
        #expect(try await client.credential()?.tokens == second)
        #expect(try await client.credential()?.obtainedAt == life.time.now)
    }

    @Test func keepsTheRefreshTokenWhenTheResponseHasNone() async throws {
        life.environment.emulator.refreshPolicy = .notRotated
        let client = try life.client()
        let first = try await client.signIn().credential.tokens
        for _ in 0..<3 {
            life.time.advance(3600)
            #expect(try await client.freshTokens().refreshToken == first.refreshToken)
        }
        #expect(life.refreshes == 3)
    }

    @Test func requiresASignInWithoutUsableTokens() async throws {
        let client = try life.client()
        let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
        #expect(error?.code == .loginRequired)
        let brief = try life.client(scopes: ["openid"])
        _ = try await brief.signIn()
        // There is no refresh token, so the access token is used until its expiry, even within the margin.
        life.time.advance(3590)
        _ = try await brief.freshTokens()
        life.time.advance(10)
        let ended = await #expect(throws: AuthError.self) { try await brief.freshTokens() }
        #expect(ended?.code == .loginRequired)
        #expect(ended?.message.contains("offline_access") == true)
        #expect(life.refreshes == 0)
    }

    @Test func usesTokensWithoutAnExpiryUntilTheyAreRejected() async throws {
        // Row 105.
        life.environment.emulator.fault = .tokenResponse(.missingExpiry)
        let client = try life.client()
        let first = try await client.signIn().credential.tokens
        life.time.advance(1_000_000)
        #expect(try await client.freshTokens() == first)
        #expect(life.refreshes == 0)
        let second = try await client.perform { tokens in
            guard tokens.accessToken != first.accessToken else { throw AuthError(.accessTokenRejected, "Old.") }
            return tokens
        }
        #expect(second.accessToken != first.accessToken)
        #expect(life.refreshes == 1)
        // The call is retried only once.
        let tries = Mutex(0)
        await expectError(.accessTokenRejected) {
            try await client.perform { _ in
                tries.withLock { $0 += 1 }
                throw AuthError(.accessTokenRejected, "Never.")
            }
        }
        #expect(tries.withLock { $0 } == 2)
    }

    @Test func refreshesWhenTheClockWasSetBack() async throws {
        // Tokens that were obtained while the clock was ahead would seem to expire later than they do.
        let client = try life.client()
        life.time.setError(400)
        let first = try await client.signIn().credential.tokens
        life.time.setError(0)
        let second = try await client.freshTokens()
        #expect(second.accessToken != first.accessToken)
        #expect(try await client.freshTokens() == second)
    }

    @Test func refreshesWhenTheCallerNeedsALongerLifetime() async throws {
        let client = try life.client()
        let first = try await client.signIn().credential
        #expect(try await client.freshCredential(lasting: .seconds(3600)) == first)
        life.time.advance(2699)
        #expect(try await client.freshCredential(lasting: .seconds(900)) == first)
        // The required remaining lifetime is capped at a quarter of the token's lifetime. A larger requirement would
        // cause a refresh at every call.
        #expect(try await client.freshCredential(lasting: .seconds(3000)) == first)
        life.time.advance(1)
        #expect(try await client.freshCredential(lasting: .seconds(899)) == first)
        #expect(try await client.freshCredential(lasting: .seconds(901)) != first)
        #expect(life.refreshes == 1)
    }

    // MARK: One refresh at a time

    @Test func refreshesOnceForAThousandTasksAndSeveralClients() async throws {
        let store = MemoryTokenStore()
        _ = try await life.client(store: store).signIn()
        life.time.advance(3600)
        // Each client represents a process; the clients share only the store.
        let clients = try (0..<4).map { _ in try life.client(store: store) }
        let tokens = try await withThrowingTaskGroup(of: TokenSet.self) { group in
            for number in 0..<1000 { group.addTask { try await clients[number % clients.count].freshTokens() } }
            return try await group.reduce(into: Set<Secret>()) { $0.insert($1.accessToken) }
        }
        #expect(tokens.count == 1)
        #expect(life.refreshes == 1)
        life.time.advance(3600)
        _ = try await clients[0].freshTokens()
        #expect(life.refreshes == 2)
    }

    @Test func usesTheTokensThatAnotherProcessHasRefreshed() async throws {
        let store = MemoryTokenStore()
        let (one, other) = (try life.client(store: store), try life.client(store: store))
        _ = try await one.signIn()
        _ = try await other.freshTokens()
        life.time.advance(3600)
        let refreshed = try await one.freshTokens()
        // The other process still caches the old tokens, whose refresh token has already been used.
        #expect(try await other.freshTokens() == refreshed)
        #expect(life.refreshes == 1)
    }

    @Test func cancellingOneCallerLeavesTheSharedRefreshRunning() async throws {
        let store = MemoryTokenStore()
        let client = try life.client(store: store)
        _ = try await client.signIn()
        life.time.advance(3600)
        let key = RecordKey(name: "default", issuer: "https://id.example.com", clientID: "authflow-demo")
        // Another task has locked the store, so the refresh has to wait.
        let (held, holding) = AsyncStream<Void>.makeStream()
        let (release, releasing) = AsyncStream<Void>.makeStream()
        let holder = Task {
            try await store.withLease(on: key) { _ in
                holding.finish()
                for await _ in release {}
            }
        }
        for await _ in held {}
        let first = Task.immediate { try await client.freshTokens() }
        let second = Task.immediate { try await client.freshTokens() }
        first.cancel()
        await #expect(throws: CancellationError.self) { try await first.value }
        releasing.finish()
        try await holder.value
        _ = try await second.value
        #expect(life.refreshes == 1)
    }

    // MARK: The end of a session

    @Test func invalidGrantEndsTheSessionOnce() async throws {
        let store = MemoryTokenStore()
        let ends = Mutex<[String?]>([])
        let client = try life.client(store: store) { event in
            if event.step == .sessionEnd { ends.withLock { $0.append(event.details["reason"]) } }
        }
        _ = try await client.signIn()
        life.environment.emulator.endSessions()
        life.time.advance(3600)
        for _ in 0..<5 {
            let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
            #expect(error?.code == .loginRequired)
            #expect(error?.message.contains("refresh token is invalid") == true)
        }
        #expect(life.refreshes == 1)
        // The provider's text may identify the user.
        #expect(ends.withLock { $0 } == ["invalid_grant"])
        #expect(try await client.credential() == nil)
        // Another process receives the reason without sending a request.
        let other = try life.client(store: store)
        let error = await #expect(throws: AuthError.self) { try await other.requiredCredential() }
        #expect(error?.message.contains("ended by the provider") == true)
        await expectError(.loginRequired) { try await other.freshTokens() }
        #expect(life.refreshes == 1)
        // The same user can sign in again.
        _ = try await client.signIn()
        _ = try await client.freshTokens()
    }

    // MARK: Request storms

    @Test func backsOffWhileTheNetworkIsDown() async throws {
        let client = try life.client()
        let first = try await client.signIn().credential.tokens
        life.transport.takeDown()
        life.time.advance(3545)
        // The token is no longer fresh, but it is still valid, so it is returned instead of an error.
        #expect(try await client.freshTokens() == first)
        life.time.advance(60)
        let before = life.transport.calls
        for _ in 0..<600 {
            let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
            #expect(error?.code == .networkFailed)
            life.time.advance(1)
        }
        #expect((1...17).contains(life.transport.calls - before), "\(life.transport.calls - before) in ten minutes")
        #expect(try await client.credential()?.tokens == first)
        life.transport.takeDown(false)
        // A minute and its jitter.
        life.time.advance(76)
        #expect(try await client.freshTokens().accessToken != first.accessToken)
    }

    @Test(arguments: ["120", "Fri, 15 Jan 2027 09:02:00 GMT"]) func honorsTheRetryAfterHeaderOfARefreshResponse(
        _ wait: String
    )
        async throws
    {
        let client = try life.client()
        _ = try await client.signIn()
        life.time.advance(3600)
        var response = TransportResponse(head: HTTPResponse(status: .tooManyRequests))
        response.head.headerFields[HTTPField.Name("retry-after") ?? .retryAfter] = wait
        life.transport.respond(response)
        let calls = life.transport.calls
        let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
        #expect(error?.code == .temporarilyUnavailable)
        #expect(error?.retryAfter == .seconds(120))
        life.transport.respond(nil)
        life.time.advance(119)
        let later = await #expect(throws: AuthError.self) { try await client.freshTokens() }
        #expect(later?.code == .temporarilyUnavailable)
        #expect(life.transport.calls == calls + 1)
        life.time.advance(2)
        _ = try await client.freshTokens()
        #expect(life.transport.calls == calls + 2)
    }

    @Test func keepsTheSessionWhenTheProviderReturnsInvalidClient() async throws {
        let client = try life.client()
        let first = try await client.signIn().credential
        life.time.advance(3600)
        life.transport.respond(
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
        let client = try life.client(store: store) { event in
            if event.step == .storing, event.progress == .failed(.storageFailed) { warned.withLock { $0 += 1 } }
        }
        let first = try await client.signIn().credential.tokens
        store.fail(true)
        life.time.advance(3600)
        let second = try await client.freshTokens()
        #expect(second.accessToken != first.accessToken)
        #expect(warned.withLock { $0 } == 1)
        #expect(try await client.credential()?.tokens == second)
        #expect(try await life.client(store: store).credential()?.tokens == first)
        // The refresh token in the store has already been used, so the next refresh uses the unsaved one.
        store.fail(false)
        life.time.advance(3600)
        let third = try await client.freshTokens()
        #expect(third.accessToken != second.accessToken)
        #expect(try await client.credential()?.tokens == third)
    }

    @Test func refreshesAfterASignInThatCouldNotBeStored() async throws {
        let store = FailingStore()
        let client = try life.client(store: store)
        store.fail(true)
        let signIn = try await client.signIn()
        #expect(signIn.storageError?.code == .storageFailed)
        #expect(try await client.freshTokens() == signIn.credential.tokens)
        life.time.advance(3600)
        store.fail(false)
        let second = try await client.freshTokens()
        #expect(second.accessToken != signIn.credential.tokens.accessToken)
        #expect(try await client.credential()?.tokens == second)
    }
}
