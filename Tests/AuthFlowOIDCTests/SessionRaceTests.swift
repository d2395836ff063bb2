import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import ConformanceRows
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// Refreshes that run concurrently with sign-outs, sign-ins in other processes, and rejections.
@Suite struct SessionRaceTests {
    private let life: TokenLifeEnvironment

    init() throws { self.life = try TokenLifeEnvironment() }

    // MARK: Signing out

    /// The sign-out runs in the same process (the same client) or in another process (another client with the same
    /// store).
    @Test(arguments: [true, false]) func aSignOutRevokesTheTokensOfALateRefresh(_ isSameClient: Bool) async throws {
        let store = SharedWaitTests.GatedStore(MemoryTokenStore())
        let slow = SlowRefreshes(life.environment.transport)
        let refreshing = try life.client(store: store, transport: slow)
        let first = try await refreshing.signIn().credential.tokens
        let leaving = isSameClient ? refreshing : try life.client(store: store, transport: slow)
        life.time.advance(3600)
        slow.gate.close()
        let late = Task { try await refreshing.freshTokens() }
        await slow.gate.arrival()
        store.leaseGate.close()
        let signOut = Task { try await leaving.signOut() }
        // The sign-out must wait for the refresh and revoke its tokens.
        await store.leaseGate.arrival()
        store.leaseGate.open()
        slow.gate.open()
        guard case .done = try await signOut.value.revocation else {
            Issue.record("The tokens were not revoked.")
            return
        }
        if isSameClient {
            let error = await #expect(throws: AuthError.self) { try await late.value }
            #expect(error?.code == .loginRequired)
        } else {
            _ = try? await late.value
        }
        #expect(life.revoked.count == 2 && !life.revoked.contains(first.refreshToken?.exposed ?? ""))
        #expect(try await refreshing.credential() == nil)
        let after = await #expect(throws: AuthError.self) { try await refreshing.freshTokens() }
        #expect(after?.code == .loginRequired)
    }

    @Test func aSignOutInAnotherProcessIsDetectedWithinTenSeconds() async throws {
        let store = MemoryTokenStore()
        let (one, other) = (try life.client(store: store), try life.client(store: store))
        _ = try await one.signIn()
        let cached = try await other.freshTokens()
        _ = try await one.signOut()
        // Cached tokens are used for ten seconds.
        life.time.advance(9)
        #expect(try await other.freshTokens() == cached)
        life.time.advance(1)
        let error = await #expect(throws: AuthError.self) { try await other.freshTokens() }
        #expect(error?.code == .loginRequired)
    }

    struct Look: CustomTestStringConvertible {
        let name: String
        let look: @Sendable (AuthClient) async throws -> Void
        var testDescription: String { name }
    }

    static let looks: [Look] = [
        Look(name: "credential", look: { _ = try await $0.credential() }),
        Look(name: "accounts", look: { _ = try await $0.accounts() }),
        Look(name: "requiredCredential", look: { _ = try? await $0.requiredCredential() }),
        Look(name: "refresh", look: { _ = try? await $0.refresh() }),
        Look(
            name: "perform",
            look: { client in
                _ = try? await client.perform { _ in throw AuthError(.accessTokenRejected, "401") }
            }
        ),
    ]

    /// A client that finds no credential in the store discards its cached tokens.
    @Test(arguments: looks) func discardsCachedTokensOnceTheStoreIsFoundEmpty(
        _ test: Look
    ) async throws {
        let store = MemoryTokenStore()
        let (one, other) = (try life.client(store: store), try life.client(store: store))
        _ = try await one.signIn()
        _ = try await other.freshTokens()
        _ = try await one.signOut()
        try await test.look(other)
        let error = await #expect(throws: AuthError.self) { try await other.freshTokens() }
        #expect(error?.code == .loginRequired)
        let refused = await #expect(throws: AuthError.self) { try await other.refresh() }
        #expect(refused?.code == .loginRequired)
        #expect(life.refreshes == 0)
    }

    @Test func tokensFromASignInInAnotherProcessReplaceCachedTokens() async throws {
        let store = MemoryTokenStore()
        let (one, other) = (try life.client(store: store), try life.client(store: store))
        _ = try await one.signIn()
        _ = try await other.freshTokens()
        let newer = try await one.signIn().credential.tokens
        life.time.advance(10)
        #expect(try await other.freshTokens().accessToken == newer.accessToken)
        #expect(life.refreshes == 0)
    }

    // MARK: States

    /// A store in which a release of a lease is confirmed only when a gate is open.
    private final class SlowReleaseStore: ForwardingStore {
        let base = MemoryTokenStore()
        let gate = Gate()

