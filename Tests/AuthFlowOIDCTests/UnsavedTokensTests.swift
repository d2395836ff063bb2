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

/// Tokens that a provider has issued but that could not be stored. The copy in memory is the only copy, and must not
/// be lost.
@Suite struct UnsavedTokensTests {
    private let life: TokenLifeEnvironment
    private let store = FailingStore()

    init() throws { self.life = try TokenLifeEnvironment() }

    private func client(
        user: OIDCEmulator.User = .alice,
        account: String? = nil,
        provider: (any ProviderAdapter)? = nil
    ) throws -> AuthClient {
        try life.client(store: store, adapter: provider, user: user, account: account)
    }

    /// Signs in, and refreshes while all writes fail.
    private func refreshedUnsaved(_ client: AuthClient) async throws -> TokenSet {
        _ = try await client.signIn()
        life.time.advance(3600)
        store.fail(true)
        return try await client.freshTokens()
    }

    /// The other process has sent the refresh token that this process has already used.
    @Test func aRejectionRecordedByAnotherProcessDoesNotDiscardUnsavedTokens() async throws {
        let client = try client()
        let unsaved = try await refreshedUnsaved(client)
        store.fail(false)
        life.transport.respond(TransportResponse(head: HTTPResponse(status: .badRequest)))
        await expectError(.invalidResponse) { try await self.client().freshTokens() }
        life.transport.respond(nil)
        #expect(try await client.freshTokens() == unsaved)
        #expect(await client.drain())
        #expect(try await self.client().freshTokens() == unsaved)
    }

    @Test func drainingStoresUnsavedTokens() async throws {
        let client = try client()
        let unsaved = try await refreshedUnsaved(client)
        #expect(client.hasUnfinishedWork)
        store.fail(false)
        #expect(await client.drain())
        #expect(!client.hasUnfinishedWork)
        #expect(try await self.client().freshTokens().refreshToken == unsaved.refreshToken)
    }

    @Test func tokensThatADrainCouldNotStoreRemainUnsaved() async throws {
        let client = try client()
        let unsaved = try await refreshedUnsaved(client)
        #expect(await !client.drain())
        #expect(client.hasUnfinishedWork)
        store.fail(false)
        #expect(await client.drain())
        #expect(try await self.client().freshTokens().refreshToken == unsaved.refreshToken)
    }

    /// The other process still has the used refresh token, and writes it back together with its change.
    @Test func aDataUpdateInAnotherProcessDoesNotOverwriteUnsavedTokens() async throws {
        let client = try client()
        let credential = try await client.signIn().credential
        let (one, other) = (
            CredentialManager(client: client.client, store: store),
            CredentialManager(client: client.client, store: store)
        )
        let key = CredentialKey("session")
        try await one.save(credential, for: key)
        life.time.advance(3600)
        store.fail(true)
        let refreshed = try await one.refresh(key).tokens
        store.fail(false)
        _ = try await other.changeApplicationData(of: key) { _ in Secret("changed") }
        #expect(await one.drain())
        let stored = try await CredentialManager(client: client.client, store: store).credential(for: key)
        #expect(stored?.tokens.refreshToken == refreshed.refreshToken)
        #expect(stored?.applicationData == Secret("changed"))
        #expect(try await other.refresh(key).tokens.refreshToken != refreshed.refreshToken)
    }

    @Test func noRefreshTokenIsSentAfterStopSending() async throws {
        let client = try client()
        _ = try await client.signIn()
        life.time.advance(3600)
        client.stopSending()
        await #expect(throws: CancellationError.self) { try await client.freshTokens() }
        #expect(!life.environment.emulator.receivedRequests.contains { $0.form["grant_type"] == "refresh_token" })
    }

    @Test func aSignOutRevokesUnsavedTokens() async throws {
        let client = try client()
        let unsaved = try await refreshedUnsaved(client)
        let error = await #expect(throws: AuthError.self) { try await client.signOut() }
        #expect(error?.code == .storageFailed)
        #expect(life.revoked.isEmpty)
        store.fail(false)
        let signOut = try await client.signOut()
        #expect(signOut.credential != nil)
        #expect(life.revoked.contains(unsaved.refreshToken?.exposed ?? ""))
    }

