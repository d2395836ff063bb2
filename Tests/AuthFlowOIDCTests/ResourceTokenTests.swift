import AuthFlow
import AuthFlowTesting
import Expectations
import Foundation
import Synchronization
import Testing

/// Tokens for several resources from one refresh token (RFC 8707 section 2.2).
@Suite struct ResourceTokenTests {
    private static let (a, b) = ("https://a.example.com/api", "https://b.example.com")
    private let life: TokenLifeEnvironment

    init() throws { self.life = try TokenLifeEnvironment() }

    private func client(_ store: any TokenStore = MemoryTokenStore()) throws -> AuthClient {
        try life.client(store: store, settings: { $0.resources = [Self.a, Self.b] })
    }

    private static func refreshes(_ environment: EmulatorEnvironment) -> [[String]] {
        environment.emulator.receivedRequests.filter { $0.form["grant_type"] == "refresh_token" }.map {
            $0.form.values(for: "resource")
        }
    }

    @Test(arguments: EmulatorEnvironment.Setting.allCases)
    func oneRefreshTokenYieldsAnAccessTokenForEachResource(_ setting: EmulatorEnvironment.Setting) async throws {
        try await EmulatorEnvironment.with(setting) { environment in
            environment.emulator.refreshPolicy = .rotating(leeway: 0)
            let store = MemoryTokenStore()
            var registration = try EmulatorEnvironment.registration()
            registration.scopes = ["openid", "offline_access", "profile"]
            registration.resources = [Self.a, Self.b]
            let client = try environment.client(registration: registration, store: store)
            let signIn = try await client.signIn()
            let first = try await client.freshTokens(for: Self.a)
            let second = try await client.freshTokens(for: Self.b, scopes: ["profile"])
            #expect(first.accessToken != second.accessToken)
            #expect(first.refreshToken == nil)
            #expect(first.accessToken != signIn.credential.tokens.accessToken)
            // The tokens are stored for this process and every other process.
            #expect(try await client.freshTokens(for: Self.a) == first)
            let other = try environment.client(registration: registration, store: store)
            #expect(try await other.freshTokens(for: Self.b, scopes: ["profile"]).accessToken == second.accessToken)
            #expect(Self.refreshes(environment) == [[Self.a], [Self.b]])
            // The grant's own access token is different, and remains stored.
            #expect(try await client.freshTokens().accessToken == signIn.credential.tokens.accessToken)
        }
    }

    @Test func aTokenThatAResourceRejectsIsReplaced() async throws {
        life.environment.emulator.refreshPolicy = .rotating(leeway: 0)
        let client = try client()
        let main = try await client.signIn().credential.tokens.accessToken
        let (rejected, other) = (
            try await client.freshTokens(for: Self.a), try await client.freshTokens(for: Self.b)
        )
        let new = try await client.freshTokens(for: Self.a, replacing: rejected.accessToken)
        #expect(new.accessToken != rejected.accessToken && new.refreshToken == nil)
        // Another caller whose token was rejected receives the new token.
        #expect(try await client.freshTokens(for: Self.a, replacing: rejected.accessToken) == new)
        #expect(try await client.freshTokens(for: Self.b) == other)
        #expect(try await client.freshTokens().accessToken == main)
    }

