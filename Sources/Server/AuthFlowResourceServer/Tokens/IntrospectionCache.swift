import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowJSON
import Synchronization

/// A cache of introspection results. Concurrent callers with the same token share one request.
final class IntrospectionCache: Sendable {
    /// The time for which the result for an inactive token is cached, in seconds.
    private static let inactiveTime = 10.0
    /// The maximum number of concurrent requests. Further requests are rejected (503), which limits the load that
    /// forged tokens can cause at the issuer.
    private static let maximumRequests = 256
    /// The maximum number of concurrent requests for unknown tokens, so that forged tokens leave capacity for known
    /// tokens.
    private static let maximumUnknown = 128
    /// The maximum number of cached inactive tokens. Inactive tokens do not displace active tokens.
    private static let maximumInactive = 10_000
    /// The maximum size of a cached result, in bytes.
    private static let maximumResultSize = 8 * 1024
    /// The pause before further requests when the issuer is unavailable, in seconds: the minimum, which is also the default without Retry-After,
    /// and the maximum. A delay of zero, or a time in the past, says nothing about when a request will succeed.
    private static let pause = (shortest: 1.0, longest: 30.0)

    private struct State {
        var running: [TokenDigest: SharedTask<JSON>] = [:]
        /// The number of requests in progress for unknown tokens.
        var unknown = 0
        /// The pause during which no requests are sent for unknown tokens.
        var unknownPause: Pause?
        /// The pause during which no requests are sent for any token.
        var pause: Pause?
    }

    /// A pause, and the error that caused it.
    private struct Pause {
        let from: Date
        let until: Date
        let error: AuthError

        func contains(_ time: Date) -> Bool { time >= from && time < until }

        /// The error for a request during the pause. Its retry delay is the remaining pause instead of
        /// the issuer's Retry-After value, which may be longer.
        func error(at time: Date) -> AuthError {
            AuthError(
                error.code,
                error.message,
                providerError: error.providerError,
                status: error.status,
                retryAfter: .seconds(until.timeIntervalSince(time)),
                underlyingError: error
            )
        }
    }

    private let state = Mutex(State())
    private let active: TokenCache<JSON>
    private let inactive = TokenCache<JSON>(limit: maximumInactive)
    /// The errors that the issuer returned for individual tokens instead of reporting the tokens as inactive (RFC 7662
    /// section 2.2).
    private let rejected = TokenCache<AuthError>(limit: maximumInactive)
    /// The tokens that were active in an earlier introspection.
    private let known: TokenCache<Bool>

    init(limit: Int) {
        self.active = TokenCache(limit: limit)
        self.known = TokenCache(limit: limit)
    }

    /// - Parameters:
    ///   - activeTime: The time for which the result for an active token is cached, in seconds.
    ///   - isVerified: Whether the token is a JWT with a verified signature, and is therefore not forged.
    func claims(
        _ digest: TokenDigest,
        _ activeTime: Double,
        isVerified: Bool,
        now: @escaping @Sendable () -> Date,
        _ introspect: @escaping @Sendable () async throws -> JSON
    ) async throws -> JSON {
        let present = now()
        if let known = active.value(digest, at: present) ?? inactive.value(digest, at: present) { return known }
        if let error = rejected.value(digest, at: present) { throw error }
        let isKnown = isVerified || known.value(digest, at: present) != nil
        let task = try state.withLock { state in
            if let task = state.running[digest] { return task }
            // Forged tokens can cause failures, which must not affect known tokens.
            for pause in [state.pause, isKnown ? nil : state.unknownPause] {
                if let pause, pause.contains(present) { throw pause.error(at: present) }
            }
            guard state.running.count < Self.maximumRequests, isKnown || state.unknown < Self.maximumUnknown else {
                throw AuthError(
                    .temporarilyUnavailable,
                    "\(state.running.count) introspection requests are already in progress.",
                    retryAfter: .seconds(1)
                )
            }
            let task = SharedTask { [self] in
                defer {
                    self.state.withLock { state in
                        state.running[digest] = nil
                        if !isKnown { state.unknown -= 1 }
                    }
                }
                do {
                    return try await ask(digest, activeTime, now: now, introspect)
                } catch let error as AuthError where error.isTransient {
                    let length = min(max(error.retryAfter?.seconds ?? 0, Self.pause.shortest), Self.pause.longest)
                    let time = now()
                    let new = Pause(from: time, until: time + length, error: error)
                    let pause = self.state.withLock { state in
                        let current = isKnown ? state.pause : state.unknownPause
                        // Another request may have received a longer delay in the meantime.
                        if let current, current.contains(time), current.until > new.until { return current }
                        if isKnown { state.pause = new } else { state.unknownPause = new }
                        return new
                    }
                    throw pause.error(at: time)
                } catch let error as AuthError where error.code == .providerRejected {
                    let time = now().timeIntervalSince1970
                    rejected.store(error, digest, from: time, until: time + Self.inactiveTime)
                    throw error
                }
            }
            state.running[digest] = task
            if !isKnown { state.unknown += 1 }
            return task
        }
        return try await task.value()
    }

    private func ask(
        _ digest: TokenDigest,
        _ activeTime: Double,
        now: @Sendable () -> Date,
        _ introspect: @Sendable () async throws -> JSON
    ) async throws -> JSON {
        // The lifetime of a result starts when its request is sent.
        let requestedAt = now().timeIntervalSince1970
        let claims = try await introspect()
        // A large result is not cached, because the caches limit only the number of results.
        guard (try claims.serialized()).count <= Self.maximumResultSize else { return claims }
        if claims["active"]?.bool == true {
            let end = claims["exp"]?.number ?? .infinity
            active.store(claims, digest, from: requestedAt, until: min(requestedAt + activeTime, end))
            known.store(true, digest, from: requestedAt, until: end)
        } else {
            inactive.store(claims, digest, from: requestedAt, until: requestedAt + Self.inactiveTime)
        }
        return claims
    }
}
