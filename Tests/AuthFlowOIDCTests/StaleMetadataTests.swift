import AuthFlow
import AuthFlowTesting
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

@testable import AuthFlowIssuer

/// Metadata that is fetched again because a signature could not be verified.
@Suite struct StaleMetadataTests {
    @Test(.timeLimit(.minutes(1))) func onlyTheCallerThatMarksTheMetadataStaleWaitsForTheRefetch() async throws {
        let time = Mutex(Date(timeIntervalSince1970: 1_800_000_000))
        let cache = MetadataCache { time.withLock { $0 } }
        let fetches = Mutex(0)
        @Sendable func metadata() throws -> ProviderMetadata {
            fetches.withLock { $0 += 1 }
            var metadata = ProviderMetadata(issuer: "https://id.example.com")
            metadata.lifetime = .seconds(3600)
            return metadata
        }
        _ = try await cache.metadata { try metadata() }
        let (stream, release) = AsyncStream<Void>.makeStream()
        let refetching = {
            try await cache.metadata(forcesRefetch: true) {
                for await _ in stream { break }
                return try metadata()
            }
        }
        // A document that was fetched very recently is not fetched again.
        _ = try await refetching()
        #expect(fetches.withLock { $0 } == 1)
        time.withLock { $0 += 61 }
        async let refetched = refetching()
        // Other callers do not wait for the response, which arrives only after they have finished.
        for _ in 0..<100 {
            _ = try await cache.metadata { throw AuthError(.discoveryFailed, "A second request.") }
            await Task.yield()
        }
        release.yield()
        _ = try await refetched
        #expect(fetches.withLock { $0 } == 2)
    }
}