    /// The resource may have rejected the old token in the other process.
    @Test func aTokenThatAnotherProcessHasReplacedIsNotReturnedOnceTheStoreWasRead() async throws {
        let store = MemoryTokenStore()
        let (here, elsewhere) = (try client(store), try client(store))
        _ = try await here.signIn()
        let rejected = try await here.freshTokens(for: Self.a)
        let new = try await elsewhere.freshTokens(for: Self.a, replacing: rejected.accessToken)
        #expect(new.accessToken != rejected.accessToken)
        life.time.advance(11)
        for _ in 0..<2 { #expect(try await here.freshTokens(for: Self.a).accessToken == new.accessToken) }
    }

    @Test func aTokenThatHasNotExpiredIsUsedDuringAnOutage() async throws {
        let client = try client()
        _ = try await client.signIn()
        let tokens = try await client.freshTokens(for: Self.a)
        let lifetime = try #require(tokens.expiresAt).timeIntervalSince(life.time.now)
        life.time.advance(lifetime - 30)
        life.transport.takeDown()
        // The first call's refresh fails, and the second call sends no request during the backoff.
        for _ in 0..<2 { #expect(try await client.freshTokens(for: Self.a) == tokens) }
        await #expect(throws: AuthError.self) {
            try await client.freshTokens(for: Self.a, replacing: tokens.accessToken)
        }
        life.time.advance(31)
        let error = await #expect(throws: AuthError.self) { try await client.freshTokens(for: Self.a) }
        #expect(error?.isTransient == true)
    }

    @Test func aFreshTokenInMemoryIsUsedWhileTheStoreCannotBeRead() async throws {
        let store = FaultyStore()
        let client = try client(store)
        _ = try await client.signIn()
        let tokens = try await client.freshTokens(for: Self.a)
        life.time.advance(11)
        store.fault.withLock { $0 = .reads }
        #expect(try await client.freshTokens(for: Self.a) == tokens)
        await expectError(.storageFailed) { try await client.freshTokens(for: Self.b) }
        await expectError(.storageFailed) { try await client.freshTokens(for: Self.a, replacing: tokens.accessToken) }
        store.fault.withLock { $0 = nil }
        #expect(try await client.freshTokens(for: Self.a) == tokens)
    }

    @Test func aTokenThatHasNotExpiredIsUsedWhileTheStoreCannotBeReadOrLocked() async throws {
        let store = FaultyStore()
        let client = try client(store)
        _ = try await client.signIn()
        let tokens = try await client.freshTokens(for: Self.a)
        let lifetime = try #require(tokens.expiresAt).timeIntervalSince(life.time.now)
        life.time.advance(lifetime - 30)
        for fault in [FaultyStore.Fault.reads, .leases] {
            store.fault.withLock { $0 = fault }
            #expect(try await client.freshTokens(for: Self.a) == tokens)
        }
        await expectError(.leaseBusy) { try await client.freshTokens(for: Self.a, replacing: tokens.accessToken) }
        life.time.advance(31)
        await expectError(.leaseBusy) { try await client.freshTokens(for: Self.a) }
    }

    /// A store that cannot be read, or whose leases are held by another process.
    private final class FaultyStore: ForwardingStore {
        enum Fault { case reads, leases }

        let base = MemoryTokenStore()
        let fault = Mutex<Fault?>(nil)

        func bytes(for key: RecordKey) async throws -> [UInt8]? {
            if fault.withLock({ $0 }) == .reads { throw AuthError(.storageFailed, "The store cannot be read.") }
            return await base.bytes(for: key)
        }
        func withLease<Return: Sendable>(
            on key: RecordKey,
            _ body: (Lease) async throws -> Return
        ) async throws -> Return {
            if fault.withLock({ $0 }) == .leases { throw AuthError(.leaseBusy, "Another process holds the lease.") }
            return try await base.withLease(on: key, body)
        }
    }

    /// The main token is the only token of a grant without a refresh token, and it cannot be replaced before it expires.
    @Test func withoutARefreshTokenTheAccessTokenIsUsedUntilItExpires() async throws {
        let store = MemoryTokenStore()
        func process() throws -> AuthClient {
            try life.client(store: store, scopes: ["openid"], settings: { $0.resources = [Self.a] })
        }
        let token = try await process().signIn().credential.tokens.accessToken
        for (pause, isUsed) in [(0.0, true), (3590, true), (20, false)] {
            life.time.advance(pause)
            let later = try process()
            if isUsed {
                #expect(try await later.freshTokens(for: Self.a).accessToken == token)
            } else {
                await expectError(.loginRequired) { _ = try await later.freshTokens(for: Self.a) }
            }
            await expectError(.loginRequired) { _ = try await later.freshTokens(for: Self.a, replacing: token) }
        }
        #expect(Self.refreshes(life.environment).isEmpty)
    }

    @Test func concurrentCallersForAResourceShareOneTokenRequest() async throws {
        life.environment.emulator.refreshPolicy = .rotating(leeway: 0)
        let store = MemoryTokenStore()
        let clients = try (0..<4).map { _ in try client(store) }
        _ = try await clients[0].signIn()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for client in clients {
                for resource in [Self.a, Self.b] {
                    for _ in 0..<5 { group.addTask { _ = try await client.freshTokens(for: resource) } }
                }
            }
            try await group.waitForAll()
        }
        #expect(Self.refreshes(life.environment).count == 2)
    }

    @Test func noTokenIsRequestedForAnUnconfiguredResource() async throws {
        let client = try client()
        _ = try await client.signIn()
        let error = await #expect(throws: AuthError.self) {
            _ = try await client.freshTokens(for: "https://evil.example.com")
        }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.message.contains(#"Add it to "resources""#) == true, "\(error?.message ?? "")")
        #expect(Self.refreshes(life.environment).isEmpty)
    }

    @Test func anInvalidGrantForOneResourceEndsTheWholeSession() async throws {
        let client = try client()
        _ = try await client.signIn()
        life.environment.emulator.endSessions()
        let error = await #expect(throws: AuthError.self) { _ = try await client.freshTokens(for: Self.a) }
        #expect(error?.code == .loginRequired)
        #expect(try await client.credential() == nil)
    }

    @Test func aCredentialManagerReturnsASeparateTokenForEachResource() async throws {
        let client = try client()
        let credential = try await client.signIn().credential
        let manager = CredentialManager(client: client.client, store: MemoryTokenStore())
        try await manager.save(credential, for: "session")
        let a = try await manager.freshTokens(for: "session", resource: Self.a)
        let b = try await manager.freshTokens(for: CredentialKey("session", resource: Self.b))
        #expect(a.accessToken != b.accessToken)
        await expectError(.loginRequired) {
            _ = try await manager.freshTokens(for: "session", resource: "https://evil.example.com")
        }
    }
}