    /// The process was paused, and another process has used the store in the meantime.
    @Test func aSignInWhoseLeaseWasLostIsStoredUnderANewLease() async throws {
        store.fail(times: 1, with: .leaseLost)
        let signIn = try await client().signIn()
        #expect(signIn.storageError == nil)
        #expect(try await client().freshTokens().accessToken == signIn.credential.tokens.accessToken)
    }

    @Test func aChangeOfAccountWhoseLeaseWasLostIsRetriedUnderANewLease() async throws {
        let client = try client()
        _ = try await client.signIn()
        _ = try await self.client(user: .bob).signIn(.addAccount)
        store.fail(times: 1, with: .leaseLost)
        try await client.selectAccount("248289761001")
        #expect(try await client.credential()?.identity?.displayName == "Alice Example")
        store.fail(times: 1, with: .leaseLost)
        #expect(try await client.signOutLocally())
        #expect(try await self.client().accounts().isEmpty)
    }

    /// A store whose writes are cancelled.
    private struct CancelledStore: ForwardingStore {
        let base = MemoryTokenStore()

        func write(_ bytes: [UInt8]?, under lease: Lease) async throws { throw CancellationError() }
    }

    /// Otherwise, the user would be signed in although the app was told that the sign-in was cancelled.
    @Test func aSignInThatIsCancelledWhileItIsStoredIsNotRetainedInMemory() async throws {
        let client = try life.client(store: CancelledStore())
        await #expect(throws: CancellationError.self) { try await client.signIn() }
        #expect(try await client.credential() == nil)
    }

    @Test func anUnsavedSessionCanBeSignedOut() async throws {
        let client = try client()
        _ = try await client.signIn()
        _ = try await client.signOut()
        let before = life.revoked.count
        // The probe before a sign-in does not write.
        store.fail(true)
        let signIn = try await client.signIn()
        #expect(signIn.storageError != nil)
        let signOut = try await client.signOut()
        #expect(signOut.credential?.identity == signIn.credential.identity)
        #expect(life.revoked.count > before)
        let after = await #expect(throws: AuthError.self) { try await client.freshTokens() }
        #expect(after?.code == .loginRequired)
    }

    @Test func drainStoresTheTokensOfASignInThatCouldNotBeStored() async throws {
        let client = try client()
        store.fail(true)
        let signIn = try await client.signIn()
        #expect(signIn.storageError?.code == .storageFailed)
        #expect(await !client.drain())
        store.fail(false)
        #expect(await client.drain())
        #expect(try await self.client().credential()?.tokens == signIn.credential.tokens)
    }

    /// A store that can be made unavailable.
    private final class UnavailableStore: TokenStore {
        private let base = MemoryTokenStore()
        private let isDown = Mutex(false)

        func takeDown(_ value: Bool) { isDown.withLock { $0 = value } }
        private func requireUp() throws {
            if isDown.withLock({ $0 }) { throw AuthError(.storageFailed, "The store is unavailable.") }
        }
        func bytes(for key: RecordKey) async throws -> [UInt8]? {
            try requireUp()
            return await base.bytes(for: key)
        }
        func write(_ bytes: [UInt8]?, under lease: Lease) async throws {
            try requireUp()
            try await base.write(bytes, under: lease)
        }
        func withLease<Return: Sendable>(
            on key: RecordKey,
            _ body: (Lease) async throws -> Return
        ) async throws -> Return {
            try requireUp()
            return try await base.withLease(on: key, body)
        }
    }

    /// The users of both sign-ins are unknown. The stored tokens may belong to another user.
    @Test func aSignInIsNotReportedAsStoredIfTheTokensOfAnotherUnknownUserAre() async throws {
        let store = UnavailableStore()
        var settings = try EmulatorEnvironment.registration()
        settings.scopes = ["profile"]
        let (client, other) = (
            try life.environment.client(registration: settings, store: store, host: life.time.host),
            try life.environment.client(registration: settings, store: store, host: life.time.host)
        )
        let request = try await client.beginSignIn()
        let callback = try await life.environment.visit(request.url)
        let stored = try await other.signIn().credential.tokens
        life.time.advance(10)
        store.takeDown(true)
        let signIn = try await client.finishSignIn(request, with: callback)
        #expect(signIn.storageError != nil)
        store.takeDown(false)
        #expect(await !client.storeUnsavedTokens(of: signIn))
        #expect(try await client.credential()?.tokens == stored)
    }

