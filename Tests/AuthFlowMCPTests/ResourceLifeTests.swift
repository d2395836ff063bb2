import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import ConformanceRows
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// The lifecycle of a resource's tokens after sign-in, including failures that are common in MCP clients.
@Suite struct ResourceLifeTests {
    @Test(arguments: EmulatorEnvironment.Setting.allCases)
    func concurrentClientsShareOneRegistrationAndOneSignIn(_ setting: EmulatorEnvironment.Setting) async throws {
        try await ResourceEnvironment.with(setting, refreshing()) { environment in
            let store = MemoryTokenStore()
            let clients = try (0..<10).map { _ in try environment.client(store: store) }
            try await withThrowingTaskGroup(of: Int.self) { group in
                for client in clients { for _ in 0..<3 { group.addTask { try await listTools(client) } } }
                for try await status in group { #expect(status == 200) }
            }
            #expect(environment.emulator.authorizations.count == 1)
            #expect(environment.emulator.registrations == 1)
            #expect(environment.emulator.violations.isEmpty)
        }
    }

    /// RFC 8414 section 3.1: an issuer with and without a terminating slash has the same metadata URL, but the metadata
    /// contains only one of the two forms.
    @Test func theIssuerOfAResourceMayHaveASlashThatTheServerDoesNotUse() async throws {
        var settings = refreshing()
        settings.authorizationServer = "https://api.example.com/"
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            let store = MemoryTokenStore()
            let client = try environment.client(store: store)
            #expect(try await listTools(client) == 200)
            #expect(try await client.issuer() == "https://api.example.com")
            // The metadata is read again after a rejected token.
            environment.emulator.revokeAccessTokens()
            #expect(try await listTools(try environment.client(store: store)) == 200)
            #expect(environment.emulator.authorizations.count == 1)
            #expect(environment.emulator.registrations == 1)
        }
    }

