import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowJOSE
import AuthFlowJSON
import AuthFlowTesting
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// Cached keys that cannot be fetched again.
@Suite struct OldKeyTests {
    @Test func keysOlderThanADayAreNotUsedWhileTheyCannotBeFetched() async throws {
        let keys = try EmulatorKeys()
        let time = Mutex(Date(timeIntervalSince1970: 1_800_000_000))
        let isDown = Mutex(false)
        let source = KeySource(now: { time.withLock { $0 } })
        let body = try keys.jwks().serialized()
        let header: JSON = ["alg": "ES256", "kid": .string(keys.keyID(for: .es256))]
        let token = try JWS(Secret(try keys.sign(["sub": "alice"], header: header, with: .es256)))
        let place = Endpoint("https://id.example.com/jwks")
        func verdict() async throws -> SignatureVerdict {
            try await source.verdict(on: token, at: place) { _ in
                if isDown.withLock({ $0 }) { throw AuthError(.networkFailed, "The network is down.") }
                return TransportResponse(head: HTTPResponse(status: .ok), body: body)
            }
        }
        #expect(try await verdict() == .verified)
        isDown.withLock { $0 = true }
        // The keys are valid until they are a day old, whether or not they can be fetched.
        time.withLock { $0 += 80_000 }
        for _ in 0..<3 { #expect(try await verdict() == .verified) }
        time.withLock { $0 += 10_000 }
        for _ in 0..<3 {
            let error = await #expect(throws: AuthError.self) { _ = try await verdict() }
            #expect(error?.code == .networkFailed)
        }
        isDown.withLock { $0 = false }
        time.withLock { $0 += 10 }
        #expect(try await verdict() == .verified)
    }

    /// After a renewal, the clock is set back by an hour.
    @Test func afterTheClockWasSetBackKeysAreRenewedWhenTheyExpireAndFailedFetchesAreNotRepeatedImmediately()
        async throws
    {
        let keys = try EmulatorKeys()
        let time = Mutex(Date(timeIntervalSince1970: 1_800_000_000))
        let isDown = Mutex(false)
        let fetches = Mutex(0)
        let source = KeySource(now: { time.withLock { $0 } })
        let body = try keys.jwks().serialized()
        let header: JSON = ["alg": "ES256", "kid": .string(keys.keyID(for: .es256))]
        let token = try JWS(Secret(try keys.sign(["sub": "alice"], header: header, with: .es256)))
        let place = Endpoint("https://id.example.com/jwks")
        func verdict() async throws -> SignatureVerdict {
            try await source.verdict(on: token, at: place) { _ in
                fetches.withLock { $0 += 1 }
                if isDown.withLock({ $0 }) { throw AuthError(.networkFailed, "The network is down.") }
                return TransportResponse(head: HTTPResponse(status: .ok), body: body)
            }
        }
        #expect(try await verdict() == .verified)
        time.withLock { $0 += 700 }
        #expect(try await verdict() == .verified)
        #expect(fetches.withLock { $0 } == 2)

        time.withLock { $0 -= 3600 }
        isDown.withLock { $0 = true }
        for _ in 0..<3 { await #expect(throws: AuthError.self) { _ = try await verdict() } }
        #expect(fetches.withLock { $0 } == 3)

        isDown.withLock { $0 = false }
        time.withLock { $0 += 10 }
        #expect(try await verdict() == .verified)
        time.withLock { $0 += 700 }
        #expect(try await verdict() == .verified)
        #expect(fetches.withLock { $0 } == 5)
    }
}
