import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowJOSE
import AuthFlowJSON
import AuthFlowTesting
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// A cache of a key set that a test can make unavailable.
private final class CachedKeys: Sendable {
    let time = VirtualTime()
    let isDown = Mutex(false)
    /// The number of requests for the key set.
    let fetches = Mutex(0)
    private let source: KeySource
    private let body: [UInt8]
    private let token: JWS

    init() throws {
        let keys = try EmulatorKeys()
        self.source = KeySource(now: { [time] in time.now })
        self.body = try keys.jwks().serialized()
        let header: JSON = ["alg": "ES256", "kid": .string(keys.keyID(for: .es256))]
        self.token = try JWS(Secret(try keys.sign(["sub": "alice"], header: header, with: .es256)))
    }

    func verdict() async throws -> SignatureVerdict {
        try await source.verdict(on: token, at: Endpoint("https://id.example.com/jwks")) { [self] _ in
            fetches.withLock { $0 += 1 }
            if isDown.withLock({ $0 }) { throw AuthError(.networkFailed, "The network is down.") }
            return TransportResponse(head: HTTPResponse(status: .ok), body: body)
        }
    }
}

/// Cached keys that cannot be fetched again.
@Suite struct OldKeyTests {
    @Test func keysOlderThanADayAreNotUsedWhileTheyCannotBeFetched() async throws {
        let keys = try CachedKeys()
        #expect(try await keys.verdict() == .verified)
        keys.isDown.withLock { $0 = true }
        // The keys are valid until they are a day old, whether or not they can be fetched.
        keys.time.advance(by: .seconds(80_000))
        for _ in 0..<3 { #expect(try await keys.verdict() == .verified) }
        keys.time.advance(by: .seconds(10_000))
        for _ in 0..<3 {
            let error = await #expect(throws: AuthError.self) { _ = try await keys.verdict() }
            #expect(error?.code == .networkFailed)
        }
        keys.isDown.withLock { $0 = false }
        keys.time.advance(by: .seconds(10))
        #expect(try await keys.verdict() == .verified)
    }

    /// After a renewal, the clock is set back by an hour.
    @Test func afterTheClockWasSetBackKeysAreRenewedWhenTheyExpireAndFailedFetchesAreNotRepeatedImmediately()
        async throws
    {
        let keys = try CachedKeys()
        #expect(try await keys.verdict() == .verified)
        keys.time.advance(by: .seconds(700))
        #expect(try await keys.verdict() == .verified)
        #expect(keys.fetches.withLock { $0 } == 2)

        keys.time.advance(by: .seconds(-3600))
        keys.isDown.withLock { $0 = true }
        for _ in 0..<3 { await #expect(throws: AuthError.self) { _ = try await keys.verdict() } }
        #expect(keys.fetches.withLock { $0 } == 3)

        keys.isDown.withLock { $0 = false }
        keys.time.advance(by: .seconds(10))
        #expect(try await keys.verdict() == .verified)
        keys.time.advance(by: .seconds(700))
        #expect(try await keys.verdict() == .verified)
        #expect(keys.fetches.withLock { $0 } == 5)
    }
}
