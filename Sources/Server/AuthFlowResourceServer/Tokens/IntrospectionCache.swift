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

    private struct Entry {
        let claims: JSON
        let from: Double
        let until: Double
    }

    /// The most requests at once. What comes beyond is not authorized (503): made-up tokens cost the issuer no more.
    private static let maximumRequests = 256
    /// The most inactive tokens that are remembered. They take no place of active ones.
    private static let maximumInactive = 10_000

    private struct State {
        var inactive: [TokenDigest: Entry] = [:]
        var recent: [TokenDigest: Entry] = [:]
        var earlier: [TokenDigest: Entry] = [:]
        var running: [TokenDigest: SharedTask<JSON>] = [:]
    }

    private let state = Mutex(State())
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    func claims(
        _ digest: TokenDigest,
        _ times: Times,
        now: @escaping @Sendable () -> Date,
        _ introspect: @escaping @Sendable () async throws -> JSON
    ) async throws -> JSON {
        let time = now().timeIntervalSince1970
        let (known, task) = try state.withLock { state -> (JSON?, SharedTask<JSON>?) in
            let entry = state.inactive[digest] ?? state.recent[digest] ?? state.earlier[digest]
            if let entry, entry.from <= time, time < entry.until { return (entry.claims, nil) }
            if let running = state.running[digest] { return (nil, running) }
            guard state.running.count < Self.maximumRequests else {
                throw AuthError(
                    .temporarilyUnavailable,
                    "\(Self.maximumRequests) tokens are being introspected already.",
                    retryAfter: .seconds(1)
                )
            }
            let task = SharedTask { [self] in
                // A result counts from when it was asked for.
                let asked = now().timeIntervalSince1970
                do {
                    let claims = try await introspect()
                    self.state.withLock { finish(&$0, digest, claims, asked, times) }
                    return claims
                } catch {
                    self.state.withLock { $0.running[digest] = nil }
                    throw error
                }
            }
            state.running[digest] = task
            return (nil, task)
        }
        if let known { return known }
        guard let task else { throw AuthError(.invalidResponse, "The token could not be introspected.") }
        return try await task.value()
    }

    private func finish(_ state: inout State, _ digest: TokenDigest, _ claims: JSON, _ asked: Double, _ times: Times) {
        state.running[digest] = nil
        let isActive = claims["active"]?.bool == true
        let end = claims["exp"]?.number ?? .infinity
        let until = isActive ? min(asked + times.active, end) : asked + times.inactive
        state.inactive[digest] = nil
        guard isActive else {
            if state.inactive.count >= Self.maximumInactive { state.inactive = [:] }
            state.inactive[digest] = Entry(claims: claims, from: asked, until: until)
            return
        }
        guard limit > 0, asked < until else { return }
        state.recent[digest] = Entry(claims: claims, from: asked, until: until)
        if state.recent.count > limit / 2 { (state.recent, state.earlier) = ([:], state.recent) }
    }
}