        func withLease<Return: Sendable>(
            on key: RecordKey,
            _ body: (Lease) async throws -> Return
        ) async throws -> Return {
            let result = try await base.withLease(on: key, body)
            await gate.pass()
            return result
        }
    }

    /// Otherwise, an app would show that the user is signed out until the next change.
    @Test func theStateOfASignOutIsNotPublishedAfterThatOfALaterSignIn() async throws {
        let store = SlowReleaseStore()
        let client = try life.client(store: store)
        _ = try await client.signIn()
        var states = try await client.states().makeAsyncIterator()
        _ = await states.next()
        store.gate.close(isForOne: true)
        let signOut = Task { try await client.signOut() }
        await store.gate.arrival()
        let identity = try await client.signIn().credential.identity
        store.gate.open()
        _ = try await signOut.value
        let first = await states.next()
        let second = await states.next()
        #expect(first == .signedOut)
        #expect(second == .signedIn(identity))
    }

    @Test func aRefreshThatCompletesAfterASignOutWasPublishedIsNotPublished() async throws {
        let store = MemoryTokenStore()
        let slow = SlowRefreshes(life.environment.transport)
        let client = try life.client(transport: slow)
        let credential = try await client.signIn().credential
        let credentials = CredentialManager(client: client.client, store: store)
        let key = CredentialKey("session")
        try await credentials.save(credential, for: key)
        var states = try await credentials.states(of: key).makeAsyncIterator()
        _ = await states.next()
        life.time.advance(3600)
        slow.gate.close()
        let late = Task { try await credentials.freshTokens(for: key) }
        await slow.gate.arrival()
        // Another process signs the user out.
        try await CredentialManager(client: client.client, store: store).remove([credentials.recordKey(for: key)])
        #expect(try await credentials.credential(for: key) == nil)
        slow.gate.open()
        await expectError(.loginRequired) { try await late.value }
        try await credentials.save(credential, for: key)
        let first = await states.next()
        let second = await states.next()
        #expect(first == .signedOut)
        #expect(second == .signedIn(credential.identity))
    }

    // MARK: Provider responses

    /// The old refresh token has already been used when the new tokens are rejected, so the new refresh token is
    /// stored, but no tokens are returned.
    @Test func theRotatedRefreshTokenIsStoredEvenIfTheIDTokenIsInvalid() async throws {
        let store = MemoryTokenStore()
        let client = try life.client(store: store)
        let first = try await client.signIn().credential
        life.environment.emulator.fault = .idToken(.claim("nonce", "another"))
        life.time.advance(3600)
        let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
        #expect(error?.code == .invalidIDToken)
        #expect(error?.message.contains("the session continues") == true)
        #expect(error?.message.contains("signed in") == false)
        let kept = try #require(try await client.credential())
        #expect(kept.tokens.refreshToken != first.tokens.refreshToken)
        #expect(kept.tokens.accessToken == first.tokens.accessToken)
        #expect(kept.identity == first.identity)
        let waiting = await #expect(throws: AuthError.self) { try await client.freshTokens() }
        #expect(waiting?.code == .invalidIDToken)
        life.environment.emulator.fault = nil
        life.time.advance(400)
        #expect(try await client.freshTokens().accessToken != first.tokens.accessToken)
        // Another process uses the stored tokens.
        #expect(try await life.client(store: store).freshTokens().accessToken != first.tokens.accessToken)
    }

    /// The refresh token in the response belongs to the other user, and the tokens issued for this user are lost.
    @Test func aRefreshThatReturnsAnotherUsersTokensEndsTheSession() async throws {
        let store = MemoryTokenStore()
        let client = try life.client(store: store)
        let first = try await client.signIn().credential.tokens
        life.environment.emulator.fault = .idToken(.claim("sub", "another"))
        life.time.advance(3600)
        let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
        #expect(error?.code == .loginRequired)
        #expect(error?.message.contains("tokens for another user") == true)
        // The client revokes this user's refresh token, because the provider has not revoked the grant.
        #expect(await client.drain())
        #expect(life.revoked.contains(first.refreshToken?.exposed ?? ""))
        life.environment.emulator.fault = nil
        let refreshes = life.refreshes
        life.time.advance(400)
        for client in [client, try life.client(store: store)] {
            await expectError(.loginRequired) { try await client.freshTokens() }
        }
        #expect(life.refreshes == refreshes)
    }

    @Test func theRotatedRefreshTokenIsStoredEvenIfTheAccessTokenIsInvalid() async throws {
        let client = try life.client()
        let first = try await client.signIn().credential
        life.environment.emulator.fault = .tokenResponse(.member("access_token", "a\u{1B}[2Jb"))
        life.time.advance(3600)
        let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
        #expect(error?.code == .invalidResponse)
        life.environment.emulator.fault = nil
        life.time.advance(400)
        #expect(try await client.freshTokens().refreshToken != first.tokens.refreshToken)
    }

