import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowJSON
import Synchronization

/// The results of introspections, for a while: one request for all who wait for the same token.
final class IntrospectionCache: Sendable {
    /// How long results count, in seconds.
    struct Times: Sendable {
        let active: Double
        let inactive: Double
    }

    /// The most requests at once. What comes beyond is not authorized (503): made-up tokens cost the issuer no more.
    private static let maximumRequests = 256
    /// The most inactive tokens that are remembered. They take no place of active ones.
    private static let maximumInactive = 10_000

    private let running = Mutex<[TokenDigest: SharedTask<JSON>]>([:])
    private let active: TokenCache<JSON>
    private let inactive = TokenCache<JSON>(limit: maximumInactive)

    init(limit: Int) { self.active = TokenCache(limit: limit) }

    func claims(
        _ digest: TokenDigest,
        _ times: Times,
        now: @escaping @Sendable () -> Date,
        _ introspect: @escaping @Sendable () async throws -> JSON
    ) async throws -> JSON {
        let present = now()
        if let known = active.value(digest, at: present) ?? inactive.value(digest, at: present) { return known }
        let task = try running.withLock { running in
            if let task = running[digest] { return task }
            guard running.count < Self.maximumRequests else {
                throw AuthError(
                    .temporarilyUnavailable,
                    "\(Self.maximumRequests) tokens are being introspected already.",
                    retryAfter: .seconds(1)
                )
            }
            let task = SharedTask { [self] in
                defer { self.running.withLock { $0[digest] = nil } }
                // A result counts from when it was asked for.
                let asked = now().timeIntervalSince1970
                let claims = try await introspect()
                if claims["active"]?.bool == true {
                    let end = claims["exp"]?.number ?? .infinity
                    active.keep(claims, digest, from: asked, until: min(asked + times.active, end))
                } else {
                    inactive.keep(claims, digest, from: asked, until: asked + times.inactive)
                }
                return claims
            }
            running[digest] = task
            return task
        }
        return try await task.value()
    }
}
