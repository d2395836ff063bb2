import AuthFlow
import AuthFlowTesting
import Expectations
import Foundation
import Synchronization
import Testing

/// A store on a full disk. A refresh would consume the stored refresh token, and the new refresh token would be lost when the
/// process exits.
@Suite struct FullStoreTests {
    private let environment: TokenLifeEnvironment
    private let store = FullStore()

    init() throws { self.environment = try TokenLifeEnvironment() }

    @Test func noRefreshTokenIsSentIfTheNewOneCouldNotBeStored() async throws {
        let client = try environment.client(store: store)
        let tokens = try await client.signIn().credential.tokens
        store.isFull = true
        // The old access token is returned for as long as it has not expired.
        environment.time.advance(3590)
        #expect(try await client.freshTokens() == tokens)
        environment.time.advance(10)
        let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
        #expect(error?.code == .storageFailed)
        #expect(error?.message.contains("No space is left.") == true)
        #expect(environment.refreshes == 0)
        // There is no backoff, because no request has failed.
        store.isFull = false
        #expect(try await client.freshTokens().refreshToken != tokens.refreshToken)
        #expect(environment.refreshes == 1)
    }

    @Test func noTokenForOneResourceIsRequestedIfTheRefreshTokenCouldNotBeStored() async throws {
        let resources = ["https://a.example.com/api", "https://b.example.com"]
        let client = try environment.client(store: store, settings: { $0.resources = resources })
        _ = try await client.signIn()
        store.isFull = true
        await expectError(.storageFailed) { try await client.freshTokens(for: resources[0]) }
        #expect(environment.refreshes == 0)
        store.isFull = false
        _ = try await client.freshTokens(for: resources[0])
        #expect(environment.refreshes == 1)
    }

    @Test func noTokensAreReplacedIfTheNewOnesCouldNotBeStored() async throws {
        let client = try environment.client(store: store)
        _ = try await client.signIn()
        store.isFull = true
        await expectError(.storageFailed) {
            try await client.replaceTokens { tokens, _ in
                Issue.record("The tokens were replaced at the provider.")
                return tokens
            }
        }
        store.isFull = false
        _ = try await client.replaceTokens { tokens, _ in tokens }
    }

    @Test func theUserIsNotAskedToSignInIfTheTokensCouldNotBeStored() async throws {
        let client = try environment.client(store: store)
        store.isFull = true
        await expectError(.storageFailed) { try await client.signIn() }
        #expect(!environment.environment.emulator.receivedRequests.contains { $0.path == "/authorize" })
    }

    /// The process was paused while it checked the store before the sign-in, and another process has used the store in the meantime.
    @Test func aLeaseThatIsLostBeforeASignInIsAcquiredAgain() async throws {
        let client = try environment.client(store: store)
        store.losesLease = true
        let signIn = try await client.signIn()
        #expect(signIn.storageError == nil)
        #expect(!store.losesLease)
    }

    @Test func signOutSucceedsWhileTheStoreIsFull() async throws {
        let client = try environment.client(store: store)
        _ = try await client.signIn()
        store.isFull = true
        _ = try await client.signOut()
        #expect(try await client.credential() == nil)
    }
}

/// A store that cannot reserve space while it is full, and that can lose a lease once.
private final class FullStore: ForwardingStore {
    let base = MemoryTokenStore()
    private let full = Mutex(false)
    private let losing = Mutex(false)

    var isFull: Bool {
        get { full.withLock { $0 } }
        set { full.withLock { $0 = newValue } }
    }

    var losesLease: Bool {
        get { losing.withLock { $0 } }
        set { losing.withLock { $0 = newValue } }
    }

    func reserve(_ size: Int, under lease: Lease) async throws {
        if isFull { throw AuthError(.storageFailed, "No space is left.") }
        if losesLease {
            losesLease = false
            throw Lease.lost
        }
    }
}