    @Test(arguments: [1, 30, 60] as [Int64]) func shortLivedTokensAreRefreshedAtMostOncePerCall(_ lifetime: Int64)
        async throws
    {
        life.environment.emulator.accessTokenLifetime = lifetime
        let client = try life.client()
        let first = try await client.signIn().credential.tokens
        #expect(try await client.freshCredential(lasting: .seconds(3600)).tokens == first)
        #expect(life.refreshes == 0)
        life.time.advance(Double(lifetime))
        let second = try await client.freshCredential(lasting: .seconds(3600)).tokens
        #expect(second != first)
        #expect(life.refreshes == 1)
        // The tokens cannot remain valid for longer than the required 60 seconds, but they are not refreshed again.
        #expect(try await client.freshCredential(lasting: .seconds(60)).tokens == second)
        #expect(life.refreshes == 1)
    }

    @Test(arguments: [
        (HTTPResponse.Status.badRequest, ""),
        (.ok, #"{"error": {"message": "The session does not exist.", "code": 100}}"#),
    ])
    func repeatedRefreshRejectionsWithoutAnErrorCodeRequireASignIn(_ status: HTTPResponse.Status, _ body: String)
        async throws
    {
        let store = MemoryTokenStore()
        let first = try life.client(store: store)
        let credential = try await first.signIn().credential
        life.time.advance(3600)
        life.transport.respond(TransportResponse(head: HTTPResponse(status: status), body: Array(body.utf8)))
        let once = await #expect(throws: AuthError.self) { try await first.freshTokens() }
        #expect(once?.code == .invalidResponse)
        // The count of rejections continues in another process.
        let twice = await #expect(throws: AuthError.self) { try await life.client(store: store).freshTokens() }
        #expect(twice?.code == .loginRequired)
        #expect(twice?.message.contains("Sign in again") == true)
        // The credential remains stored, because the fault may be temporary and the session might not have ended.
        #expect(try await first.credential()?.tokens == credential.tokens)
        life.transport.respond(nil)
        #expect(try await life.client(store: store).freshTokens() != credential.tokens)
    }

    /// Some providers send every error with status 200.
    @Test(arguments: [HTTPResponse.Status.ok, .badRequest], ["temporarily_unavailable", "server_error"])
    func aTemporaryErrorIsTransientWithAnyStatus(_ status: HTTPResponse.Status, _ error: String) async throws {
        let client = try life.client()
        _ = try await client.signIn()
        life.time.advance(3600)
        life.transport.respond(
            TransportResponse(head: HTTPResponse(status: status), body: Array(#"{"error": "\#(error)"}"#.utf8))
        )
        let thrown = await #expect(throws: AuthError.self) { try await client.freshTokens() }
        #expect(thrown?.code == .temporarilyUnavailable)
        #expect(thrown?.providerError?.error == error)
    }

    @Test(arguments: ["invalid_client", "invalid_scope"]) func anInvalidClientOrScopeErrorDoesNotEndTheSession(
        _ error: String
    )
        async throws
    {
        let store = MemoryTokenStore()
        _ = try await life.client(store: store).signIn()
        life.time.advance(3600)
        life.transport.respond(
            TransportResponse(head: HTTPResponse(status: .unauthorized), body: Array(#"{"error": "\#(error)"}"#.utf8))
        )
        for _ in 0..<3 {
            let thrown = await #expect(throws: AuthError.self) { try await life.client(store: store).freshTokens() }
            #expect(thrown?.code == .providerRejected)
        }
    }

    // MARK: Size

    @Test func anOversizedCredentialIsNotStored() async throws {
        let store = MemoryTokenStore()
        life.environment.emulator.fault = .userInfo(.member("note", .string(String(repeating: "x", count: 300_000))))
        let error = await #expect(throws: AuthError.self) { try await life.client(store: store).signIn() }
        #expect(error?.code == .invalidResponse)
        #expect(error?.message.contains("192 KiB") == true)
        life.environment.emulator.fault = .tokenResponse(
            .member("refresh_token", .string(String(repeating: "x", count: 40_000)))
        )
        let long = await #expect(throws: AuthError.self) { try await life.client(store: store).signIn() }
        #expect(long?.code == .invalidResponse)
        life.environment.emulator.fault = nil
        _ = try await life.client(store: store).signIn()
        #expect(try await life.client(store: store).credential() != nil)
    }

    @Test func onlyAdditionalTokenResponseMembersAreStoredAsParameters() async throws {
        life.environment.emulator.fault = .tokenResponse(.member("patient", "p-1"))
        let client = try life.client()
        let tokens = try await client.signIn().credential.tokens
        #expect(tokens.parameters.exposed == ["patient": "p-1"])
        #expect(try await client.credential()?.tokens == tokens)
    }

    @Test func anUnreadableStoreIsClearedByALocalSignOut() async throws {
        let directory = NSTemporaryDirectory() + "authflow-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let store = FileTokenStore(directory: directory)
        let client = try life.client(store: store)
        _ = try await client.signIn()
        let file = try #require(
            try FileManager.default.contentsOfDirectory(atPath: directory).first { $0.hasSuffix(".json") }
        )
        let handle = try #require(FileHandle(forWritingAtPath: "\(directory)/\(file)"))
        try handle.truncate(atOffset: 3 << 20)
        try handle.close()
        let error = await #expect(throws: AuthError.self) { try await client.signIn() }
        #expect(error?.code == .credentialUnusable)
        #expect(error?.message.contains("Sign out locally") == true)
        #expect(try await client.signOutLocally())
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory).isEmpty)
        _ = try await client.signIn()
    }

    // MARK: Sharing, accounts, cancellation

    /// An adapter that does not support sharing.
    private struct Unsharing: SharedSignIn {
        let base: OIDCProvider
        let failure: @Sendable () -> any Error
        var issuer: String { base.issuer }
        func metadata(in context: ServerContext) async throws -> ProviderMetadata {
            try await base.metadata(in: context)
        }
        func exchangeForSignIn(in context: ProviderContext) async throws -> TokenExchange? { nil }
        func share(_ credential: Credential, replacing previous: Credential?, in context: ProviderContext) async throws
        {
            throw failure()
        }
        func reasonForEnd(of credential: Credential, in context: ProviderContext) async -> String? { nil }
    }

    @Test func aSharingErrorIsNotAStorageError() async throws {
        let events = Mutex<[FlowEvent]>([])
        let provider = Unsharing(base: OIDCProvider(issuer: life.environment.emulator.issuer)) {
            AuthError(.storageFailed, "The group's store is full.")
        }
        let client = try life.client(adapter: provider) { event in events.withLock { $0.append(event) } }
        let signIn = try await client.signIn()
        #expect(signIn.storageError == nil)
        #expect(signIn.sharingError?.message == "The group's store is full.")
        #expect(try await client.credential() != nil)
        let failed = events.withLock { $0.filter { if case .failed = $0.progress { true } else { false } }.map(\.step) }
        #expect(failed == [.sharing])
    }

    @Test func cancellationDuringSharingThrowsACancellationError() async throws {
        let provider = Unsharing(base: OIDCProvider(issuer: life.environment.emulator.issuer)) { CancellationError() }
        let client = try life.client(adapter: provider)
        await #expect(throws: CancellationError.self) { try await client.signIn() }
    }

    @Test func anAccountMismatchIsNotAStorageError() async throws {
        let store = MemoryTokenStore()
        let events = Mutex<[FlowEvent]>([])
        _ = try await life.client(store: store).signIn()
        let bob = try life.client(store: store, user: .bob) { event in events.withLock { $0.append(event) } }
        let error = await #expect(throws: AuthError.self) { try await bob.signIn() }
        #expect(error?.code == .accountMismatch)
        #expect(!events.withLock { $0.contains { $0.step == .storing } })
    }

    @Test func drainingWaitsForARefreshWhoseCallerWasCancelled() async throws {
        let store = MemoryTokenStore()
        let slow = SlowRefreshes(life.environment.transport)
        let client = try life.client(store: store, transport: slow)
        let first = try await client.signIn().credential.tokens
        #expect(await client.drain())
        life.time.advance(3600)
        slow.gate.close()
        let caller = Task { try await client.freshTokens() }
        await slow.gate.arrival()
        caller.cancel()
        await #expect(throws: CancellationError.self) { try await caller.value }
        let drained = Task.immediate { await client.drain(within: .seconds(60)) }
        slow.gate.open()
        #expect(await drained.value)
        #expect(try await client.credential()?.tokens.refreshToken != first.refreshToken)
    }

    @Test func drainingStopsAtItsTimeLimit() async throws {
        let slow = SlowRefreshes(life.environment.transport)
        let client = try life.client(transport: slow)
        _ = try await client.signIn()
        life.time.advance(3600)
        slow.gate.close()
        let caller = Task { try await client.freshTokens() }
        await slow.gate.arrival()
        #expect(await !client.drain(within: .milliseconds(1)))
        slow.gate.open()
        _ = try await caller.value
    }
}
