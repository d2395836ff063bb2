import AuthFlow
import AuthFlowJSON
import AuthFlowTesting
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

@testable import AuthFlowJOSE

/// A provider's JWK Set endpoint that counts its requests.
private final class KeyProvider: Sendable {
    struct State {
        var keys: JSON
        var time = Date(timeIntervalSince1970: 1_800_000_000)
        var fetches = 0
        var isDown = false
        var cacheControl: String?
        var status = HTTPResponse.Status.ok
        var waiting: [CheckedContinuation<Void, Never>] = []
        var isHeld = false
    }

    let state: Mutex<State>
    let endpoint: Endpoint

    init(_ keys: EmulatorKeys) throws {
        self.state = Mutex(State(keys: try keys.jwks()))
        self.endpoint = Endpoint("https://id.example.com/jwks")
    }

    var fetches: Int { state.withLock { $0.fetches } }
    func advance(_ seconds: TimeInterval) { state.withLock { $0.time += seconds } }
    func publish(_ keys: EmulatorKeys) throws {
        let set = try keys.jwks()
        state.withLock { $0.keys = set }
    }

    func fetch(_ endpoint: Endpoint) async throws -> TransportResponse {
        await withCheckedContinuation { continuation in
            let isHeld = state.withLock { state in
                state.fetches += 1
                if state.isHeld { state.waiting.append(continuation) }
                return state.isHeld
            }
            if !isHeld { continuation.resume() }
        }
        let (keys, isDown, cacheControl, status) = state.withLock { ($0.keys, $0.isDown, $0.cacheControl, $0.status) }
        if isDown { throw AuthError(.networkFailed, "Down.") }
        var response = TransportResponse(head: HTTPResponse(status: status), body: try keys.serialized())
        response.head.headerFields[.cacheControl] = cacheControl
        return response
    }

    func release() {
        let waiting = state.withLock { state in
            defer { state.waiting = [] }
            state.isHeld = false
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }
}

@Suite struct KeySourceTests {
    private let keys: EmulatorKeys
    private let provider: KeyProvider
    private let source: KeySource

    init() throws {
        keys = try EmulatorKeys()
        let provider = try KeyProvider(keys)
        self.provider = provider
        self.source = KeySource { provider.state.withLock { $0.time } }
    }

    private func token(_ keys: EmulatorKeys, keyID: String? = nil, named: Bool = true) throws -> JWS {
        var header: [String: JSON] = ["alg": "ES256"]
        if named { header["kid"] = .string(keyID ?? keys.keyID(for: .es256)) }
        return try JWS(Secret(try keys.sign(["sub": "x"], header: .object(header), with: .es256)))
    }

    private func verdict(_ jws: JWS) async throws -> SignatureVerdict {
        let provider = self.provider
        return try await source.verdict(on: jws, at: provider.endpoint) { try await provider.fetch($0) }
    }

    @Test func fetchesTheKeysOnceAndCachesThem() async throws {
        for _ in 0..<10 {
            #expect(try await verdict(token(keys)) == .verified)
            provider.advance(1)
        }
        #expect(provider.fetches == 1)
    }

    /// Tokens with forged signatures reach the key source, too.
    @Test func aFailedFirstFetchIsNotRepeatedForEveryToken() async throws {
        provider.state.withLock { $0.isDown = true }
        for _ in 0..<20 {
            let error = await #expect(throws: AuthError.self) { try await verdict(token(keys)) }
            #expect(error?.code == .networkFailed)
        }
        #expect(provider.fetches == 1)
        provider.state.withLock { $0.isDown = false }
        provider.advance(KeySource.failureInterval + 1)
        #expect(try await verdict(token(keys)) == .verified)
        #expect(provider.fetches == 2)
    }

    /// Keys that the provider allows to be cached for a day are usable during an outage that begins when they become stale.
    @Test func staleKeysWithALongLifetimeAreUsedDuringAnOutage() async throws {
        provider.state.withLock { $0.cacheControl = "max-age=86400" }
        #expect(try await verdict(token(keys)) == .verified)
        provider.state.withLock { $0.isDown = true }
        provider.advance(KeySource.ageBounds.upperBound + 1)
        #expect(try await verdict(token(keys)) == .verified)
    }

    @Test func findsRotatedKeysAtOnceButLimitsFurtherFetches() async throws {
        // Rows 18 and 19: the first fetch does not start a cooldown.
        #expect(try await verdict(token(keys)) == .verified)
        let second = try EmulatorKeys()
        try provider.publish(second)
        #expect(try await verdict(token(second)) == .verified)
        #expect(provider.fetches == 2)
        // A third fetch within seconds is not allowed, to avoid flooding the provider.
        let third = try EmulatorKeys()
        try provider.publish(third)
        let error = await #expect(throws: AuthError.self) { _ = try await verdict(token(third)) }
        #expect(error?.code == .temporarilyUnavailable)
        #expect(error?.retryAfter == .seconds(30))
        provider.advance(31)
        #expect(try await verdict(token(third)) == .verified)
        #expect(provider.fetches == 3)
    }

