import AuthFlow
import AuthFlowJSON
import AuthFlowOIDC
import AuthFlowTesting
import Expectations
import Foundation
import Synchronization
import Testing

/// Requests that wait for a connection, and the effect on their tokens.
@Suite(.timeLimit(.minutes(1))) struct WaitingRequestTests {
    /// A transport whose token requests wait until a test releases them.
    private final class WaitingTransport: HTTPTransport {
        let base: any HTTPTransport
        private let whileWaiting = Mutex<(@Sendable () async -> Void)?>(nil)
        private let beforeResponse = Mutex<(@Sendable () async -> Void)?>(nil)

        init(_ base: any HTTPTransport) { self.base = base }

        func wait(
            beforeSending first: @escaping @Sendable () async -> Void = {},
            beforeResponse second: @escaping @Sendable () async -> Void = {}
        ) {
            whileWaiting.withLock { $0 = first }
            beforeResponse.withLock { $0 = second }
        }

        func send(_ call: TransportRequest) async throws -> TransportResponse {
            guard call.head.path == "/token" else { return try await base.send(call) }
            await whileWaiting.withLock { $0 }?()
            let response = try await base.send(call)
            await beforeResponse.withLock { $0 }?()
            try Task.checkCancellation()
            return response
        }
    }

    /// A store in which a test can make leases expire.
    private final class TermStore: ForwardingStore {
        let base = MemoryTokenStore()
        let expiry = Lease.Expiry(lasting: .seconds(600))

        func withLease<Return: Sendable>(
            on key: RecordKey,
            _ body: (Lease) async throws -> Return
        ) async throws -> Return {
            try await base.withLease(on: key) { lease in
                try await body(Lease(key: lease.key, fence: lease.fence, expiry: expiry))
            }
        }
    }

    private let environment: EmulatorEnvironment
    private let transport: WaitingTransport

    init() throws {
        self.environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com"))
        self.transport = WaitingTransport(environment.transport)
    }

    private func client(
        store: any TokenStore = MemoryTokenStore(),
        clock: any Clock<Duration> = ContinuousClock()
    ) throws -> AuthClient {
        var registration = try EmulatorEnvironment.registration()
        registration.scopes = ["openid", "offline_access"]
        let host = HostServices(clock: clock)
        return try environment.client(registration: registration, store: store, transport: transport, host: host)
    }

    private func refreshes(_ environment: EmulatorEnvironment) -> Int {
        environment.emulator.receivedRequests.count { $0.form["grant_type"] == "refresh_token" }
    }

    @Test func aRefreshTokenIsNotSentIfTheLeaseExpiresWhileTheRequestWaits() async throws {
        let store = TermStore()
        let client = try client(store: store)
        _ = try await client.signIn()
        let waits = Atomic(0)
        transport.wait(beforeSending: {
            // The first lease expires; the next one remains valid.
            let isFirst = waits.add(1, ordering: .relaxed).oldValue == 0
            store.expiry.extend(until: isFirst ? .zero : .seconds(600))
        })
        _ = try? await client.refresh()
        // Whatever the result of the call, no request was sent under the lost lease.
        #expect(refreshes(environment) <= waits.load(ordering: .relaxed) - 1)
        #expect(waits.load(ordering: .relaxed) >= 1)
    }

    /// The process is paused before the one refresh that is admitted during an outage is sent.
    @Test func anotherCallerRetriesDuringAnOutageIfTheLeaseOfTheAdmittedRefreshExpires() async throws {
        let time = VirtualTime()
        let users = (0..<5).map {
            OIDCEmulator.User(username: "user\($0)", password: "", claims: ["sub": .string("subject-\($0)")])
        }
        let emulator = try OIDCEmulator(issuer: "https://id.example.com", users: users, now: { time.now })
        emulator.accessTokenLifetime = 300
        let environment = EmulatorEnvironment(emulator)
        let (transport, store) = (FlakyTransport(environment.transport), TermStore())
        var registration = try EmulatorEnvironment.registration()
        registration.scopes = ["openid", "offline_access"]
        let client = OAuthClient(
            server: environment.server(transport: transport, host: time.host),
            registration: try ClientRegistration(registration)
        )
        let credentials = CredentialManager(client: client, store: store)
        for number in 0..<5 {
            let request = try await client.authorizationRequest()
            let callback = try emulator.redirect(for: request.url, as: "user\(number)")
            try await credentials.save(try await client.exchange(callback, for: request), for: "\(number)")
        }
        time.advance(by: .seconds(301))
        transport.takeDown()
        for number in 0..<5 {
            await expectError(.networkFailed) { try await credentials.freshTokens(for: "\(number)") }
        }
        transport.takeDown(false)
        time.advance(by: .seconds(10))
        store.expiry.extend(until: .zero)
        await expectError(.leaseLost) { try await credentials.freshTokens(for: "0") }
        store.expiry.extend(until: .seconds(600))
        #expect(try await credentials.freshTokens(for: "1").expiresAt ?? .distantPast > time.now)
        #expect(refreshes(environment) == 1)
    }

    @Test func aRefreshTokenIsNotSentIfShutdownStartsWhileTheRequestWaits() async throws {
        let client = try client()
        _ = try await client.signIn()
        transport.wait(beforeSending: { client.stopSending() })
        await #expect(throws: CancellationError.self) { _ = try await client.refresh() }
        #expect(refreshes(environment) == 0)
    }

    @Test func timeSpentWaitingDoesNotReduceTheResponseTimeout() async throws {
        let clock = SteppedClock()
        let client = try client(clock: clock)
        _ = try await client.signIn()
        let old = try await client.freshTokens().refreshToken
        transport.wait(
            beforeSending: { await clock.advance(by: .seconds(29)) },
            beforeResponse: { await clock.advance(by: .seconds(20)) }
        )
        let refreshed = try await client.refresh()
        #expect(refreshed.tokens.refreshToken != old)
        #expect(refreshes(environment) == 1)
    }

    @Test func aRequestThatTimesOutWhileWaitingIsNotSent() async throws {
        let clock = SteppedClock()
        let client = try client(clock: clock)
        _ = try await client.signIn()
        transport.wait(beforeSending: {
            await clock.advance(by: .seconds(31))
            await Self.cancellation()
        })
        let error = await #expect(throws: AuthError.self) { _ = try await client.refresh() }
        #expect(error?.code == .timedOut)
        #expect(refreshes(environment) == 0)
        transport.wait()
        #expect(try await client.freshTokens().refreshToken != nil)
    }

    @Test func aRequestWithoutAResponseTimesOut() async throws {
        let clock = SteppedClock()
        let client = try client(clock: clock)
        _ = try await client.signIn()
        transport.wait(beforeResponse: {
            await clock.advance(by: .seconds(31))
            await clock.advance(by: .seconds(31))
            await Self.cancellation()
        })
        let error = await #expect(throws: AuthError.self) { _ = try await client.refresh() }
        #expect(error?.code == .timedOut)
    }

    /// Waits until the task is cancelled.
    private static func cancellation() async {
        for await _ in AsyncStream<Void>.makeStream().stream {}
    }
}