    /// If the issuer has a path, a terminating slash makes it a different issuer.
    @Test func theSpellingOfAnIssuerWithAPathMatters() async throws {
        var settings = refreshing()
        settings.issuerPaths = ["/tenant"]
        settings.authorizationServer = "https://api.example.com/tenant/"
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            let client = try environment.client()
            let error = await #expect(throws: AuthError.self) { try await listTools(client) }
            #expect(error?.code == .issuerMismatch, "\(String(describing: error))")
        }
    }

    @Test func bearerTokensAreNotUsedOnceTheClientRequiresDPoP() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let store = MemoryTokenStore()
            #expect(try await listTools(try environment.client(store: store)) == 200)
            var options = ResourceClient.Options()
            options.usesDPoP = true
            let client = try environment.client(store: store, options: options)
            // The user signs in again, and this server does not issue bound tokens.
            await expectError(.unsupported) { try await listTools(client) }
            #expect(environment.emulator.authorizations.count == 2)
            #expect(try await client.signOutLocally())
        }
    }

    @Test func signOutRemovesTheTokensOfAnInterruptedSignIn() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let store = MemoryTokenStore()
            #expect(try await listTools(try environment.client(store: store)) == 200)
            let key = RecordKey(name: environment.emulator.resource, issuer: "", clientID: "", kind: .protectedResource)
            try await store.withLease(on: key) { lease in
                let record = try JSON(parsing: try #require(try await store.bytes(under: lease)))
                try await store.write(try JSON.object(["others": [record]]).serialized(), under: lease)
            }
            let client = try environment.client(store: store)
            #expect(try await client.issuer() == nil)
            #expect(try await client.signOut().credential != nil)
            #expect(try await listTools(client) == 200)
            #expect(environment.emulator.authorizations.count == 2)
        }
    }

    @Test func aSignInWithAnotherClientRemovesThePreviousClientsTokens() async throws {
        var settings = refreshing()
        settings.registeredClients = ["pre-registered": "secret"]
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            let store = MemoryTokenStore()
            #expect(try await listTools(try environment.client(store: store)) == 200)
            let registered = try environment.registered("pre-registered") {
                $0.authentication = .clientSecretBasic(Secret("secret"))
            }
            #expect(try await listTools(try environment.client(registered: registered, store: store)) == 200)
            #expect(environment.emulator.authorizations.count == 2)
            // The first client must not use its old tokens without a new sign-in.
            #expect(try await listTools(try environment.client(store: store)) == 200)
            #expect(environment.emulator.authorizations.count == 3)
        }
    }

    @Test func aTokenForAnotherResourceIsNotReturned() async throws {
        let settings = refreshing { ($0.metadataPlace, $0.challengeNamesMetadata) = (.none, false) }
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            let store = MemoryTokenStore()
            var options = ResourceClient.Options()
            options.resource = "https://api.example.com/another"
            options.assumesAuthorizationServerAtOrigin = true
            let wide = try environment.client(store: store, options: options)
            _ = try await wide.signIn()
            #expect(try await wide.freshCredential().resources == ["https://api.example.com/another"])
            await expectError(.loginRequired) { _ = try await environment.client(store: store).freshCredential() }
        }
    }

    @Test func tokensOfAMetadataDocumentClientAreNotUsedByAnotherClient() async throws {
        let settings = refreshing {
            $0.supportsMetadataDocuments = true
            $0.registeredClients = ["pre-registered": "secret"]
        }
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            let store = MemoryTokenStore()
            var options = ResourceClient.Options()
            options.clientMetadataDocument = "https://client.example.com/client.json"
            #expect(try await listTools(try environment.client(store: store, options: options)) == 200)
            _ = try await environment.client(store: store, options: options).freshCredential()
            let registered = try environment.registered("pre-registered") { _ in }
            let others = [
                try environment.client(store: store),
                try environment.client(registered: registered, store: store, options: options),
            ]
            for other in others { await expectError(.loginRequired) { try await other.freshCredential() } }
        }
    }

    @Test func tokensOfARegisteredClientAreNotUsedWithAnotherAuthorizationServer() async throws {
        var settings = refreshing()
        settings.registeredClients = ["pre-registered": "secret"]
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            let store = MemoryTokenStore()
            let registration = try ClientRegistration(clientID: "pre-registered") {
                $0.scopes = []
                $0.authentication = .clientSecretBasic(Secret("secret"))
            }
            func client(_ issuer: String) throws -> ResourceClient {
                let server = AuthorizationServer(issuer: issuer, transport: environment.transport)
                let registered = OAuthClient(server: server, registration: registration)
                return try environment.client(registered: registered, store: store)
            }
            _ = try await client("https://api.example.com").signIn()
            _ = try await client("https://api.example.com").freshCredential()
            await expectError(.loginRequired) { try await client("https://id.example.net").freshCredential() }
        }
    }

    @Test func anEmptyListOfRedirectURIsIsRejected() async throws {
        try await ResourceEnvironment.with(.inProcess) { environment in
            var options = ResourceClient.Options()
            options.redirectURIs = []
            let error = #expect(throws: AuthError.self) { _ = try environment.client(options: options) }
            #expect(error?.code == .invalidConfiguration && error?.message.contains("redirect URIs is empty") == true)
        }
    }

    @Test func signOutPreservesTheRecordOfASignInCompletedDuringRevocation() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let store = MemoryTokenStore()
            #expect(try await listTools(try environment.client(store: store)) == 200)
            // A sign-out removes the tokens from the store before it sends its first request, which is a revocation request.
            let transport = BeforeFirstRequest(base: environment.transport, to: "/") {
                let status = try await listTools(try environment.client(store: store))
                #expect(status == 200)
            }
            let client = try ResourceEnvironment(emulator: environment.emulator, transport: transport).client(
                store: store
            )
            _ = try await client.signOut()
            #expect(environment.emulator.authorizations.count == 2)
            #expect(try await environment.client(store: store).issuer() != nil)
            #expect(try await environment.client(store: store).signOut().credential != nil)
        }
    }

    /// A process that signs in may be killed after it has stored the tokens, so the record must name them even if another process signs out
    /// while the page is open.
    @Test func signOutPreservesTheRecordOfASignInInProgress() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let store = MemoryTokenStore()
            let key = RecordKey(name: environment.emulator.resource, issuer: "", clientID: "", kind: .protectedResource)
            let record = Mutex<[UInt8]?>(nil)
            let transport = BeforeFirstRequest(base: environment.transport, to: "/token") {
                let signOut = try await environment.client(store: store).signOut()
                #expect(signOut.credential == nil)
                let bytes = await store.bytes(for: key)
                record.withLock { $0 = bytes }
            }
            let client = try ResourceEnvironment(emulator: environment.emulator, transport: transport).client(
                store: store
            )
            #expect(try await listTools(client) == 200)
            // The record at the time of the kill.
            try await store.withLease(on: key) { try await store.write(record.withLock { $0 }, under: $0) }
            #expect(try await environment.client(store: store).signOut().credential != nil)
        }
    }

    /// The first lease on the sign-in lock is lost before the page is opened, as after a pause.
    @Test func aPageIsNotOpenedUnderALostLease() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let store = LostSignInLockStore()
            let status = try await listTools(try environment.client(store: store))
            #expect(status == 200)
            #expect(environment.emulator.authorizations.count == 1)
            #expect(store.acquisitions == 2)
        }
    }

    /// A store in which the first lease on the sign-in lock is lost immediately.
    private final class LostSignInLockStore: ForwardingStore {
        let base = MemoryTokenStore()
        private let count = Mutex(0)

        var acquisitions: Int { count.withLock { $0 } }

        func withLease<Return: Sendable>(
            on key: RecordKey,
            _ body: (Lease) async throws -> Return
        ) async throws -> Return {
            let isFirst = count.withLock { count in
                if key.kind == .signInLock { count += 1 }
                return key.kind == .signInLock && count == 1
            }
            return try await base.withLease(on: key) { lease in
                try await body(isFirst ? Lease(key: key, fence: lease.fence, isHeld: { false }) : lease)
            }
        }
    }

    @Test func signOutRemovesUserTokensAfterASwitchToClientCredentials() async throws {
        var settings = refreshing()
        settings.registeredClients = ["pre-registered": "secret"]
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            let store = MemoryTokenStore()
            let registered = try environment.registered("pre-registered") {
                $0.authentication = .clientSecretBasic(Secret("secret"))
            }
            #expect(try await listTools(try environment.client(registered: registered, store: store)) == 200)
            let machine = try environment.client(methods: [.clientCredentials], registered: registered, store: store)
            #expect(try await machine.signOut().credential != nil)
            #expect(try await listTools(try environment.client(registered: registered, store: store)) == 200)
            #expect(environment.emulator.authorizations.count == 2)
        }
    }

    @Test func aLocalSignOutRemovesARecordThatCannotBeRead() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let inner = MemoryTokenStore()
            let store = EncryptedTokenStore(inner, key: .store(MemoryTokenStore()))
            #expect(try await listTools(try environment.client(store: store)) == 200)
            let key = RecordKey(name: environment.emulator.resource, issuer: "", clientID: "", kind: .protectedResource)
            try await inner.set(Array("damaged".utf8), for: key)
            let client = try environment.client(store: store)
            await expectError(.credentialUnusable) { _ = try await client.issuer() }
            #expect(try await client.signOutLocally())
            #expect(try await client.issuer() == nil)
        }
    }

    /// A record that was written by another version, or that was damaged on disk.
    struct Damage: CustomTestStringConvertible {
        let testDescription: String
        let change: @Sendable (JSON) throws -> [UInt8]
    }

    private static func replacing(_ name: String, _ value: JSON) -> @Sendable (JSON) throws -> [UInt8] {
        { try JSON.object(($0.object ?? [:]).merging([name: value]) { $1 }).serialized() }
    }

    @Test(arguments: [
        Damage(testDescription: "not JSON") { _ in Array("x".utf8) },
        Damage(testDescription: "empty") { _ in [] },
        Damage(testDescription: "an array") { _ in Array("[]".utf8) },
        Damage(testDescription: "without sign-ins") { _ in Array("{}".utf8) },
        Damage(testDescription: "a newer method", change: replacing("identification", "federation")),
        Damage(testDescription: "a wrong type", change: replacing("scopes", "x")),
        Damage(testDescription: "an empty client ID", change: replacing("client_id", "")),
        Damage(testDescription: "another sign-in that is damaged", change: replacing("others", [["issuer": "x"]])),
    ])
    func aDamagedRecordPreventsTheSignOutAndALocalSignOutRemovesTheTokens(_ damage: Damage) async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let store = MemoryTokenStore()
            #expect(try await listTools(try environment.client(store: store)) == 200)
            let key = RecordKey(name: environment.emulator.resource, issuer: "", clientID: "", kind: .protectedResource)
            try await store.set(
                try damage.change(try JSON(parsing: try #require(await store.bytes(for: key)))),
                for: key
            )
            let client = try environment.client(store: store)
            await expectError(.credentialUnusable) { _ = try await client.signOut() }
            await expectError(.credentialUnusable) { _ = try await listTools(client) }
            #expect(try await client.signOutLocally())
            #expect(try await client.signOut().credential == nil)
            // The removed tokens are not used again.
            #expect(try await listTools(try environment.client(store: store)) == 200)
            #expect(environment.emulator.authorizations.count == 2)
        }
    }

    private static func damage(_ resource: String, in store: any TokenStore) async throws {
        try await store.set(Array("damaged".utf8), for: recordKey(resource))
    }

    private static func recordKey(_ resource: String) -> RecordKey {
        RecordKey(name: resource, issuer: "", clientID: "", kind: .protectedResource)
    }

    /// Tokens remained in the store after a sign-out, but no record refers to them. A later failed sign-in does not make
    /// them usable.
    @Test(arguments: [false, true]) func tokensThatTheRecordDoesNotNameAreNotUsed(_ fails: Bool) async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let store = MemoryTokenStore()
            let time = VirtualTime()
            #expect(try await listTools(try environment.client(store: store, host: time.host)) == 200)
            let key = Self.recordKey(environment.emulator.resource)
            try await store.withLease(on: key) { try await store.write(nil, under: $0) }
            time.advance(by: .seconds(90))
            if fails {
                environment.emulator.settings.denies = true
                await expectError(.accessDenied) {
                    try await listTools(try environment.client(store: store, host: time.host))
                }
                environment.emulator.settings.denies = false
            }
            time.advance(by: .seconds(90))
            #expect(try await listTools(try environment.client(store: store, host: time.host)) == 200)
            #expect(environment.emulator.authorizations.count >= (fails ? 3 : 2))
        }
    }

    /// The key may be lost, so that no record can ever be read again.
    @Test func aLocalSignOutSucceedsWithoutTheKeyOfTheStore() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let inner = MemoryTokenStore()
            let first = EncryptedTokenStore(inner, key: .store(MemoryTokenStore()))
            #expect(try await listTools(try environment.client(store: first)) == 200)
            let keys = MemoryTokenStore()
            // Creates another key.
            try await EncryptedTokenStore(MemoryTokenStore(), key: .store(keys)).set([1], for: Self.recordKey("x"))
            let second = EncryptedTokenStore(inner, key: .store(keys))
            let client = try environment.client(store: second)
            await expectError(.credentialUnusable) { _ = try await client.signOut() }
            #expect(try await client.signOutLocally())
            #expect(try await client.issuer() == nil)
        }
    }

    /// The sign-in history, the registration and the lists that refer to it were also encrypted with the lost key.
    @Test func aSignInSucceedsAfterALocalSignOutWithoutTheKeyOfTheStore() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let inner = MemoryTokenStore()
            let first = EncryptedTokenStore(inner, key: .store(MemoryTokenStore()))
            #expect(try await listTools(try environment.client(store: first)) == 200)
            let keys = MemoryTokenStore()
            // Creates another key.
            try await EncryptedTokenStore(MemoryTokenStore(), key: .store(keys)).set([1], for: Self.recordKey("x"))
            let second = EncryptedTokenStore(inner, key: .store(keys))
            let client = try environment.client(store: second)
            try await client.signOutLocally()
            #expect(try await listTools(client) == 200)
            #expect(environment.emulator.registrations == 2)
        }
    }

    /// The tokens of clients with different names are stored separately.
    @Test func aLocalSignOutOfADamagedRecordRemovesTheTokensOfItsOwnName() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let store = MemoryTokenStore()
            var options = ResourceClient.Options()
            options.name = "other"
            #expect(try await listTools(try environment.client(store: store)) == 200)
            #expect(try await listTools(try environment.client(store: store, options: options)) == 200)
            try await Self.damage(environment.emulator.resource, in: store)
            #expect(try await environment.client(store: store).signOutLocally())
            #expect(try await environment.client(store: store, options: options).status()?.credential != nil)
            #expect(try await listTools(try environment.client(store: store)) == 200)
            #expect(environment.emulator.authorizations.count == 3)
        }
    }

    /// `authflow curl --profile` calls `hasSignIn()` before it sends a token with more access.
    @Test func aFailedSignInDoesNotCountAsASignIn() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing { $0.denies = true }) { environment in
            let client = try environment.client()
            await expectError(.accessDenied) { try await client.signIn() }
            #expect(try await !client.hasSignIn())
            environment.emulator.settings.denies = false
            _ = try await client.signIn()
            #expect(try await client.hasSignIn())
        }
    }

    /// The resource identifier in the metadata may have a trailing slash.
    @Test func aLocalSignOutFindsTheTokensOfAResourceWithATrailingSlash() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let store = MemoryTokenStore()
            environment.emulator.settings.resource = environment.emulator.resource + "/"
            let client = try environment.client(store: store)
            #expect(try await listTools(client) == 200)
            try await Self.damage(environment.emulator.resource, in: store)
            #expect(try await environment.client(store: store).signOutLocally())
            #expect(try await listTools(try environment.client(store: store)) == 200)
            #expect(environment.emulator.authorizations.count == 2)
        }
    }

    /// Tokens that the record of another resource refers to are not removed.
    @Test func aLocalSignOutOfADamagedRecordKeepsTheTokensOfOtherResources() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let store = MemoryTokenStore()
            let client = try environment.client(store: store)
            #expect(try await listTools(client) == 200)
            let part = environment.emulator.resource + "/part"
            let other = try ResourceClient(
                part,
                methods: [.userAgent(try environment.userAgent())],
                store: store,
                transport: environment.transport
            )
            try await Self.damage(part, in: store)
            #expect(try await other.signOutLocally())
            #expect(try await environment.client(store: store).status()?.credential != nil)
        }
    }

    /// If the record were removed first, the next sign-out would report that there were no tokens.
    @Test func aDamagedRecordRemainsUntilItsTokensHaveBeenRemoved() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let store = RecordFailingStore(.credential)
            #expect(try await listTools(try environment.client(store: store)) == 200)
            try await Self.damage(environment.emulator.resource, in: store)
            store.fails.store(true, ordering: .relaxed)
            await expectError(.storageFailed) { try await environment.client(store: store).signOutLocally() }
            store.fails.store(false, ordering: .relaxed)
            #expect(try await environment.client(store: store).signOutLocally())
            #expect(try await listTools(try environment.client(store: store)) == 200)
            #expect(environment.emulator.authorizations.count == 2)
        }
    }

    @Test func aLocalSignOutThatCannotRemoveTheTokensFails() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let store = RecordFailingStore(.credential)
            let listed = try await listTools(try environment.client(store: store))
            store.fails.store(true, ordering: .relaxed)
            await expectError(.storageFailed) { try await environment.client(store: store).signOutLocally() }
            store.fails.store(false, ordering: .relaxed)
            let isSignedOut = try await environment.client(store: store).signOutLocally()
            #expect(listed == 200 && isSignedOut)
        }
    }

    /// The tokens are no longer in the store, so a later sign-out cannot report whether they were revoked.
    @Test func aSignOutWhoseRecordCannotBeWrittenReportsTheRevocation() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let store = RecordFailingStore(.protectedResource)
            #expect(try await listTools(try environment.client(store: store)) == 200)
            store.fails.store(true, ordering: .relaxed)
            let client = try environment.client(store: store)
            let error = await #expect(throws: AuthError.self) { _ = try await client.signOut() }
            #expect(error?.code == .storageFailed)
            #expect(error?.message.contains("The tokens that were removed") == true, "\(error?.message ?? "")")
        }
    }

    /// A store that cannot write records of one kind.
    private final class RecordFailingStore: ForwardingStore {
        let base = MemoryTokenStore()
        let fails = Atomic(false)
        private let kind: RecordKey.Kind

        init(_ kind: RecordKey.Kind) { self.kind = kind }

        func write(_ bytes: [UInt8]?, under lease: Lease) async throws {
            guard lease.key.kind != kind || !fails.load(ordering: .relaxed) else {
                throw AuthError(.storageFailed, "The record cannot be removed.")
            }
            try await base.write(bytes, under: lease)
        }
    }

    @Test func signOutRemovesTokensIssuedToAClientOtherThanTheConfiguredOne() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let store = MemoryTokenStore()
            #expect(try await listTools(try environment.client(store: store)) == 200)
            let another = try environment.registered("another-client") { _ in }
            #expect(try await environment.client(registered: another, store: store).signOutLocally())
            #expect(try await environment.client(store: store).issuer() == nil)
            #expect(try await listTools(try environment.client(store: store)) == 200)
            #expect(environment.emulator.authorizations.count == 2)
        }
    }

    /// The tokens that were issued to a registered client can be found only through the list of resources.
    @Test(arguments: [true, false])
    func aResourceRemainsListedUntilItsLastNamedSessionIsSignedOut(_ isRegistered: Bool) async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing { $0.registeredClients = ["work": "x"] }) {
            environment in
            let store = MemoryTokenStore()
            let client = try environment.client(store: store)
            _ = try await client.signIn()
            var options = ResourceClient.Options()
            options.name = "at work"
            let work = try environment.client(
                registered: isRegistered
                    ? try environment.registered("work") { $0.authentication = .clientSecretBasic(Secret("x")) } : nil,
                store: store,
                options: options
            )
            _ = try await work.signIn()
            let registration = try #require(try await client.status()).clientID
            // The list contains the URL once, and the named client's sign-in with the same registration is also found.
            #expect(try await KnownResources(store: store).addresses() == [environment.emulator.resource])
            #expect(try await work.isUsed(clientID: registration, at: environment.emulator.origin))
            #expect(try await work.signOut().credential != nil)
            #expect(try await KnownResources(store: store).addresses() == [environment.emulator.resource])
            #expect(try await work.isUsed(clientID: registration, at: environment.emulator.origin))
            #expect(try await client.signOut().credential != nil)
            #expect(try await KnownResources(store: store).addresses().isEmpty)
            #expect(try await !work.isUsed(clientID: registration, at: environment.emulator.origin))
        }
    }

    @Test func aResourceClientRejectsAClientConfiguredForOneAccount() throws {
        var options = AuthClient.Options()
        options.account = "alice"
        let emulator = ProtectedResourceEmulator(origin: "https://api.example.com", settings: refreshing())
        let environment = ResourceEnvironment(emulator: emulator, transport: InProcessTransport(emulator))
        let client = AuthClient(
            client: try environment.registered("work") { _ in },
            methods: [],
            store: MemoryTokenStore(),
            options: options
        )
        expectError(.invalidConfiguration) {
            try ResourceClient(emulator.resource, client: client, transport: environment.transport)
        }
    }

    /// RFC 9700 section 4.4: the resource's server presents another server's authorization endpoint as its own.
    @Test(arguments: [true, false])
    func aMixUpAttackFailsBeforeTheAuthorizationRequest(_ hasDocument: Bool) async throws {
        var settings = refreshing {
            ($0.advertisesIssuer, $0.issuer, $0.supportsMetadataDocuments) = (false, .missing, true)
        }
        let honest = ProtectedResourceEmulator(origin: "https://honest.example.com", settings: settings)
        settings.authorizationOrigin = honest.origin
        let hostile = ProtectedResourceEmulator(origin: "https://api.example.com", settings: settings)
        let environment = ResourceEnvironment(emulator: hostile, transport: InProcessTransport(honest, hostile))
        var options = ResourceClient.Options()
        if hasDocument { options.clientMetadataDocument = "https://client.example.com/client.json" }
        let client = try environment.client(options: options)
        let error = await #expect(throws: AuthError.self) { _ = try await listTools(client) }
        #expect(error?.code == .unsupported)
        #expect(honest.authorizations.isEmpty)
        #expect(hostile.registrations == 0)
        #expect(!hostile.requests.contains("POST /token"))
    }

    @Test func aServerWithoutTheIssParameterGetsADistinctRedirectURI() async throws {
        let settings = refreshing { ($0.advertisesIssuer, $0.issuer) = (false, .missing) }
        let store = MemoryTokenStore()
        var uris: Set<String> = []
        for origin in ["https://one.example.com", "https://two.example.com"] {
            let emulator = ProtectedResourceEmulator(origin: origin, settings: settings)
            let environment = ResourceEnvironment(emulator: emulator, transport: InProcessTransport(emulator))
            #expect(try await listTools(try environment.client(store: store)) == 200)
            let stored = try await StoredRegistrations(store: store, for: origin).registration(at: origin)
            uris.formUnion(
                Set(try #require(stored).redirectURIs.map { $0.uri.split(separator: "/").last.map(String.init) ?? "" })
            )
        }
        #expect(uris.count == 2)
    }

    @Test func aRegistrationIsNotReusedForAResourceOfAnotherOrigin() async throws {
        let honest = ProtectedResourceEmulator(origin: "https://api.example.com", settings: refreshing())
        let other = ProtectedResourceEmulator(
            origin: "https://other.example.com",
            settings: refreshing { $0.authorizationServer = honest.origin }
        )
        let (store, transport) = (MemoryTokenStore(), InProcessTransport(honest, other))
        let first = ResourceEnvironment(emulator: honest, transport: transport)
        #expect(try await listTools(try first.client(store: store)) == 200)
        let signIns = Mutex<[[String: String]]>([])
        let environment = ResourceEnvironment(emulator: other, transport: transport)
        let client = try ResourceClient(
            other.resource,
            methods: [.userAgent(try environment.userAgent())],
            store: store,
            transport: transport
        ) { event in
            if event.step == .authorizationRequest, event.details["resource"] != nil {
                signIns.withLock { $0.append(event.details) }
            }
        }
        _ = try? await listTools(client)
        #expect(honest.registrations == 2)
        #expect(signIns.withLock { $0.first?["issuer"] } == honest.origin)
        #expect(signIns.withLock { $0.first?["resource"] } == other.resource)
    }

    /// The query of a resource's URL may contain a key.
    @Test func theDetailsOfEventsContainNoQueryValuesOfTheResource() async throws {
        let address = "https://resource.example.com/mcp?key=0123"
        let emulator = ProtectedResourceEmulator(
            origin: "https://resource.example.com",
            settings: refreshing { $0.resource = address }
        )
        let transport = InProcessTransport(emulator)
        let environment = ResourceEnvironment(emulator: emulator, transport: transport)
        let details = Mutex<[FlowEvent.Step: [String: String]]>([:])
        let client = try ResourceClient(
            address,
            methods: [.userAgent(try environment.userAgent())],
            store: MemoryTokenStore(),
            transport: transport
        ) { event in
            if event.details["resource"] != nil { details.withLock { $0[event.step] = event.details } }
        }
        _ = try await client.signIn()
        for step in [FlowEvent.Step.discovery, .authorizationRequest] {
            #expect(details.withLock { $0[step]?["resource"] } == "https://resource.example.com/mcp?key=…")
        }
    }

    @Test func aResourceCanTriggerOnlyALimitedNumberOfSignInsPerHour() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing { $0.growsScopes = true }) { environment in
            let (time, store) = (VirtualTime(), MemoryTokenStore())
            for _ in 0..<10 {
                let client = try environment.client(store: store, host: time.host)
                await #expect(throws: AuthError.self) { _ = try await listTools(client) }
            }
            let pages = environment.emulator.authorizations.count
            #expect(pages == 6)
            let client = try environment.client(store: store, host: time.host)
            let error = await #expect(throws: AuthError.self) { _ = try await listTools(client) }
            #expect(error?.code == .loginRequired)
            // A sign-in that the user starts always opens a page, and resets the count, so requests open pages again.
            _ = try? await client.signIn()
            #expect(environment.emulator.authorizations.count == pages + 1)
            await expectError(.insufficientScope) { _ = try await listTools(client) }
            #expect(environment.emulator.authorizations.count > pages + 1)
        }
    }

    @Test(arguments: ["machine", "another-machine"])
    func signOutRemovesClientCredentialsTokensAfterAStepUp(_ clientID: String) async throws {
        let scenario = try #require(ResourceScenario.named("34"))
        try await ResourceEnvironment.with(.inProcess, scenario.settings) { environment in
            func client(_ name: String, _ store: MemoryTokenStore) throws -> ResourceClient {
                let registered = try environment.registered(name) {
                    $0.authentication = .clientSecretBasic(Secret("a secret: of both%kinds"))
                }
                return try environment.client(methods: [.clientCredentials], registered: registered, store: store)
            }
            let store = MemoryTokenStore()
            let machine = try client("machine", store)
            #expect(try await listTools(machine) == 200)
            let demand = AuthenticationChallenge(
                scheme: "Bearer",
                parameters: ["error": "insufficient_scope", "scope": "more"]
            )
            _ = try await machine.signIn(to: ResourceChallenge(status: 403, challenges: [demand]))
            #expect(await store.keys(after: nil, limit: 100).contains { $0.kind == .credential })
            // The client ID in the configuration may have changed since then.
            #expect(try await client(clientID, store).signOutLocally())
            #expect(await !store.keys(after: nil, limit: 100).contains { $0.kind == .credential })
        }
    }

    @Test(arguments: [503, 429])
    func aTransientClientCredentialsFailureDoesNotBlockTheNextRequest(_ status: Int) async throws {
        let scenario = try #require(ResourceScenario.named("34"))
        try await ResourceEnvironment.with(.inProcess, scenario.settings) { environment in
            var options = ResourceClient.Options()
            options.cooldownAfterFailure = .seconds(60)
            let registered = try environment.registered("machine") {
                $0.authentication = .clientSecretBasic(Secret("a secret: of both%kinds"))
            }
            let client = try environment.client(methods: [.clientCredentials], registered: registered, options: options)
            environment.emulator.settings.tokenStatus = status
            let error = await #expect(throws: AuthError.self) { _ = try await listTools(client) }
            #expect(error?.message.contains("page") == false)
            environment.emulator.settings.tokenStatus = nil
            #expect(try await listTools(client) == 200)
        }
    }

    @Test func waitingRequestsShareADeniedSignIn() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing { $0.denies = true }) { environment in
            let store = MemoryTokenStore()
            let clients = try (0..<5).map { _ in try environment.client(store: store) }
            await withTaskGroup(of: AuthError.Code?.self) { group in
                for client in clients {
                    group.addTask {
                        do { _ = try await listTools(client) } catch { return (error as? AuthError)?.code }
                        return nil
                    }
                }
                for await code in group { #expect(code == .accessDenied) }
            }
            // Tasks that start waiting after the failure open their own page.
            #expect(environment.emulator.authorizations.count < clients.count)
            var options = ResourceClient.Options()
            options.cooldownAfterFailure = .seconds(60)
            let before = environment.emulator.authorizations.count
            let resting = try environment.client(store: store, options: options)
            await expectError(.accessDenied) { _ = try await listTools(resting) }
            #expect(environment.emulator.authorizations.count == before)
            // A sign-in that the user requests opens a page immediately.
            environment.emulator.settings.denies = false
            _ = try await resting.signIn()
            #expect(try await listTools(resting) == 200)
        }
    }

    @Test func aTokenRejectedBeforeItsExpiryIsRefreshedOnceAndTheRequestRetried() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let client = try environment.client()
            #expect(try await listTools(client) == 200)
            environment.emulator.revokeAccessTokens()
            #expect(try await listTools(client) == 200)
            #expect(environment.emulator.refreshes == (1, 0))
            #expect(environment.emulator.authorizations.count == 1)
            #expect(environment.emulator.violations.isEmpty)
        }
    }

    @Test(arguments: [500, 502, 503, 429]) func aTransientRefreshFailureDoesNotEndTheSession(_ status: Int)
        async throws
    {
        try await ResourceEnvironment.with(.inProcess, refreshing { $0.tokenLifetime = 1 }) { environment in
            let time = VirtualTime()
            let store = MemoryTokenStore()
            let client = try environment.client(store: store, host: time.host)
            #expect(try await listTools(client) == 200)
            time.advance(by: .seconds(3600))
            environment.emulator.settings.tokenStatus = status
            let error = await #expect(throws: AuthError.self) { _ = try await listTools(client) }
            #expect(error?.code != .loginRequired)
            #expect(environment.emulator.authorizations.count == 1)
            #expect(try await client.status()?.credential != nil)
            time.advance(by: .seconds(3600))
            environment.emulator.settings.tokenStatus = nil
            environment.emulator.settings.tokenLifetime = 36_000
            #expect(try await listTools(client) == 200)
            #expect(environment.emulator.authorizations.count == 1)
        }
    }

    @Test func aDeletedRegistrationCostsOneNewRegistrationAndOneSignIn() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let time = VirtualTime()
            let store = MemoryTokenStore()
            let client = try environment.client(store: store, host: time.host)
            #expect(try await listTools(client) == 200)
            time.advance(by: .seconds(120))
            environment.emulator.removeClients()
            #expect(try await listTools(client) == 200)
            #expect(environment.emulator.registrations == 2)
            #expect(environment.emulator.authorizations.count == 2)
            #expect(try await listTools(try environment.client(store: store, host: time.host)) == 200)
            #expect(environment.emulator.registrations == 2)
        }
    }

    @Test func aDeletedRegistrationIsDetectedWhenTheTokenHasExpired() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing { $0.tokenLifetime = 60 }) { environment in
            let time = VirtualTime()
            let client = try environment.client(host: time.host)
            #expect(try await listTools(client) == 200)
            time.advance(by: .seconds(120))
            environment.emulator.removeClients()
            #expect(try await listTools(client) == 200)
            #expect(environment.emulator.registrations == 2)
            #expect(environment.emulator.authorizations.count == 2)
        }
    }

    @Test func aDeletedRegistrationIsDetectedBeforeASignInPageOpens() async throws {
        var settings = refreshing { $0.tokenLifetime = 60 }
        settings.refreshes = false
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            let time = VirtualTime()
            let client = try environment.client(host: time.host)
            #expect(try await listTools(client) == 200)
            time.advance(by: .seconds(120))
            environment.emulator.removeClients()
            #expect(try await listTools(client) == 200)
            #expect(environment.emulator.registrations == 2)
            // The second of the three requests is the probe, which is not visible to the user.
            #expect(environment.emulator.authorizations.count == 3)
        }
    }

    @Test func anExpiredTokenWithoutARefreshTokenIsReplacedByASignIn() async throws {
        var settings = refreshing { $0.tokenLifetime = 60 }
        settings.refreshes = false
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            let time = VirtualTime()
            let client = try environment.client(host: time.host)
            #expect(try await listTools(client) == 200)
            time.advance(by: .seconds(30))
            #expect(try await listTools(client) == 200)
            #expect(environment.emulator.authorizations.count == 1)
            time.advance(by: .seconds(60))
            #expect(try await listTools(client) == 200)
            // The two additional requests are the probe and the sign-in.
            #expect(environment.emulator.authorizations.count == 3)
            #expect(environment.emulator.registrations == 1)
        }
    }

    @Test func growingScopeChallengesOpenALimitedNumberOfSignInPages() async throws {
        // The tokens have expired before they are used, so each request is sent without a token.
        var settings = refreshing { ($0.tokenLifetime, $0.growsScopes) = (1, true) }
        settings.refreshes = false
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            let time = VirtualTime()
            var host = time.host
            host.now = { [now = host.now] in
                time.advance(by: .seconds(2))
                return now()
            }
            let client = try environment.client(host: host)
            await expectError(.accessTokenRejected) { _ = try await listTools(client) }
            #expect(environment.emulator.authorizations.count <= 3)
        }
        try await ResourceEnvironment.with(.inProcess, refreshing { $0.growsScopes = true }) { environment in
            let client = try environment.client()
            await expectError(.insufficientScope) { _ = try await listTools(client) }
            #expect(environment.emulator.authorizations.count <= 3)
        }
    }

    /// A server in front of an OpenID Provider may list that provider's scopes, and return no ID Token.
    @Test func aServerThatIsNotAnOpenIDProviderMayOmitTheIDToken() async throws {
        let settings = refreshing { ($0.challengeScopes, $0.toolScopes) = (["openid", "mcp:basic"], ["openid"]) }
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            let client = try environment.client()
            let credential = try await client.signIn()
            #expect(credential.identity == nil && credential.tokens.idToken == nil)
            #expect(environment.emulator.authorizations == [["openid", "mcp:basic"]])
            #expect(try await callTool(client) == 200)
            // The refreshed tokens have no ID Token, either.
            environment.emulator.revokeAccessTokens()
            #expect(try await callTool(client) == 200)
            #expect(environment.emulator.authorizations.count == 1)
        }
    }

    /// OpenID Connect Core section 3.1.3.3.
    @Test func anOpenIDProviderMustReturnAnIDToken() async throws {
        let (interceptor, environment) = Interceptor.environment()
        environment.emulator.settings.challengeScopes = ["openid"]
        interceptor.respond { [environment] call in
            guard call.head.path == "/.well-known/oauth-authorization-server" else { return nil }
            let origin = environment.emulator.origin
            return jsonResponse(
                .ok,
                [
                    "issuer": .string(origin), "authorization_endpoint": .string(origin + "/authorize"),
                    "token_endpoint": .string(origin + "/token"),
                    "registration_endpoint": .string(origin + "/register"), "jwks_uri": .string(origin + "/jwks"),
                    "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
                    "token_endpoint_auth_methods_supported": ["none"],
                    "id_token_signing_alg_values_supported": ["RS256"],
                ]
            )
        }
        await expectError(.invalidIDToken) { _ = try await environment.client().signIn() }
    }

    /// Some resources list scopes that their authorization server does not recognize.
    @Test func scopesThatOnlyTheResourceListsAreOmittedAfterTheServerHasRejectedThem() async throws {
        let settings = refreshing {
            ($0.challengeScopes, $0.supportedScopes, $0.serverScopes) = (nil, ["a", "odd", "b"], ["a", "b"])
            $0.unknownScopes = ["odd"]
        }
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            let store = MemoryTokenStore()
            let client = try environment.client(store: store)
            try await client.signIn()
            #expect(environment.emulator.authorizations == [["a", "odd", "b"], ["a", "b"]])
            #expect(try await listTools(client) == 200)
            // The next sign-in, in any process, does not request them again.
            try await environment.client(store: store).signIn()
            #expect(environment.emulator.authorizations.dropFirst(2) == [["a", "b"]])
            #expect(environment.emulator.registrations == 1)
        }
    }

    @Test func aRejectedScopeIsRequestedAgainAfterItHasBeenConfigured() async throws {
        let settings = refreshing {
            ($0.challengeScopes, $0.supportedScopes, $0.serverScopes) = (nil, ["a", "odd"], ["a"])
            ($0.unknownScopes, $0.registeredClients) = (["odd"], ["pre-registered": "secret"])
        }
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            let store = MemoryTokenStore()
            func signIn(_ scopes: [String]) async throws {
                let registered = try environment.registered("pre-registered") {
                    $0.authentication = .clientSecretBasic(Secret("secret"))
                    $0.scopes = scopes
                }
                try await environment.client(registered: registered, store: store).signIn()
            }
            try await signIn([])
            #expect(environment.emulator.authorizations == [["a", "odd"], ["a"]])
            environment.emulator.settings.unknownScopes = []
            try await signIn(["odd"])
            #expect(environment.emulator.authorizations.last == ["a", "odd"])
        }
    }

    /// A scope that the user has configured is not omitted silently, and without the server's list, it is unknown which scope was rejected.
    @Test(arguments: [(["odd"], ["a"]), ([], nil)] as [([String], [String]?)])
    func requiredScopesAreNotOmittedAfterTheServerHasRejectedThem(
        _ scopes: [String],
        _ listed: [String]?
    ) async throws {
        let settings = refreshing {
            ($0.challengeScopes, $0.supportedScopes, $0.serverScopes) = (nil, ["a", "odd"], listed)
            $0.unknownScopes = ["odd"]
        }
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            var options = ResourceClient.Options()
            options.scopes = scopes
            let client = try environment.client(options: options)
            await expectError(.providerRejected) { _ = try await client.signIn() }
            #expect(environment.emulator.authorizations == [["a", "odd"]])
        }
    }

    /// Some servers list all scopes of a large API in every challenge.
    @Test func aChallengeMayContainMoreThanAHundredScopes() async throws {
        let scopes = (0..<130).map { "scope-\($0)" }
        let settings = refreshing {
            ($0.challengeScopes, $0.supportedScopes) = (scopes, scopes)
            $0.serverScopes = scopes + ["offline_access"]
        }
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            try await environment.client().signIn()
            #expect(environment.emulator.authorizations == [scopes + ["offline_access"]])
        }
    }

    /// One request contains at most 300 scopes.
    @Test func configuredScopesTakePrecedenceIfScopesExceedTheRequestLimit() async throws {
        let settings = refreshing {
            ($0.challengeScopes, $0.supportedScopes) = (nil, (0..<320).map { "scope-\($0)" })
        }
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            var options = ResourceClient.Options()
            options.scopes = ["important"]
            let client = try environment.client(options: options)
            try await client.signIn()
            let requested = try #require(environment.emulator.authorizations.last)
            #expect(requested.contains("important"))
            #expect(requested.filter { $0 != "offline_access" }.count == 300)
        }
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            var options = ResourceClient.Options()
            options.scopes = (0..<301).map { "scope-\($0)" }
            let client = try environment.client(options: options)
            await expectError(.unsupported) { _ = try await client.signIn() }
            #expect(environment.emulator.authorizations.isEmpty)
        }
    }

    @Test(arguments: [(60, 1), (0, 3)])
    func alwaysRejectedTokensOpenOneSignInPagePerCooldown(_ cooldown: Int, _ pages: Int) async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing { $0.rejectsTokens = true }) { environment in
            var options = ResourceClient.Options()
            options.cooldownAfterFailure = .seconds(cooldown)
            let time = VirtualTime()
            let client = try environment.client(options: options, host: time.host)
            for _ in 0..<3 { await expectError(.accessTokenRejected) { _ = try await listTools(client) } }
            #expect(environment.emulator.authorizations.count == pages)
            time.advance(by: .seconds(61))
            await expectError(.accessTokenRejected) { _ = try await listTools(client) }
            // The registration is no longer recent, so an authorization request without a page checks it first.
            #expect(environment.emulator.authorizations.count == pages + 2)
        }
    }

    @Test func aRequestThatIsCancelledDoesNotEndTheSignIn() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let gate = AsyncStream<Void>.makeStream()
            let began = AsyncStream<Void>.makeStream()
            let inner = try environment.userAgent()
            let store = MemoryTokenStore()
            let client = try environment.client(
                methods: [.userAgent(GatedUserAgent(base: inner, began: began.continuation, gate: gate.stream))],
                store: store
            )
            let request = Task { try await listTools(client) }
            for await _ in began.stream { break }
            request.cancel()
            await #expect(throws: CancellationError.self) { _ = try await request.value }
            // The user completes the pending sign-in, and the next request uses its result.
            gate.continuation.finish()
            #expect(try await listTools(client) == 200)
            #expect(environment.emulator.authorizations.count == 1)
        }
    }

    @Test func aRegistrationIsReplacedOnlyWhenTheNewOneWorks() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let store = MemoryTokenStore()
            let client = try environment.client(store: store)
            #expect(try await listTools(client) == 200)
            let before = try await StoredRegistrations(store: store, for: environment.emulator.origin).registration(
                at: environment.emulator.origin
            )
            // The server does not grant this step-up, even after a new registration.
            environment.emulator.settings.unknownScopes = ["nonsense"]
            environment.emulator.settings.toolScopes = ["nonsense"]
            await expectError(.providerRejected) {
                _ = try await callTool(client)
            }
            let after = try await StoredRegistrations(store: store, for: environment.emulator.origin).registration(
                at: environment.emulator.origin
            )
            #expect(after?.clientID == before?.clientID)
            #expect(try await listTools(client) == 200)
        }
    }

    @Test func concurrentStepUpsLoseNoScope() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let store = MemoryTokenStore()
            let first = try environment.client(store: store)
            #expect(try await listTools(first) == 200)
            let clients = try (0..<4).map { _ in try environment.client(store: store) }
            // Each client has read the known scopes before the other clients request more scopes.
            for client in clients { _ = try await listTools(client) }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for (number, client) in clients.enumerated() {
                    group.addTask {
                        let field = AuthenticationChallenge(
                            scheme: "Bearer",
                            parameters: ["error": "insufficient_scope", "scope": "scope\(number)"]
                        )
                        _ = try await client.signIn(to: ResourceChallenge(status: 403, challenges: [field]))
                    }
                }
                try await group.waitForAll()
            }
            let scopes = try await first.status()?.requestedScopes ?? []
            #expect(Set(scopes) == ["mcp:basic", "scope0", "scope1", "scope2", "scope3"])
        }
    }

    @Test(arguments: EmulatorEnvironment.Setting.allCases)
    func anExplicitSignInRequestsTheScopesOfTheResourcesChallenge(_ setting: EmulatorEnvironment.Setting) async throws {
        // The resource accepts only POST requests, and the scopes in its metadata differ from those it requires.
        try await ResourceEnvironment.with(setting, refreshing { $0.supportedScopes = ["mcp:profile", "mcp:all"] }) {
            environment in
            _ = try await environment.client().signIn()
            #expect(environment.emulator.authorizations == [["mcp:basic"]])
        }
    }

    @Test func combinesAllChallengesOfAResponse() throws {
        var fields = HTTPFields()
        fields[values: .wwwAuthenticate] = [
            "Basic realm=x", "Bearer scope=\"a b\"",
            "DPoP algs=\"ES256\", resource_metadata=\"https://api.example.com/prm\"",
        ]
        let challenge = try #require(
            ResourceChallenge(status: 401, challenges: AuthenticationChallenge.challenges(in: fields))
        )
        #expect(challenge.isDPoP)
        #expect(challenge.scopes == ["a", "b"])
        #expect(challenge.metadata == "https://api.example.com/prm")
    }

    /// RFC 9449 section 7.1: a resource lists the algorithms of proofs in `algs`.
    @Test(arguments: [
        ("DPoP", true), (#"DPoP algs="ES256""#, true), (#"DPoP algs="PS256 ES256", error="invalid_token""#, true),
        (#"DPoP algs="EdDSA""#, false), (#"DPoP algs="ES256K""#, false), ("Bearer", false),
    ])
    func onlyAChallengeThatAcceptsES256OffersDPoP(_ challenge: String, _ isDPoP: Bool) throws {
        var fields = HTTPFields()
        fields[values: .wwwAuthenticate] = ["Bearer", challenge]
        let challenges = AuthenticationChallenge.challenges(in: fields)
        #expect(ResourceChallenge(status: 401, challenges: challenges)?.isDPoP == isDPoP)
    }

    /// RFC 9728 section 2: `dpop_signing_alg_values_supported`. The resource also accepts bearer tokens.
    @Test func tokensAreNotDPoPBoundIfTheResourceDoesNotAcceptTheAlgorithmOfTheProofs() async throws {
        let (interceptor, environment) = Interceptor.environment()
        let origin = environment.emulator.origin
        interceptor.respond { request in
            switch request.head.path {
            case "/.well-known/oauth-protected-resource/mcp":
                let metadata: JSON = [
                    "resource": .string("\(origin)/mcp"), "authorization_servers": [.string(origin)],
                    "dpop_signing_alg_values_supported": ["EdDSA"],
                ]
                return jsonResponse(.ok, metadata)
            case "/.well-known/oauth-authorization-server":
                let metadata: JSON = [
                    "issuer": .string(origin), "authorization_endpoint": .string("\(origin)/authorize"),
                    "token_endpoint": .string("\(origin)/token"),
                    "registration_endpoint": .string("\(origin)/register"),
                    "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
                    "authorization_response_iss_parameter_supported": true,
                    "dpop_signing_alg_values_supported": ["ES256", "EdDSA"],
                ]
                return jsonResponse(.ok, metadata)
            default: return nil
            }
        }
        let client = try environment.client()
        #expect(try await listTools(client) == 200)
        #expect(try await client.status()?.credential?.tokens.tokenType == "Bearer")
    }

    /// RFC 9728 section 2: `bearer_methods_supported`. The token of such a sign-in could not be sent.
    @Test(
        "A resource that accepts no bearer token in the header is rejected before the sign-in",
        arguments: [
            (["body"], "Bearer", true), (["query", "body"], "DPoP", true), ([], "DPoP", true), ([], "Bearer", false),
            (["body", "header"], "Bearer", false),
        ] as [([String], String, Bool)]
    )
    func requiresBearerTokensInTheHeader(_ methods: [String], _ scheme: String, _ isRejected: Bool) async throws {
        let (interceptor, environment) = Interceptor.environment()
        let origin = environment.emulator.origin
        interceptor.respond { request in
            switch request.head.path {
            case "/.well-known/oauth-protected-resource/mcp":
                let metadata: JSON = [
                    "resource": .string("\(origin)/mcp"), "authorization_servers": [.string(origin)],
                    "bearer_methods_supported": .array(methods.map(JSON.string)),
                ]
                return jsonResponse(.ok, metadata)
            case "/mcp" where request.head.headerFields[.authorization] == nil:
                let fields: HTTPFields = [.wwwAuthenticate: scheme]
                return TransportResponse(head: HTTPResponse(status: .unauthorized, headerFields: fields))
            default: return nil
            }
        }
        let client = try environment.client()
        do {
            _ = try await client.signIn()
            #expect(!isRejected)
        } catch let error as AuthError {
            #expect(isRejected && error.code == .unsupported)
        }
        #expect(environment.emulator.authorizations.isEmpty == isRejected)
        #expect(interceptor.requests(to: "/register").isEmpty == isRejected)
    }

    @Test func theChallengeWithAnErrorTakesPrecedence() throws {
        var fields = HTTPFields()
        fields[values: .wwwAuthenticate] = [
            "Bearer resource_metadata=\"https://api.example.com/prm\"",
            "DPoP algs=\"ES256\", error=\"insufficient_user_authentication\", acr_values=\"mfa\", max_age=\"300\"",
        ]
        let challenge = try #require(
            ResourceChallenge(status: 401, challenges: AuthenticationChallenge.challenges(in: fields))
        )
        #expect(challenge.demand == .authentication)
        #expect(challenge.acrValues == ["mfa"])
        #expect(challenge.maxAge == 300)
        #expect(challenge.metadata == "https://api.example.com/prm")
    }

    @Test func aBearerStepUpChallengeStillYieldsADPoPBoundToken() async throws {
        var settings = refreshing { $0.toolScopes = ["mcp:write"] }
        settings.dpop = .required
        settings.stepsUpAsBearer = true
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            let client = try environment.client()
            #expect(try await listTools(client) == 200)
            #expect(try await callTool(client) == 200)
            #expect(try await client.status()?.credential?.tokens.tokenType == "DPoP")
        }
    }

    /// Neither a new token nor a sign-in would help.
    @Test func aProofThatIsRejectedBecauseOfTheClockIsCreatedAgainWithTheResourcesTime() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing { $0.dpop = .required }) { inner in
            let interceptor = Interceptor(inner.transport)
            let environment = ResourceEnvironment(emulator: inner.emulator, transport: interceptor)
            let resource = environment.emulator.resource
            let name = try #require(HTTPField.Name("DPoP"))
            interceptor.respond { request in
                let proof = request.head.headerFields[name]
                guard request.url == resource, let claims = proof?.split(separator: ".").dropFirst().first,
                    let json = Base64URL.decode(claims).flatMap({ try? JSON(parsing: $0) }),
                    let issued = json["iat"]?.number, abs(issued - Date().timeIntervalSince1970) > 60
                else { return nil }
                let fields: HTTPFields = [
                    .date: HTTPDate.text(Date()), .wwwAuthenticate: #"DPoP error="invalid_dpop_proof""#,
                ]
                return TransportResponse(head: HTTPResponse(status: .unauthorized, headerFields: fields))
            }
            let client = try environment.client(host: VirtualTime(start: Date() - 150).host)
            for _ in 0..<2 { #expect(try await listTools(client) == 200) }
            #expect(environment.emulator.refreshes == (0, 0))
            #expect(environment.emulator.authorizations.count == 1)
            #expect(interceptor.requests(to: "/mcp").count { $0.head.headerFields[name] != nil } == 3)
        }
    }

    @Test func anIneffectiveStepUpIsNotRepeated() async throws {
        let scenario = try #require(ResourceScenario.named("12"))
        try await ResourceEnvironment.with(.inProcess, scenario.settings) { environment in
            let client = try environment.client()
            let first = await #expect(throws: AuthError.self) { _ = try await callTool(client) }
            #expect(first?.code == .insufficientScope)
            let pages = environment.emulator.authorizations.count
            _ = try? await callTool(client)
            #expect(environment.emulator.authorizations.count == pages)
        }
    }

    /// The next user may have the permission that the previous user lacked.
    @Test func anIneffectiveStepUpIsTriedAgainAfterANewSignIn() async throws {
        let settings = refreshing { ($0.toolScopes, $0.refusesCalls) = (["mcp:write"], true) }
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            let time = VirtualTime(start: Date())
            let client = try environment.client(host: time.host)
            await expectError(.insufficientScope) { _ = try await callTool(client) }
            _ = try await client.signOut()
            time.advance(by: .seconds(2))
            _ = try await client.signIn()
            environment.emulator.settings.refusesCalls = false
            #expect(try await callTool(client) == 200)
        }
    }

    @Test func aTokenWithMoreScopesFromAnotherProcessIsUsedWithoutASignIn() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let store = MemoryTokenStore()
            var options = ResourceClient.Options()
            options.signsInOnDemand = false
            let client = try environment.client(store: store, options: options)
            let other = try environment.client(store: store)
            _ = try await other.signIn()
            #expect(try await listTools(client) == 200)
            environment.emulator.settings.toolScopes = ["mcp:write"]
            #expect(try await callTool(other) == 200)
            // The first client has cached the old token.
            #expect(try await callTool(client) == 200)
        }
    }

    /// Another sign-in would request the same scopes.
    @Test func aRejectedTokenThatHasTheRequiredScopesDoesNotRequireASignIn() async throws {
        let scenario = try #require(ResourceScenario.named("12"))
        try await ResourceEnvironment.with(.inProcess, scenario.settings) { environment in
            let store = MemoryTokenStore()
            await expectError(.insufficientScope) { _ = try await callTool(try environment.client(store: store)) }
            var options = ResourceClient.Options()
            options.signsInOnDemand = false
            let client = try environment.client(store: store, options: options)
            await expectError(.insufficientScope) { _ = try await callTool(client) }
        }
    }

    @Test func aRequestWithAnAuthorizationHeaderIsRejected() async throws {
        try await ResourceEnvironment.with(.inProcess) { environment in
            let client = try environment.client()
            let request = TransportRequest(.get, client.address, headerFields: [.authorization: "Bearer x"])
            let error = await #expect(throws: AuthError.self) { _ = try await client.send(request) }
            #expect(error?.code == .invalidConfiguration)
            #expect(environment.emulator.requests.isEmpty)
        }
    }

    @Test func aChangedResourceIdentifierRequiresANewSignIn() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let client = try environment.client()
            #expect(try await listTools(client) == 200)
            // From now on, the metadata contains the origin, so a token for the old identifier is no longer sufficient.
            environment.emulator.settings.resource = environment.emulator.origin
            environment.emulator.revokeAccessTokens()
            #expect(try await listTools(client) == 200)
            #expect(try await client.status()?.resource == environment.emulator.origin)
            #expect(environment.emulator.refreshes.used == 0)
        }
    }

    @Test func onlyA401OrA403WithAChallengeIsAResourceChallenge() throws {
        let bare = AuthenticationChallenge(scheme: "Bearer")
        #expect(ResourceChallenge(status: 403, challenges: []) == nil)
        #expect(ResourceChallenge(status: 400, challenges: [bare]) == nil)
        #expect(ResourceChallenge(status: 401, challenges: [])?.demand == .token)
        #expect(ResourceChallenge(status: 403, challenges: [bare])?.demand == .token)
        let scope = AuthenticationChallenge(
            scheme: "Bearer",
            parameters: ["error": "insufficient_scope", "scope": "a b"]
        )
        #expect(ResourceChallenge(status: 403, challenges: [scope])?.scopes == ["a", "b"])
    }

    @Test func aForbiddenResponseToARequestWithATokenDoesNotTriggerASignIn() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let client = try environment.client()
            #expect(try await listTools(client) == 200)
            environment.emulator.settings.forbids = true
            #expect(try await listTools(client) == 403)
            #expect(environment.emulator.authorizations.count == 1)
            #expect(environment.emulator.refreshes.used == 0)
        }
    }

    @Test func discoveryDoesNotFallBackToTheOriginIfMetadataNamesAServer() async throws {
        try await ResourceEnvironment.with(
            .inProcess,
            refreshing {
                $0.issuerPaths = ["/tenant"]
                $0.serverMetadata = []
            }
        ) { environment in
            var options = ResourceClient.Options()
            options.assumesAuthorizationServerAtOrigin = true
            let client = try environment.client(options: options)
            let error = await #expect(throws: AuthError.self) { _ = try await listTools(client) }
            #expect(error?.code == .discoveryFailed)
            #expect(environment.emulator.registrations == 0)
        }
    }

    @Test func renewRegistrationRejectsAMetadataDocumentAndKeepsTheSession() async throws {
        var settings = refreshing()
        settings.supportsMetadataDocuments = true
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            var options = ResourceClient.Options()
            options.clientMetadataDocument = "https://client.example.com/client.json"
            let client = try environment.client(options: options)
            #expect(try await listTools(client) == 200)
            let error = await #expect(throws: AuthError.self) { _ = try await client.renewRegistration() }
            #expect(error?.code == .unsupported)
            #expect(try await client.status()?.credential != nil)
        }
    }

    @Test(arguments: [true, false]) func signsInOnlyWithARedirectURIFromTheClientIDMetadataDocument(_ isListed: Bool)
        async throws
    {
        let address = "https://client.example.com/client.json"
        let redirectURI = try RedirectURI("http://127.0.0.1:\(isListed ? 8400 : 8401)/callback")
        let document = try ClientMetadataDocument(clientID: address, name: "Tool", redirectURIs: [redirectURI])
        let documents = InProcessTransport(origin: "https://client.example.com") { _, _ in
            let head = HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"])
            return TransportResponse(head: head, body: try document.json.serialized())
        }
        var settings = refreshing()
        settings.supportsMetadataDocuments = true
        let emulator = ProtectedResourceEmulator(
            origin: "https://api.example.com",
            settings: settings,
            documents: documents
        )
        let environment = ResourceEnvironment(emulator: emulator, transport: InProcessTransport(emulator))
        var options = ResourceClient.Options()
        options.clientMetadataDocument = address
        options.redirectURIs = ["http://127.0.0.1:8400/callback"]
        let client = try environment.client(options: options)
        if isListed {
            #expect(try await listTools(client) == 200)
            #expect(try await client.status()?.clientID == address)
        } else {
            await expectError(.userAgentFailed) { _ = try await listTools(client) }
        }
        #expect(emulator.registrations == 0)
    }

    @Test func aRenewedRegistrationIsUsedAtTheNextSignIn() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let store = MemoryTokenStore()
            let client = try environment.client(store: store)
            #expect(try await listTools(client) == 200)
            let (new, old, _) = try await client.renewRegistration()
            #expect(new.clientID != old?.clientID)
            #expect(try await client.status() == nil)
            #expect(try await listTools(client) == 200)
            #expect(try await client.status()?.clientID == new.clientID)
            #expect(environment.emulator.registrations == 2)
        }
    }

    @Test func freshCredentialFindsTheSignInOfAnotherProcessWithANewRegistration() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let store = MemoryTokenStore()
            let time = VirtualTime(start: Date())
            let client = try environment.client(store: store, host: time.host)
            _ = try await client.signIn()
            let other = try environment.client(store: store, host: time.host)
            _ = try await other.renewRegistration()
            let credential = try await other.signIn()
            // Cached tokens are used for a few seconds without reading the store.
            time.advance(by: .seconds(60))
            #expect(try await client.freshCredential().tokens.accessToken == credential.tokens.accessToken)
        }
    }

    @Test func reportsLoginRequiredIfSignInOnDemandIsDisabled() async throws {
        try await ResourceEnvironment.with(.inProcess) { environment in
            var options = ResourceClient.Options()
            options.signsInOnDemand = false
            let client = try environment.client(options: options)
            let error = await #expect(throws: AuthError.self) { _ = try await listTools(client) }
            #expect(error?.code == .loginRequired)
            #expect(environment.emulator.authorizations.isEmpty)
            #expect(environment.emulator.registrations == 0)
            await expectError(.loginRequired) { _ = try await client.freshCredential() }
        }
    }

    /// The response may come from a server that has not yet received the registration, so data that cannot be obtained again is not deleted.
    @Test func anInvalidClientErrorRetiresTheRegistrationButKeepsTheTokens() async throws {
        var settings = refreshing()
        settings.refreshes = true
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            let store = MemoryTokenStore()
            let time = VirtualTime(start: Date())
            var options = ResourceClient.Options()
            options.signsInOnDemand = false
            let client = try environment.client(store: store, options: options, host: time.host)
            _ = try await environment.client(store: store).signIn()
            let before = try #require(try await client.status())
            environment.emulator.removeClients()
            time.advance(by: .seconds(7200))
            await expectError(.loginRequired) { _ = try await client.freshCredential() }
            let after = try #require(try await client.status())
            #expect(after.clientID == before.clientID && after.credential?.tokens == before.credential?.tokens)
            // The next sign-in registers the client again.
            _ = try await environment.client(store: store).signIn()
            #expect(try await client.status()?.clientID != before.clientID)
            #expect(environment.emulator.registrations == 2)
            let old = try await StoredRegistrations(store: store, for: environment.emulator.origin)
                .registration(at: before.issuer, clientID: before.clientID)
            #expect(old == nil)
        }
    }

    /// A sign-in for more scopes preserves the authentication requirements of an earlier challenge.
    @Test func aScopeStepUpKeepsTheACRValuesOfAnEarlierChallenge() async throws {
        var settings = refreshing()
        settings.requiredACR = "mfa"
        settings.toolScopes = ["mcp:write"]
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            let client = try environment.client(store: MemoryTokenStore())
            #expect(try await callTool(client) == 200)
        }
    }

    /// A long-running client reports the cause of the current failure, not that of an earlier failure.
    @Test(arguments: [true, false]) func anErrorReportsTheCurrentFailureInsteadOfAnEarlierOne(_ refreshes: Bool)
        async throws
    {
        var settings = refreshing()
        settings.refreshes = refreshes
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            let store = MemoryTokenStore()
            var options = ResourceClient.Options()
            options.signsInOnDemand = false
            let time = VirtualTime(start: Date())
            let client = try environment.client(store: store, options: options, host: time.host)
            _ = try await environment.client(store: store).signIn()
            #expect(try await listTools(client) == 200)
            environment.emulator.settings.rejectsTokens = true
            if refreshes { environment.emulator.removeClients() }
            let first = await #expect(throws: AuthError.self) { _ = try await listTools(client) }
            #expect(first?.code == .loginRequired)
            environment.emulator.settings.rejectsTokens = false
            _ = try await environment.client(store: store).signIn()
            time.advance(by: .seconds(11))
            environment.emulator.settings.toolScopes = ["mcp:write"]
            let second = await #expect(throws: AuthError.self) { _ = try await callTool(client) }
            #expect(second?.message.contains("requires more scopes: mcp:write") == true, "\(second as Any)")
        }
    }

    /// Otherwise, the challenge of another origin would start a sign-in.
    @Test func aRequestToAnotherOriginIsNotSentEvenWithoutAToken() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let client = try environment.client()
            await expectError(.invalidConfiguration) {
                _ = try await client.send(TransportRequest(.get, "https://other.example.com/mcp"))
            }
            #expect(environment.emulator.requests.isEmpty)
        }
    }

    @Test func aTokenIsSentOnlyToItsResource() async throws {
        try await ResourceEnvironment.with(.inProcess) { environment in
            let client = try environment.client()
            _ = try await client.signIn()
            for url in [
                "https://evil.example.com/mcp", "https://api.example.com:8443/mcp", "http://127.0.0.1/mcp",
                "https://api.example.com/mcp123",
                "https://api.example.com/other", "https://api.example.com/mcp/../other",
                "https://api.example.com/mcp/%2e%2e/other",
            ] {
                let request = TransportRequest(.get, try Endpoint(url))
                let error = await #expect(throws: AuthError.self, "\(url)") { _ = try await client.send(request) }
                #expect(error?.code == .invalidConfiguration, "\(url)")
            }
        }
    }

    @Test func signOutRemovesTheTokenAndKeepsTheRegistration() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let store = MemoryTokenStore()
            let client = try environment.client(store: store)
            _ = try await client.signIn()
            #expect(try await KnownResources(store: store).addresses() == [environment.emulator.resource])
            #expect(try await client.signOut().credential != nil)
            #expect(try await client.status() == nil)
            #expect(try await KnownResources(store: store).addresses().isEmpty)
            #expect(
                try await KnownResources(store: store).registrations().map(\.issuer) == [environment.emulator.origin]
            )
            _ = try await client.signIn()
            #expect(environment.emulator.registrations == 1)
        }
    }

    @Test func aRegisteredClientIsNotUsedWithAnotherAuthorizationServer() async throws {
        try await ResourceEnvironment.with(.inProcess) { environment in
            let registered = OAuthClient(
                server: AuthorizationServer(
                    OtherServer(issuer: "https://other.example.com"),
                    transport: environment.transport
                ),
                registration: try ClientRegistration(clientID: "x")
            )
            let client = try environment.client(registered: registered)
            let error = await #expect(throws: AuthError.self) { _ = try await listTools(client) }
            #expect(error?.code == .issuerMismatch)
            #expect(!environment.emulator.requests.contains { $0.hasSuffix("/authorize") || $0.hasSuffix("/token") })
        }
    }

    /// RFC 9728 section 2: `authorization_servers` is OPTIONAL.
    @Test(arguments: [[:], ["authorization_servers": []], ["authorization_servers": .null]] as [[String: JSON]])
    func aRegisteredClientNeedsNoListOfAuthorizationServers(_ members: [String: JSON]) async throws {
        var settings = refreshing()
        settings.registeredClients = ["pre-registered": "secret"]
        try await ResourceEnvironment.with(.inProcess, settings) { inner in
            let interceptor = Interceptor(inner.transport)
            let environment = ResourceEnvironment(emulator: inner.emulator, transport: interceptor)
            let metadata = members.merging(["resource": .string(environment.emulator.resource)]) { own, _ in own }
            interceptor.respond { request in
                guard request.head.path == "/.well-known/oauth-protected-resource/mcp" else { return nil }
                return jsonResponse(.ok, .object(metadata))
            }
            let registered = try environment.registered("pre-registered") {
                $0.authentication = .clientSecretBasic(Secret("secret"))
            }
            #expect(try await listTools(try environment.client(registered: registered)) == 200)
            let unregistered = try environment.client()
            let error = await #expect(throws: AuthError.self) { _ = try await listTools(unregistered) }
            #expect(error?.code == .discoveryFailed)
            #expect(error?.message.contains("does not name an authorization server") == true)
        }
    }

    private struct OtherServer: ProviderAdapter {
        let issuer: String
        func metadata(in context: ServerContext) async throws -> ProviderMetadata { try await context.discover() }
    }
}

