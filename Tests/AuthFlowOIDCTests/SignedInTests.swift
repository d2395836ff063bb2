import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// Operations for a signed-in user: accounts, API calls and sign-out.
@Suite struct SignedInTests {
    private let life: TokenLifeEnvironment

    init() throws { self.life = try TokenLifeEnvironment() }

    // MARK: Accounts

    @Test func managesMultipleAccountsIndependently() async throws {
        let store = MemoryTokenStore()
        let alice = try life.client(store: store)
        _ = try await alice.signIn()
        let bob = try life.client(store: store, user: .bob)
        let error = await #expect(throws: AuthError.self) { try await bob.signIn() }
        #expect(error?.code == .accountMismatch)
        #expect(try await alice.accounts().map(\.displayName) == ["Alice Example"])

        _ = try await bob.signIn(.addAccount)
        #expect(try await alice.accounts().map(\.displayName) == ["Bob Example", "Alice Example"])
        #expect(try await bob.freshTokens() == bob.credential()?.tokens)
        try await bob.selectAccount("248289761001")
        #expect(try await life.client(store: store).credential()?.identity?.displayName == "Alice Example")
        await expectError(.loginRequired) { try await bob.selectAccount("nobody") }

        // A client for one account ignores the other accounts.
        let own = try life.client(store: store, account: "248289761002")
        #expect(try await own.credential()?.identity?.displayName == "Bob Example")
        life.time.advance(3600)
        let refreshed = try await own.freshTokens()
        #expect(try await own.credential()?.tokens == refreshed)
        #expect(try await alice.credential()?.identity?.displayName == "Alice Example")
        let stranger = try life.client(store: store, account: "1")
        let missing = await #expect(throws: AuthError.self) { try await stranger.freshTokens() }
        #expect(missing?.message.contains("\"1\" is not signed in") == true)

        _ = try await own.signOut()
        #expect(try await alice.accounts().map(\.displayName) == ["Alice Example"])
        _ = try await bob.signIn(.replaceAccount)
        #expect(try await bob.accounts().map(\.displayName) == ["Bob Example"])
    }