/// Callers that wait for an operation that another caller has started.
@Suite(.timeLimit(.minutes(1))) struct SharedWaitTests {
    /// A store whose reads wait until a test releases them.
    final class GatedStore: ForwardingStore {
        let base: MemoryTokenStore
        let gate = Gate()
        let leaseGate = Gate()
        /// Whether the result of a read is delayed instead of the read itself, so that the result is outdated.
        let isResultLate: Bool

        init(_ base: MemoryTokenStore, isResultLate: Bool = false) {
            (self.base, self.isResultLate) = (base, isResultLate)
        }

        func bytes(for key: RecordKey) async throws -> [UInt8]? {
            if isResultLate {
                let bytes = await base.bytes(for: key)
                await gate.pass()
                return bytes
            }
            await gate.pass()
            return await base.bytes(for: key)
        }
        func bytes(under lease: Lease) async throws -> [UInt8]? { await base.bytes(for: lease.key) }
        func withLease<Return: Sendable>(
            on key: RecordKey,
            _ body: (Lease) async throws -> Return
        ) async throws -> Return {
            await leaseGate.pass()
            return try await base.withLease(on: key, body)
        }
    }

    @Test func concurrentCallersDoNotGetTokensAfterASignOutByAnotherClient() async throws {
        let life = try TokenLifeEnvironment()
        let base = MemoryTokenStore()
        let store = GatedStore(base)
        let here = try life.client(store: store)
        let elsewhere = try life.client(store: base)
        _ = try await here.signIn()
        _ = try await here.freshTokens()
        _ = try await elsewhere.signOut()
        life.time.advance(11)
        store.gate.close()
        let first = Task { try await here.freshTokens() }
        await store.gate.arrival()
        let second = Task.immediate { try await here.freshTokens() }
        store.gate.open()
        for caller in [first, second] {
            let error = await #expect(throws: AuthError.self) { try await caller.value }
            #expect(error?.code == .loginRequired)
        }
    }

    @Test func statesBeginWithTheCurrentStateEvenIfItChangesDuringTheirFirstRead() async throws {
        let life = try TokenLifeEnvironment()
        let store = GatedStore(MemoryTokenStore(), isResultLate: true)
        let client = try life.client(store: store)
        _ = try await client.signIn()
        store.gate.close(isForOne: true)
        let reading = Task { try await client.states() }
        await store.gate.arrival()
        _ = try await client.refresh()
        store.gate.open()
        var states = try await reading.value.makeAsyncIterator()
        guard case .signedIn? = await states.next() else { return #expect(Bool(false)) }
        _ = try await client.signOut()
        #expect(await states.next() == .signedOut)
    }

    @Test func anOutdatedReadDoesNotRestoreTokensAfterASignOut() async throws {
        let life = try TokenLifeEnvironment()
        let base = MemoryTokenStore()
        let elsewhere = try life.client(store: base)
        _ = try await elsewhere.signIn()
        let store = GatedStore(base, isResultLate: true)
        let here = try life.client(store: store)
        store.leaseGate.close()
        let signOut = Task { try await here.signOut() }
        await store.leaseGate.arrival()
        store.gate.close(isForOne: true)
        let caller = Task { try await here.freshTokens() }
        await store.gate.arrival()
        _ = try await elsewhere.signOut()
        store.leaseGate.open()
        _ = try await signOut.value
        store.gate.open()
        _ = try? await caller.value
        let error = await #expect(throws: AuthError.self) { try await here.freshTokens() }
        #expect(error?.code == .loginRequired)
    }

    @Test func anotherCallersFailedRefreshDoesNotFailACallerWithAValidToken() async throws {
        let life = try TokenLifeEnvironment()
        let gate = Gate()
        struct GatedTransport: HTTPTransport {
            let base: any HTTPTransport
            let gate: Gate
            func send(_ call: TransportRequest) async throws -> TransportResponse {
                if call.head.path == "/token" { await gate.pass() }
                return try await base.send(call)
            }
        }
        var registration = try EmulatorEnvironment.registration()
        registration.scopes = ["openid", "offline_access"]
        let client = try life.environment.client(
            registration: registration,
            store: MemoryTokenStore(),
            transport: GatedTransport(base: life.transport, gate: gate),
            host: life.time.host
        )
        _ = try await client.signIn()
        let tokens = try await client.freshTokens()
        let end = try #require(tokens.expiresAt)
        // This is within the margin before expiry, in which an access token is still valid but no longer fresh.
        life.time.advance(end.timeIntervalSince(life.time.now) - 30)
        gate.close()
        let other = Task { try await client.refresh() }
        await gate.arrival()
        let caller = Task.immediate { try await client.freshTokens() }
        life.transport.takeDown()
        gate.open()
        #expect(try await caller.value.accessToken == tokens.accessToken)
        await expectError(.networkFailed) { _ = try await other.value }
    }
}

/// A clock that a test advances.
final class SteppedClock: Clock {
    struct Instant: InstantProtocol {
        var offset: Swift.Duration = .zero
        func advanced(by duration: Swift.Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Swift.Duration { other.offset - offset }
        static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    private struct Sleeper {
        let number: UInt64
        let end: Instant
        let continuation: CheckedContinuation<Void, any Error>
    }

    private let state = Mutex<(now: Instant, last: UInt64, sleepers: [Sleeper], cancelled: Set<UInt64>)>(
        (Instant(), 0, [], [])
    )
    private let (arrivals, arrived) = AsyncStream<Void>.makeStream()

    var now: Instant { state.withLock { $0.now } }
    var minimumResolution: Swift.Duration { .zero }

    /// Advances the time once a task sleeps.
    func advance(by duration: Swift.Duration) async {
        while state.withLock({ $0.sleepers.isEmpty }) { for await _ in arrivals { break } }
        let due = state.withLock { state in
            state.now = state.now.advanced(by: duration)
            let due = state.sleepers.filter { $0.end <= state.now }
            state.sleepers.removeAll { $0.end <= state.now }
            return due
        }
        for sleeper in due { sleeper.continuation.resume() }
    }

    func sleep(until deadline: Instant, tolerance: Swift.Duration?) async throws {
        let number = state.withLock { state in
            state.last += 1
            return state.last
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let result = state.withLock { state -> Result<Void, any Error>? in
                    if state.cancelled.contains(number) { return .failure(CancellationError()) }
                    if deadline <= state.now { return .success(()) }
                    state.sleepers.append(Sleeper(number: number, end: deadline, continuation: continuation))
                    arrived.yield()
                    return nil
                }
                if let result { continuation.resume(with: result) }
            }
        } onCancel: {
            let sleeper = state.withLock { state -> Sleeper? in
                state.cancelled.insert(number)
                let sleeper = state.sleepers.first { $0.number == number }
                state.sleepers.removeAll { $0.number == number }
                return sleeper
            }
            sleeper?.continuation.resume(throwing: CancellationError())
        }
    }
}