/// A user agent whose user waits before completing the sign-in.
struct GatedUserAgent<Base: UserAgent>: UserAgent {
    let base: Base
    let began: AsyncStream<Void>.Continuation
    let gate: AsyncStream<Void>

    nonisolated(nonsending) func withRedirectSession<Return: Sendable>(
        _ options: RedirectOptions,
        _ body: nonisolated(nonsending) (RedirectSession) async throws -> Return
    ) async throws -> Return {
        try await base.withRedirectSession(options) { session in
            try await body(
                RedirectSession(redirectURI: session.redirectURI) { url in
                    began.finish()
                    for await _ in gate {}
                    try Task.checkCancellation()
                    return try await session.visit(url)
                }
            )
        }
    }
}

/// Resources whose metadata would send tokens to the wrong party or cause requests to the loopback interface.
@Suite struct HostileResourceTests {
    struct Story: CustomTestStringConvertible {
        let name: String
        var challenge = "Bearer resource_metadata=\"https://api.example.com/prm\""
        var metadata = #"{"resource":"https://api.example.com/mcp","authorization_servers":["https://id.example.com"]}"#
        var status = HTTPResponse.Status.ok
        var type = "application/json"
        var location: String?
        let code: AuthError.Code
        var testDescription: String { name }
    }

    static let stories: [Story] = [
        Story(
            name: "metadata on the loopback interface",
            challenge: "Bearer resource_metadata=\"http://127.0.0.1:9/prm\"",
            code: .discoveryFailed
        ),
        Story(
            name: "metadata on a private network",
            challenge: "Bearer resource_metadata=\"https://10.0.0.1/prm\"",
            code: .discoveryFailed
        ),
        Story(
            name: "metadata over plain http",
            challenge: "Bearer resource_metadata=\"http://api.example.com/prm\"",
            code: .discoveryFailed
        ),
        Story(
            name: "metadata at a file URL",
            challenge: "Bearer resource_metadata=\"file:///etc/passwd\"",
            code: .discoveryFailed
        ),
        Story(name: "a redirect", status: .found, location: "http://127.0.0.1:9/prm", code: .invalidResponse),
        Story(
            name: "another resource",
            metadata:
                #"{"resource":"https://api.example.com.evil.example/mcp","authorization_servers":["https://id.example.com"]}"#,
            code: .discoveryFailed
        ),
        Story(
            name: "a longer path",
            metadata:
                #"{"resource":"https://api.example.com/mcp/other","authorization_servers":["https://id.example.com"]}"#,
            code: .discoveryFailed
        ),
        Story(
            name: "a prefix that ends within a path segment",
            metadata: #"{"resource":"https://api.example.com/mc","authorization_servers":["https://id.example.com"]}"#,
            code: .discoveryFailed
        ),
        Story(
            name: "a server on the loopback interface",
            metadata: #"{"resource":"https://api.example.com/mcp","authorization_servers":["http://127.0.0.1:9"]}"#,
            code: .discoveryFailed
        ),
        Story(
            name: "a server on a private network",
            metadata: #"{"resource":"https://api.example.com/mcp","authorization_servers":["https://192.168.1.1"]}"#,
            code: .discoveryFailed
        ),
        Story(
            name: "no server",
            metadata: #"{"resource":"https://api.example.com/mcp","authorization_servers":[]}"#,
            code: .discoveryFailed
        ),
        Story(
            name: "the origin, in metadata at a path",
            metadata: #"{"resource":"https://api.example.com","authorization_servers":["https://id.example.com"]}"#,
            code: .discoveryFailed
        ),
        Story(name: "a list", metadata: "[]", code: .discoveryFailed),
        Story(name: "another status", status: .created, code: .discoveryFailed),
        Story(name: "a page", type: "text/html", code: .discoveryFailed),
        Story(name: "too much", metadata: String(repeating: " ", count: 300_000), code: .invalidResponse),
        Story(name: "a server error", status: .internalServerError, code: .temporarilyUnavailable),
    ]

