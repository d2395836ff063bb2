import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// A wall clock that tests can set.
final class TestTime: Sendable {
    private let time = Mutex(Date(timeIntervalSince1970: 1_800_000_000))
    private let error = Mutex(TimeInterval(0))
    var now: Date { time.withLock { $0 } }
    /// The host services of a machine whose clock may be wrong.
    var host: HostServices { HostServices(now: { self.now + self.error.withLock { $0 } }) }
    func setError(_ seconds: TimeInterval) { error.withLock { $0 = seconds } }
    func advance(_ seconds: TimeInterval) { time.withLock { $0 += seconds } }
}

/// A transport that can be taken offline or made to return a substitute response.
final class FlakyTransport: HTTPTransport {
    private let base: any HTTPTransport
    private let state = Mutex<(response: TransportResponse?, isDown: Bool, calls: Int)>((nil, false, 0))

    init(_ base: any HTTPTransport) { self.base = base }

    var calls: Int { state.withLock { $0.calls } }
    func takeDown(_ isDown: Bool = true) { state.withLock { $0.isDown = isDown } }
    func respond(_ response: TransportResponse?) { state.withLock { $0.response = response } }

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
final class FailingStore: ForwardingStore {
    let base = MemoryTokenStore()
    private let failures = Mutex((count: 0, code: AuthError.Code.storageFailed))
    private let failsAfterWriting = Mutex(false)

    /// - Parameter afterWriting: Whether the bytes are written before a failure is reported.
    func fail(_ isBroken: Bool, afterWriting: Bool = false) {
        failsAfterWriting.withLock { $0 = afterWriting }
        fail(times: isBroken ? .max : 0)
    }
    func fail(times: Int, with code: AuthError.Code = .storageFailed) { failures.withLock { $0 = (times, code) } }
    func write(_ bytes: [UInt8]?, under lease: Lease) async throws {
        let code = failures.withLock { failures in
            defer { failures.count = max(failures.count - 1, 0) }
            return failures.count > 0 ? failures.code : nil
        }
        if code != nil, failsAfterWriting.withLock({ $0 }) { try await base.write(bytes, under: lease) }
        if let code { throw AuthError(code, "No space is left.") }
        try await base.write(bytes, under: lease)
    }
}

/// A gate that is open until a test closes it.
final class Gate: Sendable {
    private struct State {
        var isClosed = false
        var isForOne = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())
    private let (arrivals, arrived) = AsyncStream<Void>.makeStream()

    /// - Parameter isForOne: Whether only the next caller waits.
    func close(isForOne: Bool = false) { state.withLock { ($0.isClosed, $0.isForOne) = (true, isForOne) } }
    func open() {
        let waiting = state.withLock { state in
            defer { state = State() }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }
    func arrival() async { for await _ in arrivals { break } }
    func pass() async {
        await withCheckedContinuation { continuation in
            let isOpen = state.withLock { state in
                guard state.isClosed else { return true }
                state.waiting.append(continuation)
                if state.isForOne { state.isClosed = false }
                return false
            }
            if isOpen { continuation.resume() } else { arrived.yield() }
        }
    }
}

/// A transport that delays the responses to refreshes while a gate is closed.
final class SlowRefreshes: HTTPTransport {
    private let base: any HTTPTransport
    let gate = Gate()

    init(_ base: any HTTPTransport) { self.base = base }

    func send(_ call: TransportRequest) async throws -> TransportResponse {
        let response = try await base.send(call)
        if String(decoding: call.body, as: UTF8.self).contains("grant_type=refresh_token") { await gate.pass() }
        return response
    }
}

/// An emulated provider, a clock that tests can set, and a network that can fail.
struct TokenLifeEnvironment {
    let time: TestTime
    let environment: EmulatorEnvironment
    let transport: FlakyTransport

    init() throws {
        let time = TestTime()
        self.time = time
        self.environment = EmulatorEnvironment(try OIDCEmulator(issuer: "https://id.example.com", now: { time.now }))
        self.transport = FlakyTransport(environment.transport)
    }

    func client(
        store: any TokenStore = MemoryTokenStore(),
        adapter: (any ProviderAdapter)? = nil,
        transport: (any HTTPTransport)? = nil,
        scopes: [String] = ["openid", "profile", "offline_access"],
        user: OIDCEmulator.User = .alice,
        account: String? = nil,
        apiOrigins: [Endpoint] = [],
        observer: @escaping @Sendable (FlowEvent) -> Void = { _ in },
        settings change: (inout ClientRegistration.Values) throws -> Void = { _ in }
    ) throws -> AuthClient {
        var settings = try EmulatorEnvironment.registration()
        settings.scopes = scopes
        try change(&settings)
        var options = AuthClient.Options.named(account: account)
        options.apiOrigins = apiOrigins
        return try environment.client(
            registration: settings,
            adapter: adapter,
            user: user,
            store: store,
            options: options,
            transport: transport ?? self.transport,
            host: time.host,
            observer: observer
        )
    }

    var refreshes: Int {
        environment.emulator.receivedRequests.count { $0.path == "/token" && $0.form["grant_type"] == "refresh_token" }
    }

    /// The revoked tokens.
    var revoked: [String] {
        environment.emulator.receivedRequests.filter { $0.path == "/revoke" }.compactMap { $0.form["token"] }
    }
}