    @Test func aFailedSignOutLosesNoUnsavedTokens() async throws {
        let client = try client()
        _ = try await refreshedUnsaved(client)
        await expectError(.storageFailed) { try await client.signOut() }
        life.time.advance(3600)
        // The provider ends the session when a refresh token is reused.
        _ = try await client.freshTokens()
        store.fail(false)
        life.time.advance(3600)
        _ = try await client.freshTokens()
    }

    @Test func unsavedTokensAreStoredWithTheNextWrite() async throws {
        let alice = try client()
        let bob = try client(user: .bob)
        _ = try await bob.signIn(.addAccount)
        _ = try await alice.signIn(.addAccount)
        life.time.advance(3600)
        store.fail(true)
        let unsaved = try await alice.freshTokens()
        store.fail(false)
        try await alice.selectAccount("248289761002")
        // Another process reads the saved tokens from the store.
        let other = try client(account: "248289761001")
        #expect(try await other.freshTokens().refreshToken == unsaved.refreshToken)
    }

    @Test func unsavedTokensAreDroppedOnceAnotherProcessHasSignedIn() async throws {
        let client = try client()
        _ = try await refreshedUnsaved(client)
        store.fail(false)
        let newer = try await self.client().signIn().credential.tokens
        life.time.advance(30)
        #expect(try await client.freshTokens().accessToken == newer.accessToken)
    }

    /// A sign-out in another process ends the session even if there are no refresh tokens.
    @Test func unsavedTokensDoNotOutliveASignOutInAnotherProcess() async throws {
        life.environment.emulator.fault = .tokenResponse(.member("refresh_token", nil))
        let client = try client()
        _ = try await client.signIn()
        store.fail(true)
        let unsaved = try await client.signIn()
        #expect(unsaved.storageError != nil)
        store.fail(false)
        _ = try await self.client().signOut()
        life.time.advance(30)
        let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
        #expect(error?.code == .loginRequired)
        #expect(try await self.client().credential() == nil)
    }

    /// The response to a refresh of the previous session arrives after a new sign-in.
    @Test func aLateRefreshOfThePreviousSessionDoesNotReplaceANewSignIn() async throws {
        let slow = SlowRefreshes(life.environment.transport)
        let client = try life.client(store: store, transport: slow)
        _ = try await client.signIn()
        life.time.advance(3600)
        slow.gate.close()
        let late = Task { try await client.freshTokens() }
        await slow.gate.arrival()
        store.fail(true)
        let signingIn = Task { try await client.signIn() }
        slow.gate.open()
        let signIn = try await signingIn.value
        _ = try? await late.value
        #expect(try await client.credential()?.tokens == signIn.credential.tokens)
        store.fail(false)
        life.time.advance(30)
        #expect(try await client.freshTokens() == signIn.credential.tokens)
    }

    // MARK: Tokens that cannot be checked

    /// The keys cannot be fetched when a refreshed ID Token arrives. The refresh token is new, and no token was
    /// rejected.
    @Test func aRefreshThatCannotBeCheckedKeepsTheOldAccessToken() async throws {
        let client = try client()
        let first = try await client.signIn().credential.tokens
        life.environment.emulator.fault = .jwks(.rotateBeforeSigning)
        let network = KeysOutOfReach(life.environment.transport)
        let other = try life.client(store: store, transport: network)
        // This is within the margin: the old token is still valid for a few seconds.
        life.time.advance(3590)
        #expect(try await other.freshTokens().accessToken == first.accessToken)
        let kept = try #require(try await other.credential()?.tokens)
        #expect(kept.refreshToken != first.refreshToken)
        #expect(kept.expiresAt == first.expiresAt)
    }

    @Test func noCachedTokensAreReturnedAfterARefreshWithAnInvalidIDToken() async throws {
        let client = try client()
        let first = try await client.signIn().credential.tokens
        life.environment.emulator.fault = .idToken(.claim("nonce", "another"))
        await expectError(.invalidIDToken) { try await client.refresh() }
        let error = await #expect(throws: AuthError.self) { try await client.freshTokens() }
        #expect(error?.code == .invalidIDToken)
        #expect(try await client.credential()?.tokens.accessToken == first.accessToken)
    }