    @Test(arguments: stories) func hostileResourceMetadataIsRejectedWithoutFurtherRequests(_ story: Story) async throws
    {
        let urls = Mutex<[String]>([])
        let transport = RecordingTransport { request in
            urls.withLock { $0.append(request.url) }
            guard request.url == "https://api.example.com/prm" else {
                #expect(request.url == "https://api.example.com/mcp")
                return TransportResponse(
                    head: HTTPResponse(status: .unauthorized, headerFields: [.wwwAuthenticate: story.challenge])
                )
            }
            #expect(request.head.headerFields[.authorization] == nil)
            var response = TransportResponse(
                head: HTTPResponse(status: story.status, headerFields: [.contentType: story.type]),
                body: Array(story.metadata.utf8)
            )
            response.head.headerFields[.location] = story.location
            return response
        }
        let client = try ResourceClient("https://api.example.com/mcp", methods: [], transport: transport)
        let error = await #expect(throws: AuthError.self) {
            _ = try await client.send(TransportRequest(.get, client.address))
        }
        #expect(error?.code == story.code, "\(error.map { "\($0)" } ?? "")")
        #expect(urls.withLock { $0 }.count <= 2)
    }

    @Test func oversizedChallengesAreIgnored() throws {
        var fields = HTTPFields()
        fields[values: .wwwAuthenticate] = Array(
            repeating: "Bearer scope=\"\(String(repeating: "x", count: 1000))\"",
            count: 1000
        )
        #expect(AuthenticationChallenge.challenges(in: fields).isEmpty)
    }

    private struct RecordingTransport: HTTPTransport {
        let respond: @Sendable (TransportRequest) throws -> TransportResponse
        init(_ respond: @escaping @Sendable (TransportRequest) throws -> TransportResponse) { self.respond = respond }
        func send(_ call: TransportRequest) async throws -> TransportResponse {
            let response = try respond(call)
            guard response.body.count <= call.maximumResponseSize else {
                throw AuthError(.invalidResponse, "Too large.")
            }
            return response
        }
    }
}