    @Test func findsRotatedKeysWithoutKeyIDs() async throws {
        let plain = { (keys: EmulatorKeys) throws -> JSON in
            let members = try keys.jwks()["keys"]?.array ?? []
            return ["keys": .array(members.map { .object(($0.object ?? [:]).filter { $0.key != "kid" }) })]
        }
        let first = try plain(keys)
        provider.state.withLock { $0.keys = first }
        #expect(try await verdict(token(keys, named: false)) == .verified)
        // A token with a key ID is verified with a key set without key IDs.
        #expect(try await verdict(token(keys)) == .verified)
        let rotated = try EmulatorKeys()
        let second = try plain(rotated)
        provider.state.withLock { $0.keys = second }
        #expect(try await verdict(token(rotated, named: false)) == .verified)
        #expect(provider.fetches == 2)
    }

    @Test func fetchesOnceForATokenWithAnUnknownKey() async throws {
        // A key set that was fetched after the token arrived is not fetched again.
        #expect(try await verdict(token(keys, keyID: "nowhere")) == .noMatchingKey)
        #expect(provider.fetches == 1)
    }

    /// A provider may replace a key without changing its key ID, so a bad signature causes one lookup, but not one
    /// per forged token.
    @Test func refetchesTheKeysOnceForABadSignature() async throws {
        #expect(try await verdict(token(keys)) == .verified)
        let forger = try EmulatorKeys()
        for _ in 0..<10 {
            #expect(try await verdict(token(forger, keyID: keys.keyID(for: .es256))) == .invalidSignature)
        }
        #expect(provider.fetches == 2)
    }

    /// A token without a key ID is compared with every key; none of them matches a forged token.
    @Test func rejectsForgedTokensWithoutKeyIDsWithoutFetchingForEach() async throws {
        #expect(try await verdict(token(keys)) == .verified)
        let forger = try EmulatorKeys()
        for _ in 0..<10 { #expect(try await verdict(token(forger, named: false)) == .noMatchingKey) }
        #expect(provider.fetches == 2)
    }

    @Test func limitsKeySetFetchesForUnknownKeyIDs() async throws {
        // Row O12.
        let forger = try EmulatorKeys()
        #expect(try await verdict(token(forger, keyID: "kid-0")) == .noMatchingKey)
        #expect(try await verdict(token(forger, keyID: "kid-1")) == .noMatchingKey)
        // Later tokens may be signed with a new key, so they are not rejected as invalid because of the forged tokens.
        for number in 2..<200 {
            let error = await #expect(throws: AuthError.self) {
                _ = try await verdict(token(forger, keyID: "kid-\(number)"))
            }
            #expect(error?.code == .temporarilyUnavailable)
        }
        #expect(provider.fetches == 2)
        provider.advance(31)
        // The negative cache: a key ID that a lookup did not find does not consume the next lookup.
        #expect(try await verdict(token(forger, keyID: "kid-1")) == .noMatchingKey)
        #expect(provider.fetches == 2)
        let rotated = try EmulatorKeys()
        try provider.publish(rotated)
        provider.advance(31)
        #expect(try await verdict(token(rotated)) == .verified)
        #expect(provider.fetches <= 4)
    }

    @Test func doesNotRefetchTheKeysForAKeyIDThatWasNotFound() async throws {
        #expect(try await verdict(token(keys)) == .verified)
        let forger = try EmulatorKeys()
        #expect(try await verdict(token(forger, keyID: "forged")) == .noMatchingKey)
        #expect(provider.fetches == 2)
        provider.advance(40)
        #expect(try await verdict(token(forger, keyID: "forged")) == .noMatchingKey)
        #expect(provider.fetches == 2)
        // The next lookup therefore remains available for tokens that need it.
        let rotated = try EmulatorKeys()
        try provider.publish(rotated)
        #expect(try await verdict(token(rotated)) == .verified)
        #expect(provider.fetches == 3)
    }

