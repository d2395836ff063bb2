import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import ConformanceRows
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// Concurrent sign-ins from several processes, and failing sign-ins, for one protected resource.
@Suite struct ConcurrentSignInTests {
    /// A waiting sign-in, which a concurrent sign-in in another process may make redundant.
    struct Race: CustomTestStringConvertible, Sendable {
        let testDescription: String
        /// The challenge that the waiting sign-in must satisfy.
        let challenge: AuthenticationChallenge
        /// The expected number of sign-ins.
        let signIns: Int

        static let all = [
            Race(
                testDescription: "the same scopes",
                challenge: AuthenticationChallenge(scheme: "Bearer", parameters: ["scope": "mcp:basic"]),
                signIns: 1
            ),
            Race(
                testDescription: "more scopes",
                challenge: AuthenticationChallenge(scheme: "Bearer", parameters: ["scope": "mcp:basic mcp:write"]),
                signIns: 2
            ),
            Race(
                testDescription: "stronger authentication",
                challenge: AuthenticationChallenge(
                    scheme: "Bearer",
                    parameters: [
                        "error": "insufficient_user_authentication", "acr_values": "mfa", "scope": "mcp:basic",
                    ]
                ),
                signIns: 2
            ),
        ]
    }

    @Test(arguments: Race.all)
    func aUserSignsInAgainOnlyIfTheConcurrentSignInOfAnotherProcessIsInsufficient(_ race: Race) async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let shared = MemoryTokenStore()
            let time = VirtualTime(start: Date())
            let store = InterruptedStore(shared, before: .signInLock) {
                time.advance(by: .seconds(1))
                _ = try await environment.client(store: shared, host: time.host).signIn()
            }
            let client = try environment.client(store: store, host: time.host)
            _ = try await client.signIn(to: ResourceChallenge(status: 401, challenges: [race.challenge]))
            #expect(environment.emulator.authorizations.count == race.signIns)
        }
    }

    /// Many APIs have no resource at their base URL, so a request to it is not challenged.
    @Test func aConcurrentSignInWithoutTheRequestedAuthenticationIsInsufficientEvenWithoutAChallenge() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing { $0.challengeNamesMetadata = false }) { base in
            let transport = WithoutChallenges(base: base.transport)
            let environment = ResourceEnvironment(emulator: base.emulator, transport: transport)
            let shared = MemoryTokenStore()
            let time = VirtualTime(start: Date())
            let store = InterruptedStore(shared, before: .signInLock) {
                time.advance(by: .seconds(1))
                _ = try await environment.client(store: shared, host: time.host).signIn()
            }
            var options = ResourceClient.Options()
            options.acrValues = ["mfa"]
            _ = try await environment.client(store: store, options: options, host: time.host).signIn()
            #expect(base.emulator.authorizations.count == 2)
        }
    }

    private struct WithoutChallenges: HTTPTransport {
        let base: any HTTPTransport

        func send(_ call: TransportRequest) async throws -> TransportResponse {
            var response = try await base.send(call)
            if response.status == 401 { response.head = HTTPResponse(status: .notFound) }
            return response
        }
    }

    @Test func aConcurrentSignInForAnotherResourceDoesNotReplaceTheUsersSignIn() async throws {
        let settings = refreshing { ($0.metadataPlace, $0.challengeNamesMetadata) = (.none, false) }
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            let shared = MemoryTokenStore()
            let time = VirtualTime(start: Date())
            let store = InterruptedStore(shared, before: .signInLock) {
                time.advance(by: .seconds(1))
                var options = ResourceClient.Options()
                options.resource = "https://api.example.com/another"
                options.assumesAuthorizationServerAtOrigin = true
                _ = try await environment.client(store: shared, options: options, host: time.host).signIn()
            }
            var options = ResourceClient.Options()
            options.assumesAuthorizationServerAtOrigin = true
            let client = try environment.client(store: store, options: options, host: time.host)
            _ = try await client.signIn()
            #expect(environment.emulator.authorizations.count == 2)
        }
    }

    /// A token that another process has refreshed has no more scopes than the rejected token.
    @Test func aConcurrentRefreshDoesNotReplaceAStepUp() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing { $0.toolScopes = ["mcp:write"] }) { environment in
            let shared = MemoryTokenStore()
            let listed = try await listTools(try environment.client(store: shared))
            #expect(listed == 200)
            let store = InterruptedStore(shared, before: .signInLock) {
                environment.emulator.revokeAccessTokens()
                let status = try await listTools(try environment.client(store: shared))
                #expect(status == 200)
            }
            let called = try await callTool(try environment.client(store: store))
            #expect(called == 200)
            #expect(environment.emulator.authorizations.count == 2)
        }
    }

    @Test(.timeLimit(.minutes(1))) func aSignInWhoseLockIsLostRepeatedlyEndsAtItsTimeout() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let time = VirtualTime(start: Date())
            let store = LostLockStore { time.advance(by: .seconds(50)) }
            var options = ResourceClient.Options()
            options.timeout = .seconds(90)
            let client = try environment.client(store: store, options: options, host: time.host)
            await expectError(.leaseLost) { _ = try await listTools(client) }
            #expect(environment.emulator.authorizations.isEmpty)
        }
    }

    /// Otherwise, a sign-out would not find the tokens of a process that is killed during its sign-in.
    @Test func aUserSignInWhoseRecordCannotBeWrittenOpensNoPage() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let client = try environment.client(store: ReadOnlyRecordStore(.protectedResource))
            await expectError(.storageFailed) { _ = try await listTools(client) }
            #expect(environment.emulator.authorizations.isEmpty)
        }
    }

    /// The tokens would be lost when the process ends.
    @Test func anExplicitSignInWhoseTokensCannotBeStoredFails() async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let client = try environment.client(store: ReadOnlyRecordStore(.credential))
            await expectError(.storageFailed) { try await client.signIn() }
            #expect(environment.emulator.authorizations.count == 1)
        }
    }

    @Test func aPreregisteredClientIsNotReplacedByADynamicRegistration() async throws {
        let settings = refreshing { $0.registeredClients = ["pre-registered": "secret"] }
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            let registered = try environment.registered("pre-registered") {
                $0.authentication = .clientSecretBasic(Secret("another secret"))
            }
            let client = try environment.client(registered: registered)
            await expectError(.providerRejected) { _ = try await listTools(client) }
            #expect(environment.emulator.registrations == 0)
        }
    }

    /// Many servers with refresh tokens publish no list of scopes.
    @Test func aPreregisteredClientRequestsItsOfflineAccessFromAServerThatListsNoScopes() async throws {
        let settings = refreshing { $0.registeredClients = ["pre-registered": "secret"] }
        try await ResourceEnvironment.with(.inProcess, settings) { environment in
            let registered = try environment.registered("pre-registered") {
                $0.authentication = .clientSecretBasic(Secret("secret"))
                $0.scopes = ["offline_access"]
            }
            #expect(try await listTools(try environment.client(registered: registered)) == 200)
            #expect(environment.emulator.authorizations == [["mcp:basic", "offline_access"]])
        }
    }

    /// A client without a user opens no sign-in page, so no cooldown applies before its next attempt.
    @Test func aRejectedClientCredentialsTokenDoesNotBlockTheNextRequest() async throws {
        let scenario = try #require(ResourceScenario.named("34"))
        try await ResourceEnvironment.with(.inProcess, scenario.settings) { environment in
            var options = ResourceClient.Options()
            options.cooldownAfterFailure = .seconds(60)
            let registered = try environment.registered("machine") {
                $0.authentication = .clientSecretBasic(Secret("a secret: of both%kinds"))
            }
            let client = try environment.client(methods: [.clientCredentials], registered: registered, options: options)
            environment.emulator.settings.rejectsTokens = true
            for _ in 0..<2 {
                let error = await #expect(throws: AuthError.self) { _ = try await listTools(client) }
                #expect(error?.code == .accessTokenRejected)
                #expect(error?.message.contains("page") == false)
            }
            environment.emulator.settings.rejectsTokens = false
            #expect(try await listTools(client) == 200)
        }
    }

    @Test func theErrorForARejectedTokenReportsWhyTheSessionEnded() async throws {
        let (interceptor, environment) = Interceptor.environment()
        let store = MemoryTokenStore()
        _ = try await environment.client(store: store).signIn()
        var options = ResourceClient.Options()
        options.signsInOnDemand = false
        let client = try environment.client(store: store, options: options)
        environment.emulator.settings.rejectsTokens = true
        interceptor.respond { call in
            call.head.path == "/token" ? jsonResponse(.badRequest, ["error": "invalid_grant"]) : nil
        }
        let error = await #expect(throws: AuthError.self) { _ = try await listTools(client) }
        #expect(error?.code == .loginRequired)
        #expect(error?.providerError?.error == "invalid_grant")
    }

    /// `authflow curl --profile` calls `hasSignIn()` before it sends a token with more access.
    @Test(arguments: [false, true])
    func anInterruptedSignInCountsOnlyIfItStoredTokens(_ storesTokens: Bool) async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let store = MemoryTokenStore()
            let client = try environment.client(store: store)
            _ = try await client.signIn()
            let key = RecordKey(name: environment.emulator.resource, issuer: "", clientID: "", kind: .protectedResource)
            // The record of a process that was killed before its sign-in succeeded, or before it recorded the success.
            try await store.withLease(on: key) { lease in
                let bytes = try await store.bytes(under: lease)
                var unfinished = try #require(try bytes.flatMap { try JSON(parsing: $0).object })
                (unfinished["id"], unfinished["start"], unfinished["end"]) = ("1", 0, 1)
                let record: JSON = ["unfinished": [.object(unfinished)]]
                try await store.write(try record.serialized(), under: lease)
            }
            if !storesTokens {
                for key in await store.keys(after: nil, limit: 100) where key.kind == .credential {
                    try await store.withLease(on: key) { try await store.write(nil, under: $0) }
                }
            }
            #expect(try await environment.client(store: store).hasSignIn() == storesTokens)
        }
    }

    /// The code exchange is completed, because the tokens could otherwise not be revoked.
    @Test(arguments: [(isUser: true, succeeds: true), (true, false), (false, true)])
    func aSignInThatIsInterruptedDuringTheCodeExchangeIsRecorded(_ isUser: Bool, _ succeeds: Bool) async throws {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let store = MemoryTokenStore()
            let (began, gate) = (AsyncStream<Void>.makeStream(), AsyncStream<Void>.makeStream())
            let transport = BeforeFirstRequest(base: environment.transport, to: "/token") {
                began.continuation.finish()
                await withCheckedContinuation { continuation in
                    Task.detached {
                        for await _ in gate.stream {}
                        continuation.resume()
                    }
                }
                if !succeeds { throw AuthError(.networkFailed, "The connection was lost.") }
            }
            let waiting = try ResourceEnvironment(emulator: environment.emulator, transport: transport)
                .client(store: store)
            let signIn = Task { if isUser { _ = try await waiting.signIn() } else { _ = try await listTools(waiting) } }
            for await _ in began.stream {}
            signIn.cancel()
            await #expect(throws: (any Error).self) { try await signIn.value }
            #expect(await !waiting.drain(within: .zero))
            gate.continuation.finish()
            #expect(await waiting.drain())
            let other = try environment.client(store: store)
            #expect((try await other.status() != nil) == succeeds)
            #expect(try await other.hasSignIn() == succeeds)
            #expect(try await !other.hasSignInInProgress())
            #expect(try await listTools(other) == 200)
            #expect(environment.emulator.authorizations.count == (succeeds ? 1 : 2))
        }
    }

    /// The program exits while the user is still viewing the page.
    @Test(arguments: [true, false]) func aSignInThatIsInterruptedOnThePageIsRecordedAsFailed(_ isUser: Bool)
        async throws
    {
        try await ResourceEnvironment.with(.inProcess, refreshing()) { environment in
            let store = MemoryTokenStore()
            let (began, gate) = (AsyncStream<Void>.makeStream(), AsyncStream<Void>.makeStream())
            let agent = GatedUserAgent(
                base: try environment.userAgent(),
                began: began.continuation,
                gate: gate.stream
            )
            let client = try environment.client(methods: [.userAgent(agent)], store: store)
            let signIn = Task { if isUser { _ = try await client.signIn() } else { _ = try await listTools(client) } }
            for await _ in began.stream {}
            signIn.cancel()
            await #expect(throws: CancellationError.self) { try await signIn.value }
            let other = try environment.client(store: store)
            if !isUser {
                // The page that a request has opened remains open, for other requests.
                #expect(await client.drain())
                #expect(try await other.hasSignInInProgress())
            }
            client.stopSending()
            #expect(await client.drain())
            #expect(try await !other.hasSignInInProgress())
            #expect(try await !other.hasSignIn())
            gate.continuation.finish()
        }
    }
}