    @Test func anotherUsersSignInAfterTheEndOfASessionIsRejectedWithTheReason() async throws {
        let store = MemoryTokenStore()
        let alice = try life.client(store: store)
        _ = try await alice.signIn()
        life.environment.emulator.endSessions()
        await #expect(throws: AuthError.self) { try await alice.refresh() }
        let bob = try life.client(store: store, user: .bob)
        let error = await #expect(throws: AuthError.self) { try await bob.signIn() }
        #expect(error?.code == .accountMismatch)
        #expect(
            error?.message.contains("the account of Alice Example is still stored here") == true,
            "\(error?.message ?? "")"
        )
        _ = try await bob.signIn(.replaceAccount)
    }

    @Test(arguments: [AccountPolicy.sameAccount, .addAccount, .replaceAccount])
    func aClientForOneAccountRejectsOtherUsers(_ policy: AccountPolicy) async throws {
        let store = MemoryTokenStore()
        _ = try await life.client(store: store, user: .bob).signIn()
        for account in ["248289761002", "nobody"] {
            let client = try life.client(store: store, account: account)
            let error = await #expect(throws: AuthError.self) { try await client.signIn(policy) }
            #expect(error?.code == .accountMismatch)
            #expect(error?.message.contains("the account \(account) was requested") == true)
        }
        #expect(try await life.client(store: store).accounts().map(\.displayName) == ["Bob Example"])
        // The requested user can be added, although another user is signed in.
        _ = try await life.client(store: store, account: "248289761001").signIn(policy)
        #expect(try await life.client(store: store).accounts().count == 2)
    }

    @Test func aLocalSignOutOfOneAccountLeavesTheOthers() async throws {
        let store = MemoryTokenStore()
        let alice = try life.client(store: store)
        _ = try await alice.signIn()
        _ = try await life.client(store: store, user: .bob).signIn(.addAccount)
        let named = try life.client(store: store, account: "248289761001")
        #expect(try await named.signOutLocally())
        #expect(try await !named.signOutLocally())
        #expect(try await alice.accounts().map(\.displayName) == ["Bob Example"])
        #expect(try await alice.signOutLocally())
        #expect(try await alice.accounts().isEmpty)
    }

    /// A store whose leases, reads or writes fail.
    private final class BrokenStore: TokenStore {
        enum Fault { case leases, reads, writes }

        private let base = MemoryTokenStore()
        private let code: AuthError.Code
        let fault = Mutex<Fault?>(nil)

        init(code: AuthError.Code = .storageFailed) { self.code = code }

        private func fail(_ fault: Fault) throws {
            if self.fault.withLock({ $0 }) == fault { throw AuthError(code, "The store is broken.") }
        }

        func bytes(for key: RecordKey) async throws -> [UInt8]? {
            try fail(.reads)
            return await base.bytes(for: key)
        }

        func write(_ bytes: [UInt8]?, under lease: Lease) async throws {
            // As on a full disk, removals succeed, because they need no space.
            if bytes != nil { try fail(.writes) }
            try await base.write(bytes, under: lease)
        }

        func withLease<Return: Sendable>(
            on key: RecordKey,
            _ body: (Lease) async throws -> Return
        ) async throws -> Return {
            try fail(.leases)
            return try await base.withLease(on: key, body)
        }
    }

    /// A client whose store can no longer be locked, or no longer be read, once Bob has signed in.
    private func clientWhoseStoreBreaks(
        _ store: BrokenStore,
        account: String? = nil,
        fault: BrokenStore.Fault = .leases
    ) throws -> AuthClient {
        try life.client(
            store: store,
            user: .bob,
            account: account,
            observer: { if $0.step == .codeExchange { store.fault.withLock { $0 = fault } } }
        )
    }

    @Test(arguments: [AccountPolicy.sameAccount, .addAccount, .replaceAccount])
    func aClientForOneAccountRejectsOtherUsersIfTheStoreCannotBeLocked(_ policy: AccountPolicy) async throws {
        let store = BrokenStore()
        _ = try await life.client(store: store).signIn()
        let client = try clientWhoseStoreBreaks(store, account: "248289761001")
        await expectError(.accountMismatch) { try await client.signIn(policy) }
        store.fault.withLock { $0 = nil }
        #expect(try await client.credential()?.identity?.displayName == "Alice Example")
        #expect(try await client.accounts().count == 1)
    }

    @Test(arguments: [AccountPolicy.sameAccount, .addAccount, .replaceAccount])
    func theAccountPolicyAppliesIfTheStoreCannotBeLocked(_ policy: AccountPolicy) async throws {
        let store = BrokenStore()
        _ = try await life.client(store: store).signIn()
        let client = try clientWhoseStoreBreaks(store)
        if policy == .sameAccount {
            await expectError(.accountMismatch) { try await client.signIn(policy) }
        } else {
            #expect(try await client.signIn(policy).storageError?.code == .storageFailed)
        }
        store.fault.withLock { $0 = nil }
        let current = try await client.credential()?.identity?.displayName
        #expect(current == (policy == .sameAccount ? "Alice Example" : "Bob Example"))
        // The next change to the accounts stores the sign-in, and removes the account that it replaces.
        if policy != .sameAccount { try await client.selectAccount("248289761002") }
        let names = try await life.client(store: store).accounts().map(\.displayName)
        #expect(Set(names) == Set(["Alice Example", "Bob Example"].filter { policy == .addAccount || $0 == current }))
    }

    @Test(arguments: [AccountPolicy.sameAccount, .addAccount, .replaceAccount])
    func theAccountPolicyAppliesOnceTheStoreCanBeReadAgain(_ policy: AccountPolicy) async throws {
        let store = BrokenStore()
        _ = try await life.client(store: store).signIn()
        let client = try clientWhoseStoreBreaks(store, fault: .reads)
        let signIn = try await client.signIn(policy)
        #expect(signIn.storageError?.code == .storageFailed)
        #expect(try await client.freshTokens() == signIn.credential.tokens)
        #expect(await !client.drain())
        store.fault.withLock { $0 = nil }
        #expect(await client.drain())
        let current = policy == .sameAccount ? "Alice Example" : "Bob Example"
        #expect(try await client.credential()?.identity?.displayName == current)
        let names = try await life.client(store: store).accounts().map(\.displayName)
        #expect(Set(names) == Set(["Alice Example", "Bob Example"].filter { policy == .addAccount || $0 == current }))
        let revoked = life.environment.emulator.receivedRequests.compactMap {
            $0.path == "/revoke" ? $0.form["token"] : nil
        }
        #expect(revoked.contains(signIn.credential.tokens.accessToken.exposed) == (policy == .sameAccount))
    }

    /// The record is damaged until it is restored from a backup, or cannot be decrypted until the key is available.
    @Test(arguments: [AuthError.Code.credentialUnusable, .storeDamaged, .keyUnavailable])
    func aSignInIsStoredOnceTheStoreHasBeenRepaired(_ code: AuthError.Code) async throws {
        let store = BrokenStore(code: code)
        let client = try clientWhoseStoreBreaks(store, fault: .reads)
        let signIn = try await client.signIn()
        #expect(signIn.storageError?.code == code)
        #expect(await !client.drain())
        #expect(client.hasUnfinishedWork)
        store.fault.withLock { $0 = nil }
        #expect(await client.drain())
        #expect(try await life.client(store: store).credential()?.tokens == signIn.credential.tokens)
    }

    @Test(arguments: ["valid", "rejected", "expired", "another account"])
    func ifTheStoreCannotBeLockedOnlyUsableTokensOfTheSameAccountAreReturned(_ token: String) async throws {
        let store = BrokenStore()
        let client = try life.client(store: store)
        let tokens = try await client.signIn().credential.tokens
        _ = try await life.client(store: store, user: .bob).signIn(.addAccount)
        try await client.selectAccount("248289761001")
        // Within the margin, a refresh is attempted.
        life.time.advance(token == "expired" ? 3601 : 3590)
        store.fault.withLock { $0 = .leases }
        switch token {
        case "valid": #expect(try await client.freshTokens().accessToken == tokens.accessToken)
        case "another account":
            await expectError(.storageFailed) { try await client.freshTokens(account: "248289761002") }
        case "rejected":
            await expectError(.storageFailed) {
                try await client.perform { _ in throw AuthError(.accessTokenRejected, "Rejected.") }
            }
        default: await expectError(.storageFailed) { try await client.freshTokens() }
        }
    }

    @Test func aLocalSignOutDoesNotRemoveAccountsIfTheStoreCannotBeRead() async throws {
        let store = BrokenStore()
        _ = try await life.client(store: store).signIn()
        _ = try await life.client(store: store, user: .bob).signIn(.addAccount)
        store.fault.withLock { $0 = .reads }
        await expectError(.storageFailed) {
            _ = try await life.client(store: store, account: "248289761002").signOutLocally()
        }
        store.fault.withLock { $0 = nil }
        #expect(try await life.client(store: store).accounts().count == 2)
    }

    @Test func aLocalSignOutDoesNotRemoveAccountsIfTheStoreCannotBeWritten() async throws {
        let store = BrokenStore()
        _ = try await life.client(store: store).signIn()
        _ = try await life.client(store: store, user: .bob).signIn(.addAccount)
        store.fault.withLock { $0 = .writes }
        await expectError(.storageFailed) {
            _ = try await life.client(store: store, account: "248289761002")
                .signOutLocally(discardingUnreadable: true)
        }
        store.fault.withLock { $0 = nil }
        #expect(try await life.client(store: store).accounts().count == 2)
    }

    @Test func aLocalSignOutOfOneAccountRemovesAnUnreadableRecordOnlyIfAsked() async throws {
        let base = MemoryTokenStore()
        let store = EncryptedTokenStore(base, key: .passphrase(Secret("right")))
        _ = try await life.client(store: store).signIn()
        _ = try await life.client(store: store, user: .bob).signIn(.addAccount)
        let wrong = EncryptedTokenStore(base, key: .passphrase(Secret("wrong")))
        let client = try life.client(store: wrong, account: "248289761002")
        await expectError(.credentialUnusable) { _ = try await client.signOutLocally() }
        #expect(try await life.client(store: store).accounts().count == 2)
        #expect(try await client.signOutLocally(discardingUnreadable: true))
        #expect(try await life.client(store: store).accounts().isEmpty)
    }

    // MARK: Calling an API

    @Test func sendsTheTokenOnlyToConfiguredAPIOrigins() async throws {
        let client = try life.client(apiOrigins: [Endpoint("https://id.example.com")])
        _ = try await client.signIn()
        let call = TransportRequest(.get, Endpoint("https://id.example.com/userinfo"))
        #expect(try await client.send(call).status == 200)
        let elsewhere = TransportRequest(.get, Endpoint("https://id.example.com.evil.example.com/userinfo"))
        let refused = await #expect(throws: AuthError.self) { try await client.send(elsewhere) }
        #expect(refused?.code == .invalidConfiguration)
        var own = call
        own.head.headerFields[.authorization] = "Basic x"
        let twice = own
        await expectError(.invalidConfiguration) { try await client.send(twice) }
    }

    @Test func refreshesOnceWhenAnAPIRejectsTheToken() async throws {
        let client = try life.client(apiOrigins: [Endpoint("https://id.example.com")])
        let first = try await client.signIn().credential.tokens
        // The token is revoked at the provider, bypassing this client.
        _ = try await life.environment.transport.send(
            TransportRequest(
                .post,
                Endpoint("https://id.example.com/revoke"),
                headerFields: [.contentType: "application/x-www-form-urlencoded"],
                body: Array("client_id=authflow-demo&token=\(first.accessToken.exposed)".utf8)
            )
        )
        let response = try await client.send(TransportRequest(.get, Endpoint("https://id.example.com/userinfo")))
        #expect(response.status == 200)
        #expect(life.refreshes == 1)
    }

    /// RFC 9470: a refresh is not an authentication of the user.
    @Test func doesNotRefreshWhenAnAPIRequiresAStrongerAuthentication() async throws {
        struct API: HTTPTransport {
            let base: any HTTPTransport
            func send(_ request: TransportRequest) async throws -> TransportResponse {
                guard request.url.hasPrefix("https://api.example.com/") else { return try await base.send(request) }
                let challenge = #"Bearer error="insufficient_user_authentication", acr_values="mfa""#
                return TransportResponse(
                    head: HTTPResponse(status: .unauthorized, headerFields: [.wwwAuthenticate: challenge])
                )
            }
        }
        let client = try life.client(
            transport: API(base: life.transport),
            apiOrigins: [Endpoint("https://api.example.com")]
        )
        _ = try await client.signIn()
        let response = try await client.send(TransportRequest(.get, Endpoint("https://api.example.com/payments")))
        #expect(response.status == 401)
        #expect(life.refreshes == 0)
    }

    // MARK: Signing out

    @Test func signOutRevokesAndDeletesTheTokens() async throws {
        let client = try life.client()
        let tokens = try await client.signIn().credential.tokens
        let signOut = try await client.signOut()
        #expect(signOut.credential?.displayName == "Alice Example")
        guard case .done = signOut.revocation, case .nothingToDo = signOut.endSession else {
            Issue.record("\(signOut)")
            return
        }
        let revoked = life.environment.emulator.receivedRequests.filter { $0.path == "/revoke" }.map {
            $0.form["token_type_hint"]
        }
        #expect(revoked == ["refresh_token", "access_token"])
        #expect(life.environment.emulator.receivedRequests.last?.form["token"] == tokens.accessToken.exposed)
        #expect(try await client.credential() == nil)
        await expectError(.loginRequired) { try await client.freshTokens() }
        #expect(try await client.signOut().credential == nil)
    }

    /// If the store has removed the record although it reports a failure, no later sign-out would find the tokens.
    @Test(arguments: [true, false]) func aSignOutWithAStoreErrorRevokesTheTokensOnlyIfTheyWereRemoved(
        isRemoved: Bool
    ) async throws {
        let store = FailingStore()
        let client = try life.client(store: store)
        _ = try await client.signIn()
        store.fail(true, afterWriting: isRemoved)
        let error = await #expect(throws: AuthError.self) { try await client.signOut() }
        #expect(error?.code == .storageFailed)
        #expect(error?.message.hasSuffix("The tokens that were removed have been revoked.") == isRemoved)
        #expect(life.environment.emulator.receivedRequests.contains { $0.path == "/revoke" } == isRemoved)
    }

    @Test func signOutDeletesTheTokensEvenWhenRevocationFails() async throws {
        let client = try life.client()
        _ = try await client.signIn()
        life.transport.takeDown()
        let offline = try await client.signOut()
        guard case .failed = offline.revocation else {
            Issue.record("\(offline)")
            return
        }
        #expect(try await client.credential() == nil)

        life.transport.takeDown(false)
        life.environment.emulator.fault = .metadata(.member("revocation_endpoint", nil))
        let other = try life.client()
        _ = try await other.signIn()
        let unsupported = try await other.signOut(endingSession: true)
        guard case .unsupported = unsupported.revocation, case .unsupported = unsupported.endSession else {
            Issue.record("\(unsupported)")
            return
        }
        #expect(try await other.credential() == nil)
    }

    /// Some providers send every error with status 200.
    @Test func aServerErrorOfTheIntrospectionEndpointIsTemporaryEvenWithStatus200() async throws {
        let issuer = "https://id.example.com"
        let metadata: JSON = [
            "issuer": .string(issuer), "introspection_endpoint": .string("\(issuer)/introspect"),
        ]
        let transport = InProcessTransport(origin: issuer) { request, _ in
            let body: JSON = request.path == "/introspect" ? ["error": "server_error"] : metadata
            return TransportResponse(head: HTTPResponse(status: .ok), body: try body.serialized())
        }
        let client = OAuthClient(
            server: AuthorizationServer(issuer: issuer, transport: transport),
            registration: try ClientRegistration(clientID: "client")
        )
        await expectError(.temporarilyUnavailable) { try await client.introspect(Secret("token")) }
    }

    @Test func introspectsTokens() async throws {
        let client = try life.client()
        _ = try await client.signIn()
        // The provider does not allow introspection by a public client.
        let refused = await #expect(throws: AuthError.self) { try await client.introspect() }
        #expect(refused?.code == .providerRejected)
        let confidential = EmulatorEnvironment(
            try OIDCEmulator(
                issuer: "https://id.example.com",
                clients: [.init(id: "c", secret: "s", authenticationMethod: "client_secret_basic")]
            )
        )
        var settings = try EmulatorEnvironment.registration()
        settings.clientID = "c"
        settings.authentication = .clientSecretBasic(Secret("s"))
        settings.scopes.append("offline_access")
        let trusted = try confidential.client(registration: settings)
        let tokens = try await trusted.signIn().credential.tokens
        let refreshToken = try #require(tokens.refreshToken)
        #expect(try await trusted.introspect()["active"] == true)
        #expect(try await trusted.introspect(Secret("other"))["active"] == false)
        let description = try await trusted.introspect(refreshToken, typeHint: "refresh_token")
        #expect(description["active"] == true && description["token_type"] == "refresh_token")
        // A rotated refresh token can be used only once.
        _ = try await trusted.refresh()
        #expect(try await trusted.introspect(refreshToken, typeHint: "refresh_token")["active"] == false)
    }

    @Test func publishesEventsToAnyNumberOfReaders() async throws {
        let events = FlowEventStream()
        let client = try life.client(observer: events.observer)
        let streams = (0..<2).map { _ in events.stream() }
        _ = try await client.signIn()
        for stream in streams {
            for await event in stream where event.step == .storing && event.progress == .succeeded { break }
        }
    }
}
