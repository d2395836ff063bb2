public import AuthFlowEssentials
import AuthFlowHTTP
public import AuthFlowStorage
import Crypto
import Synchronization

/// The identifier of a proof, derived from its key and its `jti`, so that no client can claim the identifiers of
/// another client's proofs.
public struct ProofIdentifier: Sendable, Hashable {
    /// The SHA-256 hash of the key's thumbprint and the `jti`.
    public let bytes: [UInt8]

    package init(thumbprint: String, identifier: String) {
        self.bytes = Array(SHA256.hash(data: Array("\(thumbprint) \(identifier)".utf8)))
    }
}

/// A replay cache for DPoP proofs (RFC 9449 section 11.1): no proof is accepted twice.
public protocol ProofReplayCache: Sendable {
    /// Marks a proof as used.
    /// - Parameters:
    ///   - proof: The proof.
    ///   - now: The current time.
    ///   - window: The maximum time during which the proof could be replayed.
    /// - Returns: Whether this is the first use of the proof.
    /// - Throws: ``/AuthFlow/AuthError`` if the cache cannot determine this; the request is then rejected.
    func isFirstUse(of proof: ProofIdentifier, at now: Date, within window: Duration) async throws -> Bool
}

/// A replay cache in memory, for an API that runs in a single process.
///
/// It has two generations, each of which covers one window: a proof is stored for at least one window, and removed
/// together with its generation. If the clock is set back, both generations are retained until the clock reaches the end of their
/// windows, because their proofs will be valid again. If the clock was ahead only briefly, the proofs from
/// before the jump have already been removed.
public final class MemoryReplayCache: ProofReplayCache {
    private struct State {
        var recent: Set<ProofIdentifier> = []
        var earlier: Set<ProofIdentifier> = []
        var began = Date.distantPast
        /// The proofs that were used before the clock was set back.
        var usedBeforeClockReset: Set<ProofIdentifier> = []
        var clockResetExpiry = Date.distantPast

        mutating func move(to now: Date, _ window: TimeInterval) {
            if now >= clockResetExpiry { usedBeforeClockReset = [] }
            let age = now.timeIntervalSince(began)
            // Concurrent requests may arrive out of order.
            if age < -window {
                usedBeforeClockReset.formUnion(recent)
                usedBeforeClockReset.formUnion(earlier)
                clockResetExpiry = max(clockResetExpiry, began + 2 * window)
                (recent, earlier, began) = ([], [], now)
            } else if age >= 2 * window {
                (recent, earlier, began) = ([], [], now)
            } else if age >= window {
                (recent, earlier, began) = ([], recent, now)
            }
        }
    }

    private let state = Mutex(State())
    private let limit: Int

    /// Creates an empty cache.
    /// - Parameter limit: The maximum number of proofs per window; default: 500,000, about 60 MB. Once it is reached,
    ///   requests with a proof are rejected (503).
    public init(limit: Int = 500_000) { self.limit = limit }

    public func isFirstUse(of proof: ProofIdentifier, at now: Date, within window: Duration) throws -> Bool {
        try state.withLock { state in
            state.move(to: now, window.seconds)
            let isUsed =
                state.recent.contains(proof) || state.earlier.contains(proof)
                || state.usedBeforeClockReset.contains(proof)
            if isUsed { return false }
            guard state.recent.count < limit, state.usedBeforeClockReset.count <= 2 * limit else {
                throw AuthError(
                    .temporarilyUnavailable,
                    "The replay cache is full: it accepts at most \(limit) proofs in \(Int(window.seconds)) s.",
                    retryAfter: window
                )
            }
            state.recent.insert(proof)
            return true
        }
    }
}

/// A replay cache in a store that all instances of an API share: PostgreSQL or Redis, or SQLite for several processes on one machine.
///
/// While proofs arrive, it removes expired records from the store once a minute.
public final class SharedReplayCache: ProofReplayCache {
    /// The interval at which expired records are removed, in seconds.
    private static let sweepInterval = 60.0

    /// The allowed clock skew between two instances: one may accept a proof for this long after the other considers it expired.
    private static let allowedClockSkew = Duration.seconds(60)

    private let store: any SessionTokenStore
    private let resource: String
    private let lastSweep = Mutex(Date.distantPast)

    /// Creates a cache.
    /// - Parameters:
    ///   - store: The store.
    ///   - resource: The identifier of the API, so that several APIs can share a store.
    public init(_ store: any SessionTokenStore, resource: String) {
        self.store = store
        self.resource = resource
    }

    public func isFirstUse(of proof: ProofIdentifier, at now: Date, within window: Duration) async throws -> Bool {
        let key = RecordKey(
            name: "proof \(Base64URL.encode(proof.bytes))",
            issuer: resource,
            clientID: "",
            kind: .claim
        )
        let isFirst = try await store.claim(key, for: window + Self.allowedClockSkew)
        if isSweepDue(now) {
            // No request waits for this task. Its errors can be ignored, because a failing store also makes the next
            // claim fail.
            Task.detached { [store] in while try await store.removeEnded() > 0 {} }
        }
        return isFirst
    }

    private func isSweepDue(_ now: Date) -> Bool {
        lastSweep.withLock { last in
            guard now >= last + Self.sweepInterval || now < last else { return false }
            last = now
            return true
        }
    }
}
