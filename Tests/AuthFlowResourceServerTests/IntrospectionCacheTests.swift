import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowJSON
import Expectations
import Synchronization
import Testing

@testable import AuthFlowResourceServer

/// Caching of an API's requests to the introspection endpoint.
@Suite struct IntrospectionCacheTests {
    private static let time = 30.0

    private final class Clock: Sendable {
        private let time = Mutex(Date(timeIntervalSince1970: 1_800_000_000))
        var now: Date { time.withLock { $0 } }
        func advance(_ seconds: Double) { time.withLock { $0 += seconds } }
    }

    /// Requests that wait until they are released.
    private final class Gate: Sendable {
        private let waiting = Mutex<[CheckedContinuation<Void, Never>]?>([])

        var count: Int { waiting.withLock { $0?.count ?? 0 } }

        func wait() async {
            await withCheckedContinuation { continuation in
                let isOpen = waiting.withLock { waiting in
                    waiting?.append(continuation)
                    return waiting == nil
                }
                if isOpen { continuation.resume() }
            }
        }

        func open() {
            let all = waiting.withLock { waiting in
                defer { waiting = nil }
                return waiting ?? []
            }
            for continuation in all { continuation.resume() }
        }
    }

    @Test func forgedTokensDoNotBlockIntrospectionOfKnownTokens() async throws {
        let (cache, gate) = (IntrospectionCache(limit: 1000), Gate())
        let time = Clock()
        @Sendable func ask(_ token: String, isVerified: Bool = false, waits: Bool) async throws -> JSON {
            try await cache.claims(
                TokenDigest(Secret(token)),
                Self.time,
                isVerified: isVerified,
                now: { time.now }
            ) {
                if waits { await gate.wait() }
                return ["active": true]
            }
        }
        _ = try await ask("seen before", waits: false)
        time.advance(60)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<128 {
                group.addTask { @Sendable in _ = try await ask("made up \(number)", waits: true) }
            }
            while gate.count < 128 { await Task.yield() }
            let error = await #expect(throws: AuthError.self) { _ = try await ask("one more", waits: false) }
            #expect(error?.code == .temporarilyUnavailable)
            _ = try await ask("seen before", waits: false)
            _ = try await ask("a verified JWT", isVerified: true, waits: false)
            gate.open()
            try await group.waitForAll()
        }
        _ = try await ask("one more", waits: false)
    }

    @Test(.timeLimit(.minutes(10))) func atMost256IntrospectionRequestsRunConcurrently() async throws {
        let (cache, gate) = (IntrospectionCache(limit: 1000), Gate())
        let time = Clock()
        @Sendable func ask(_ token: String, waits: Bool) async throws -> JSON {
            try await cache.claims(TokenDigest(Secret(token)), Self.time, isVerified: true, now: { time.now }) {
                if waits { await gate.wait() }
                return ["active": true]
            }
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { gate.open() }
            for number in 0..<256 {
                group.addTask { @Sendable in _ = try await ask("\(number)", waits: true) }
            }
            while gate.count < 256 {
                try Task.checkCancellation()
                await Task.yield()
            }
            let error = await #expect(throws: AuthError.self) { _ = try await ask("one more", waits: false) }
            #expect(error?.code == .temporarilyUnavailable)
            #expect(error?.message.contains("256 introspection requests are already in progress") == true)
            gate.open()
            try await group.waitForAll()
        }
        _ = try await ask("one more", waits: false)
    }

    @Test func sendsNoIntrospectionRequestUntilRetryAfterHasElapsed() async throws {
        let cache = IntrospectionCache(limit: 1000)
        let time = Clock()
        let requests = Mutex(0)
        @Sendable func ask(_ token: String, _ failure: AuthError?) async throws -> JSON {
            try await cache.claims(
                TokenDigest(Secret(token)),
                Self.time,
                isVerified: false,
                now: { time.now }
            ) {
                requests.withLock { $0 += 1 }
                if let failure { throw failure }
                return ["active": true]
            }
        }
        let busy = AuthError(.temporarilyUnavailable, "Busy.", retryAfter: .seconds(10))
        for number in 0..<5 { await #expect(throws: AuthError.self) { _ = try await ask("\(number)", busy) } }
        #expect(requests.withLock { $0 } == 1)
        time.advance(11)
        _ = try await ask("5", nil)
        // An error for one token does not affect the next token.
        await expectError(.invalidResponse) { _ = try await ask("6", AuthError(.invalidResponse, "Not JSON.")) }
        _ = try await ask("7", nil)
    }

    /// The issuer's `Retry-After` may exceed the maximum pause.
    @Test func theRetryAfterOfARejectedRequestIsTheRestOfThePause() async throws {
        let (cache, time) = (IntrospectionCache(limit: 1000), Clock())
        @Sendable func retryAfter(_ token: String) async throws -> Duration? {
            let error = await #expect(throws: AuthError.self) {
                try await cache.claims(TokenDigest(Secret(token)), Self.time, isVerified: false, now: { time.now }) {
                    throw AuthError(.temporarilyUnavailable, "Busy.", retryAfter: .seconds(3600))
                }
            }
            return error?.retryAfter
        }
        #expect(try await retryAfter("one") == .seconds(30))
        time.advance(10)
        #expect(try await retryAfter("two") == .seconds(20))
    }

    /// A `Retry-After` of zero, or a time in the past, says nothing about when a request will succeed.
    @Test(arguments: [nil, .zero, .milliseconds(100)] as [Duration?])
    func requestsPauseForASecondAfterAFailureWithoutADelay(_ delay: Duration?) async throws {
        let (cache, time) = (IntrospectionCache(limit: 1000), Clock())
        let requests = Mutex(0)
        @Sendable func ask(_ token: String) async throws -> JSON {
            try await cache.claims(TokenDigest(Secret(token)), Self.time, isVerified: false, now: { time.now }) {
                requests.withLock { $0 += 1 }
                throw AuthError(.temporarilyUnavailable, "Busy.", retryAfter: delay)
            }
        }
        for number in 0..<5 { await expectError(.temporarilyUnavailable) { _ = try await ask("\(number)") } }
        #expect(requests.withLock { $0 } == 1)
        time.advance(1)
        await expectError(.temporarilyUnavailable) { _ = try await ask("5") }
        #expect(requests.withLock { $0 } == 2)
    }

    /// Concurrent requests may fail in different ways, for example with 503 and with a timeout.
    @Test(.timeLimit(.minutes(1))) func aLaterFailureDoesNotShortenThePause() async throws {
        let (cache, time, gate) = (IntrospectionCache(limit: 1000), Clock(), Gate())
        @Sendable func ask(_ token: String, _ delay: Duration?, waits: Bool = false) async throws -> JSON {
            try await cache.claims(TokenDigest(Secret(token)), Self.time, isVerified: false, now: { time.now }) {
                if waits { await gate.wait() }
                throw AuthError(.temporarilyUnavailable, "Busy.", retryAfter: delay)
            }
        }
        let slow = Task { try await ask("slow", nil, waits: true) }
        while gate.count == 0 { await Task.yield() }
        await expectError(.temporarilyUnavailable) { _ = try await ask("fast", .seconds(20)) }
        gate.open()
        await expectError(.temporarilyUnavailable) { _ = try await slow.value }
        time.advance(5)
        let error = await #expect(throws: AuthError.self) { try await ask("next", nil) }
        #expect(error?.retryAfter == .seconds(15))
    }

    @Test func aFailureForAForgedTokenDoesNotPauseRequestsForKnownTokens() async throws {
        let cache = IntrospectionCache(limit: 1000)
        let time = Clock()
        @Sendable func ask(_ token: String, _ failure: AuthError? = nil) async throws -> JSON {
            try await cache.claims(
                TokenDigest(Secret(token)),
                Self.time,
                isVerified: token.hasPrefix("verified"),
                now: { time.now }
            ) {
                if let failure { throw failure }
                return ["active": true]
            }
        }
        let busy = AuthError(.temporarilyUnavailable, "Busy.", retryAfter: .seconds(10))
        _ = try await ask("seen before")
        time.advance(60)
        await expectError(.temporarilyUnavailable) { _ = try await ask("forged", busy) }
        await expectError(.temporarilyUnavailable) { _ = try await ask("another forged") }
        _ = try await ask("seen before")
        _ = try await ask("verified")
        // A failure for a token that has been verified pauses all requests.
        await expectError(.temporarilyUnavailable) { _ = try await ask("verified too", busy) }
        await expectError(.temporarilyUnavailable) { _ = try await ask("verified again") }
    }

    @Test func aRejectedIntrospectionRequestIsNotRetriedImmediately() async throws {
        let cache = IntrospectionCache(limit: 1000)
        let time = Clock()
        let requests = Mutex(0)
        @Sendable func ask(_ token: String) async throws -> JSON {
            try await cache.claims(TokenDigest(Secret(token)), Self.time, isVerified: false, now: { time.now }) {
                requests.withLock { $0 += 1 }
                throw AuthError(.providerRejected, "Status 400.")
            }
        }
        for _ in 0..<3 { await expectError(.providerRejected) { _ = try await ask("unreadable") } }
        #expect(requests.withLock { $0 } == 1)
        time.advance(11)
        await expectError(.providerRejected) { _ = try await ask("unreadable") }
        await expectError(.providerRejected) { _ = try await ask("another") }
        #expect(requests.withLock { $0 } == 3)
    }
}