/// A store that performs an action before the first lease on a record of a given kind.
private final class InterruptedStore: ForwardingStore {
    let base: MemoryTokenStore
    private let kind: RecordKey.Kind
    private let action: @Sendable () async throws -> Void
    private let hasActed = Atomic(false)

    init(_ base: MemoryTokenStore, before kind: RecordKey.Kind, _ action: @escaping @Sendable () async throws -> Void) {
        (self.base, self.kind, self.action) = (base, kind, action)
    }

    func withLease<Return: Sendable>(on key: RecordKey, _ body: (Lease) async throws -> Return) async throws -> Return {
        if key.kind == kind, !hasActed.exchange(true, ordering: .relaxed) { try await action() }
        return try await base.withLease(on: key, body)
    }
}

/// A store in which each lease on the sign-in lock is lost immediately.
private final class LostLockStore: ForwardingStore {
    let base = MemoryTokenStore()
    private let onLoss: @Sendable () -> Void

    init(_ onLoss: @escaping @Sendable () -> Void) { self.onLoss = onLoss }

    func withLease<Return: Sendable>(on key: RecordKey, _ body: (Lease) async throws -> Return) async throws -> Return {
        let isLost = key.kind == .signInLock
        if isLost { onLoss() }
        return try await base.withLease(on: key) { lease in
            try await body(isLost ? Lease(key: key, fence: lease.fence, isHeld: { false }) : lease)
        }
    }
}

/// A store that cannot write records of one kind.
private final class ReadOnlyRecordStore: ForwardingStore {
    let base = MemoryTokenStore()
    private let kind: RecordKey.Kind

    init(_ kind: RecordKey.Kind) { self.kind = kind }

    func write(_ bytes: [UInt8]?, under lease: Lease) async throws {
        guard lease.key.kind != kind else { throw AuthError(.storageFailed, "The record cannot be written.") }
        try await base.write(bytes, under: lease)
    }
}