    @Test func fetchesOnceForAThousandWaiters() async throws {
        let jws = try token(keys)
        provider.state.withLock { $0.isHeld = true }
        try await withThrowingTaskGroup(of: SignatureVerdict.self) { group in
            for _ in 0..<1000 { group.addTask { try await verdict(jws) } }
            while provider.fetches == 0 { await Task.yield() }
            provider.release()
            for try await verdict in group { #expect(verdict == .verified) }
        }
        #expect(provider.fetches == 1)
    }

    @Test func fetchesAtMostTwiceForManyConcurrentForgedTokens() async throws {
        let forger = try EmulatorKeys()
        let tokens = try (0..<200).map { try token(forger, keyID: "kid-\($0)") }
        try await withThrowingTaskGroup(of: SignatureVerdict?.self) { group in
            for jws in tokens {
                group.addTask {
                    do {
                        return try await verdict(jws)
                    } catch let error as AuthError where error.code == .temporarilyUnavailable {
                        // This token arrived after the lookups for the other tokens.
                        return nil
                    }
                }
            }
            for try await verdict in group { #expect(verdict == .noMatchingKey || verdict == nil) }
        }
        #expect(provider.fetches <= 2)
    }

    @Test func cancellingOneWaiterDoesNotAffectTheOthers() async throws {
        let jws = try token(keys)
        provider.state.withLock { $0.isHeld = true }
        let first = Task { try await verdict(jws) }
        let second = Task { try await verdict(jws) }
        while provider.fetches == 0 { await Task.yield() }
        first.cancel()
        await #expect(throws: CancellationError.self) { try await first.value }
        provider.release()
        #expect(try await second.value == .verified)
        #expect(provider.fetches == 1)
    }

    @Test func usesCachedKeysForADayWhenFetchesFail() async throws {
        #expect(try await verdict(token(keys)) == .verified)
        provider.state.withLock { $0.isDown = true }
        // There is no fallback for an unknown key.
        let stranger = try token(try EmulatorKeys())
        await expectError(.networkFailed) { try await verdict(stranger) }
        #expect(try await verdict(token(keys)) == .verified)
        // Old keys are used while new keys cannot be fetched, and fetching is retried periodically.
        provider.advance(601)
        let before = provider.fetches
        for _ in 0..<10 { #expect(try await verdict(token(keys)) == .verified) }
        #expect(provider.fetches == before + 1)
        // After a day, the cached keys are no longer used.
        provider.advance(86400)
        let known = try token(keys)
        let fetches = provider.fetches
        for _ in 0..<10 { await expectError(.networkFailed) { try await verdict(known) } }
        #expect(provider.fetches == fetches + 1)
        provider.state.withLock { $0.isDown = false }
        provider.advance(10)
        #expect(try await verdict(known) == .verified)
    }

    @Test func dropsKeysThatTheProviderHasRemoved() async throws {
        #expect(try await verdict(token(keys)) == .verified)
        try provider.publish(try EmulatorKeys())
        provider.advance(601)
        #expect(try await verdict(token(keys)) == .noMatchingKey)
    }

    @Test(
        arguments: [
            (nil, 600), ("max-age=3600", 3600), ("public, max-age=300", 300), ("max-age=0", 60), ("no-store", 60),
            ("no-cache, max-age=3600", 60), ("max-age=99999999", 43200), ("max-age=x", 600), ("MAX-AGE=120", 120),
            ("max-age=-5", 60), ("max-age=nan", 600), ("max-age=\"120\"", 120),
        ] as [(String?, TimeInterval)]
    ) func followsCacheControlWithinBounds(_ field: String?, _ age: TimeInterval) {
        var response = TransportResponse(head: HTTPResponse(status: .ok))
        response.head.headerFields[.cacheControl] = field
        #expect(response.cacheAge(default: KeySource.standardAge, within: KeySource.ageBounds) == age)
    }

    /// RFC 9111 section 4.2: a response is fresh for its freshness lifetime, less its age.
    @Test(
        arguments: [
            ("max-age=3600", "3000", 600), ("max-age=3600", "4000", 60), ("max-age=3600", "x", 3600),
            (nil, "3000", 600),
        ] as [(String?, String, TimeInterval)]
    ) func subtractsTheTimeInOtherCaches(_ field: String?, _ elapsed: String, _ age: TimeInterval) {
        var response = TransportResponse(head: HTTPResponse(status: .ok))
        response.head.headerFields[.cacheControl] = field
        response.head.headerFields[.age] = elapsed
        #expect(response.cacheAge(default: KeySource.standardAge, within: KeySource.ageBounds) == age)
    }

    @Test func survivesAClockThatIsSetBack() async throws {
        #expect(try await verdict(token(keys)) == .verified)
        provider.advance(-100_000)
        #expect(try await verdict(token(keys)) == .verified)
        let rotated = try EmulatorKeys()
        try provider.publish(rotated)
        #expect(try await verdict(token(rotated)) == .verified)
    }

    @Test func ignoresKeysInAnErrorResponse() async throws {
        provider.state.withLock { $0.status = .internalServerError }
        let jws = try token(keys)
        await expectError(.temporarilyUnavailable) { try await verdict(jws) }
    }

    @Test func rejectsKeySetsThatAreTooLarge() async throws {
        let large = JSON.object(["keys": [], "x": .string(String(repeating: "x", count: 300_000))])
        provider.state.withLock { $0.keys = large }
        let jws = try token(keys)
        await expectError(.invalidResponse) { try await verdict(jws) }
    }
}
