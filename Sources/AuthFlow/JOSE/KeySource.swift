import AuthFlowJSON
import Foundation

/// The provider's signing keys, fetched when they are needed and kept.
actor KeySource {
    /// After a fetch for a key that was not found, further unknown keys wait this long, in seconds, so that forged
    /// tokens cannot make this client hammer the provider.
    private static let cooldown: TimeInterval = 30

    private var keySets: [String: JWKSet] = [:]
    private var lastMiss: [String: Date] = [:]

    /// The keys that may have signed a token with this header.
    ///
    /// OIDC Core section 10.1.1: a key ID that is not known means that the keys were rotated: "the verifier knows to go
    /// back to the jwks_uri location to re-retrieve the keys". The first time that happens at once.
    func candidates(
        for header: JWSHeader,
        at endpoint: Endpoint,
        now: Date,
        fetch: @Sendable (Endpoint) async throws -> JSON
    ) async throws -> [JWK] {
        if let known = keySets[endpoint.url]?.candidates(for: header), !known.isEmpty { return known }
        let isRotation = keySets[endpoint.url] != nil
        if isRotation {
            if let last = lastMiss[endpoint.url], abs(now.timeIntervalSince(last)) < Self.cooldown { return [] }
            lastMiss[endpoint.url] = now
        }
        let fetched = try JWKSet(try await fetch(endpoint))
        keySets[endpoint.url] = fetched
        return fetched.candidates(for: header)
    }
}