    @Test func anEmptyRefreshTokenDoesNotReplaceTheStoredOne() async throws {
        let client = try client()
        life.environment.emulator.refreshPolicy = .notRotated
        let first = try await client.signIn().credential.tokens
        life.environment.emulator.fault = .tokenResponse(.member("refresh_token", ""))
        life.time.advance(3600)
        #expect(try await client.freshTokens().refreshToken == first.refreshToken)
    }

    // MARK: Bindings

    @Test func storedTokensAreNotSentToOtherConfiguredEndpoints() async throws {
        let tokens = try await client().signIn().credential.tokens
        let elsewhere = try client(
            provider: OIDCProvider(
                issuer: life.environment.emulator.issuer,
                endpoints: ProviderMetadata(
                    issuer: life.environment.emulator.issuer,
                    tokenEndpoint: Endpoint("https://evil.example.com/token")
                )
            )
        )
        let exchange = await #expect(throws: AuthError.self) {
            try await elsewhere.exchange(TokenExchange(tokens.accessToken, type: .accessToken))
        }
        #expect(exchange?.code == .loginRequired)
        // A token that is not stored is not bound to any endpoint.
        let other = await #expect(throws: AuthError.self) {
            try await elsewhere.exchange(TokenExchange(Secret("from elsewhere"), type: .accessToken))
        }
        #expect(other != nil && other?.code != .loginRequired, "\(other?.message ?? "")")
        let introspection = await #expect(throws: AuthError.self) { try await elsewhere.introspect(tokens.accessToken) }
        #expect(introspection?.code == .loginRequired)
    }

    // MARK: Revocation

    /// RFC 7009 section 2.1: when the refresh token is revoked, the server should also invalidate its access tokens.
    @Test(
        arguments: [
            ("invalid_token", true, true), ("unsupported_token_type", true, true),
            ("unsupported_token_type", false, false), ("server_error", true, false),
        ],
        [HTTPResponse.Status.badRequest, .ok]
    )
    func theErrorForTheAccessTokenDeterminesTheResultOfTheRevocation(
        _ response: (error: String, refreshes: Bool, isDone: Bool),
        _ status: HTTPResponse.Status
    ) async throws {
        let (error, refreshes, isDone) = response
        let network = RevocationResponses(life.environment.transport, error, status)
        let scopes = ["openid", "profile"] + (refreshes ? ["offline_access"] : [])
        let client = try life.client(store: store, transport: network, scopes: scopes)
        _ = try await client.signIn()
        let outcome = try await client.signOut().revocation
        switch outcome {
        case .done: #expect(isDone)
        case .unsupported(let words):
            #expect(!isDone && words.contains("access token") && error == "unsupported_token_type")
        default: #expect(error == "server_error")
        }
    }

    /// A network in which the key set cannot be fetched.
    private final class KeysOutOfReach: HTTPTransport {
        private let base: any HTTPTransport
        init(_ base: any HTTPTransport) { self.base = base }
        func send(_ call: TransportRequest) async throws -> TransportResponse {
            guard call.head.path?.contains("jwks") != true else {
                throw AuthError(.networkFailed, "The network is down.")
            }
            return try await base.send(call)
        }
    }

    /// Rejects the revocation of access tokens.
    private final class RevocationResponses: HTTPTransport {
        private let base: any HTTPTransport
        private let error: String
        private let status: HTTPResponse.Status
        init(_ base: any HTTPTransport, _ error: String, _ status: HTTPResponse.Status) {
            (self.base, self.error, self.status) = (base, error, status)
        }
        func send(_ call: TransportRequest) async throws -> TransportResponse {
            guard call.head.path == "/revoke",
                String(decoding: call.body, as: UTF8.self).contains("token_type_hint=access_token")
            else { return try await base.send(call) }
            return TransportResponse(
                head: HTTPResponse(status: status, headerFields: [.contentType: "application/json"]),
                body: Array("{\"error\": \"\(error)\"}".utf8)
            )
        }
    }
}
