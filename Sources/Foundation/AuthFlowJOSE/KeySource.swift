package import AuthFlowEssentials
package import AuthFlowHTTP
import AuthFlowJSON
import Synchronization

/// The providers' signing keys, which are fetched on demand, cached, and fetched again after a rotation.
///
/// - Only one fetch of each key set is in progress at a time, however many tasks wait for it.
/// - If a token's `kid` is unknown, or its signature does not match the key, the keys are fetched again immediately,
///   but after that at most once every ``unknownKeyIDSearchInterval`` seconds (``failureInterval`` after a failure). Forged tokens
///   therefore cannot cause a flood of requests, and a token signed with a new key is verified even if the keys were fetched just before the rotation.
/// - A failed fetch does not discard cached keys.
package final class KeySource: Sendable {
    /// Sends the request for a key set.
    package typealias Fetch = @Sendable (Endpoint) async throws -> TransportResponse

    /// The default freshness lifetime of keys, in seconds, when the provider does not specify one.
    static let standardAge: TimeInterval = 600
    /// The bounds for the lifetime in `Cache-Control: max-age`, in seconds.
    static let ageBounds: ClosedRange<TimeInterval> = 60...43200
    /// The maximum age, in seconds, of stale keys, which are used while new keys cannot be fetched. It is longer than any freshness lifetime.
    static let maximumStaleAge: TimeInterval = 86400
    /// The minimum interval between two searches for an unknown key, in seconds, if the first search succeeds.
    static let unknownKeyIDSearchInterval: TimeInterval = 30
    /// The time for which an unknown key ID is cached, in seconds. Tokens with that ID are rejected without another
    /// search.
    static let unknownKeyIDAge: TimeInterval = 60
    /// The minimum interval between a failed fetch and the next fetch for the same reason, in seconds.
    static let failureInterval: TimeInterval = 5
    /// The maximum number of cached key sets: the issuer's current key set, and those at a few of its previous URLs.
    static let maximumSets = 4
    /// The maximum size of a key set, in bytes.
    static let maximumSize = 256 * 1024

    private struct Entry {
        var keys: JWKSet?
        /// The number of fetches that have been started.
        var begun = 0
        /// The sequence number of the fetch that returned `keys`.
        var generation = 0
        var fetchedAt = Date.distantPast
        var freshUntil = Date.distantPast
        var running: SharedTask<Void>?
        /// The error of the last fetch; nil if it succeeded.
        var failure: (any Error)?
        var nextSearch = Date.distantPast
        var nextRenewal = Date.distantPast
        var unknownKeyIDs: [String: Date] = [:]
    }

    private let entries = Mutex<[String: Entry]>([:])
    private let now: @Sendable () -> Date

    package init(now: @escaping @Sendable () -> Date) {
        self.now = now
    }

    /// Verifies a signature with the provider's keys.
    /// - Parameters:
    ///   - jws: The token. Its algorithm must already have been checked.
    ///   - endpoint: `jwks_uri`.
    ///   - template: The rule for the issuers of tokens, if the keys of the set may belong to different issuers.
    /// - Throws: ``AuthError`` when keys are needed and cannot be fetched.
    package func verdict(
        on jws: JWS,
        at endpoint: Endpoint,
        template: TokenIssuerTemplate? = nil,
        fetch: @escaping Fetch
    ) async throws -> SignatureVerdict {
        let arrival = entries.withLock { $0[endpoint.url]?.begun ?? 0 }
        var verdict = SignatureVerdict.noMatchingKey
        var wasSearched = false
        // Up to three fetches may be needed: one because no keys are cached, one that started before the token was
        // signed, and one that started afterwards.
        for _ in 0..<3 {
            let (keys, generation) = try await usableKeys(at: endpoint, fetch: fetch)
            verdict = keys.verdict(on: jws, template: template)
            wasSearched = generation > arrival
            // OIDC Core section 10.1.1: "the verifier knows to go back to the jwks_uri location to re-retrieve the keys
            // when it sees an unfamiliar kid value". A key may also have been replaced under the same ID. The
            // result of a fetch that started after the token had arrived is final.
            if case .verified = verdict { break }
            guard !wasSearched else { break }
            let search: SharedTask<Void>
            switch self.search(for: jws.header.keyID, at: endpoint, fetch: fetch) {
            case .running(let task): search = task
            case .notStarted(let reason):
                if case .noMatchingKey = verdict, let reason { throw reason }
                return verdict
            }
            do {
                try await search.value()
            } catch {
                // If one of the cached keys has that ID, the signature is definitely invalid.
                try Task.checkCancellation()
                guard case .invalidSignature = verdict else { throw error }
                break
            }
        }
        if case .noMatchingKey = verdict, wasSearched, let keyID = jws.header.keyID {
            record(unknown: keyID, at: endpoint)
        }
        return verdict
    }

    /// The time since keys were last fetched, in seconds; nil when none have been fetched.
    package var age: TimeInterval? {
        let now = self.now()
        return entries.withLock { $0.values.filter { $0.keys != nil }.map(\.fetchedAt).max() }
            .map { now.timeIntervalSince($0) }
    }

    /// Whether the most recent fetch of any key set failed.
    package var lastFetchFailed: Bool { entries.withLock { $0.values.contains { $0.failure != nil } } }

    /// The provider's keys for verifying its signatures.
    /// - Throws: ``AuthError`` when they are needed and cannot be fetched.
    package func signatureKeys(at endpoint: Endpoint, fetch: @escaping Fetch) async throws -> [JWK] {
        try await usableKeys(at: endpoint, fetch: fetch).0.keys
    }

    /// The provider's keys for encrypting messages to the provider.
    /// - Throws: ``AuthError`` when they are needed and cannot be fetched.
    package func encryptionKeys(at endpoint: Endpoint, fetch: @escaping Fetch) async throws -> [EncryptionKey] {
        try await usableKeys(at: endpoint, fetch: fetch).0.encryptionKeys
    }

    /// Returns the current keys, after fetching them if there are none or they are stale.
    private func usableKeys(at endpoint: Endpoint, fetch: @escaping Fetch) async throws -> (JWKSet, generation: Int) {
        let now = self.now()
        let (known, renewal) = try entries.withLock { entries -> ((JWKSet, Int)?, SharedTask<Void>?) in
            let entry = entries[endpoint.url] ?? Entry()
            // If the clock was set back, the age of the keys is unknown.
            guard let keys = entry.keys, now >= entry.fetchedAt else {
                if entry.running == nil, let failure = entry.failure,
                    Self.isWaiting(now, entry.nextSearch, Self.failureInterval)
                {
                    throw failure
                }
                return (nil, begin(&entries, endpoint, fetch))
            }
            let isFresh = now < entry.freshUntil
            let isUsable = now < entry.fetchedAt + Self.maximumStaleAge
            guard !isFresh, !Self.isWaiting(now, entry.nextRenewal, Self.failureInterval) else {
                if isFresh || isUsable { return ((keys, entry.generation), nil) }
                // Keys that are too old must not be used, so this method either waits for new keys or throws.
                if let running = entry.running { return (nil, running) }
                if let failure = entry.failure { throw failure }
                return (nil, begin(&entries, endpoint, fetch))
            }
            entries[endpoint.url]?.nextRenewal = now + Self.failureInterval
            return (isUsable ? (keys, entry.generation) : nil, begin(&entries, endpoint, fetch))
        }
        if let renewal {
            do {
                try await renewal.value()
            } catch {
                try Task.checkCancellation()
                // If the fetch fails, the previous keys remain usable.
                guard let known else { throw error }
                return known
            }
            let entry = entries.withLock { $0[endpoint.url] ?? Entry() }
            if let keys = entry.keys { return (keys, entry.generation) }
        }
        guard let known else { throw AuthError(.invalidResponse, "The provider's key set could not be read.") }
        return known
    }

    private enum Search {
        case running(SharedTask<Void>)
        /// No search may start yet, or the key ID is cached as unknown. The associated error, if any, must be thrown if no cached key matches.
        case notStarted((any Error)?)
    }

    /// Starts a search for an unknown key, or joins the fetch in progress.
    private func search(for keyID: String?, at endpoint: Endpoint, fetch: @escaping Fetch) -> Search {
        let now = self.now()
        return entries.withLock { entries in
            guard let entry = entries[endpoint.url] else { return .notStarted(nil) }
            if let running = entry.running { return .running(running) }
            if let keyID, let until = entry.unknownKeyIDs[keyID], Self.isWaiting(now, until, Self.unknownKeyIDAge) {
                return .notStarted(entry.failure)
            }
            guard Self.isWaiting(now, entry.nextSearch, Self.unknownKeyIDSearchInterval) else {
                entries[endpoint.url]?.nextSearch = now + Self.unknownKeyIDSearchInterval
                return .running(begin(&entries, endpoint, fetch))
            }
            // Neither a failed fetch nor a search for another token's key proves that this token's key does not exist.
            guard entry.failure == nil, keyID != nil else { return .notStarted(entry.failure) }
            let wait = entry.nextSearch.timeIntervalSince(now).rounded(.up)
            return .notStarted(
                AuthError(
                    .temporarilyUnavailable,
                    "The token's key ID is unknown. The provider's keys can be fetched again in \(Int(wait)) seconds.",
                    retryAfter: .seconds(wait)
                )
            )
        }
    }

    /// Whether `until` is in the future, by at most `interval`. A later value was set before the clock was set back.
    private static func isWaiting(_ now: Date, _ until: Date, _ interval: TimeInterval) -> Bool {
        now < until && until <= now + interval
    }

    private func record(unknown keyID: String, at endpoint: Endpoint) {
        let now = self.now()
        entries.withLock { entries in
            var known = entries[endpoint.url]?.unknownKeyIDs ?? [:]
            if known.count >= 32 { known = known.filter { $0.value > now } }
            // The interval between searches is the actual limit. This cache only prevents a single forged key ID from
            // causing every permitted search.
            guard known.count < 32 else { return }
            known[keyID] = now + Self.unknownKeyIDAge
            entries[endpoint.url]?.unknownKeyIDs = known
        }
    }

    /// Joins the fetch in progress, or starts one.
    private func begin(_ entries: inout [String: Entry], _ endpoint: Endpoint, _ fetch: @escaping Fetch) -> SharedTask<
        Void
    > {
        var entry = entries[endpoint.url] ?? Entry()
        if let running = entry.running { return running }
        entry.begun += 1
        let generation = entry.begun
        let task = SharedTask<Void> { [self] in
            do {
                let response = try await fetch(endpoint)
                try response.requireAvailable(from: endpoint.host, now: self.now())
                let keys = try JWKSet(try Self.document(response, at: endpoint))
                let now = self.now()
                self.entries.withLock {
                    $0[endpoint.url]?.running = nil
                    $0[endpoint.url]?.failure = nil
                    $0[endpoint.url]?.keys = keys
                    $0[endpoint.url]?.generation = generation
                    $0[endpoint.url]?.fetchedAt = now
                    $0[endpoint.url]?.freshUntil =
                        now + response.cacheAge(default: Self.standardAge, within: Self.ageBounds)
                }
            } catch {
                let now = self.now()
                self.entries.withLock {
                    $0[endpoint.url]?.running = nil
                    $0[endpoint.url]?.failure = error
                    // A failed fetch may be repeated sooner than a successful fetch.
                    $0[endpoint.url]?.nextSearch = now + Self.failureInterval
                }
                throw error
            }
        }
        entry.running = task
        entries[endpoint.url] = entry
        // An issuer may change its `jwks_uri`; the key set that was fetched least recently is evicted.
        if entries.count > Self.maximumSets,
            let oldest = entries.filter({ $0.value.running == nil }).min(by: { $0.value.fetchedAt < $1.value.fetchedAt }
            )
        {
            entries[oldest.key] = nil
        }
        return task
    }

    private static func document(_ response: TransportResponse, at endpoint: Endpoint) throws(AuthError) -> JSON {
        guard response.status == 200 else {
            throw AuthError(
                .invalidResponse,
                "\(endpoint) responded with status \(response.status) instead of a key set.",
                providerError: response.providerError,
                status: response.status
            )
        }
        guard response.body.count <= maximumSize else {
            throw AuthError(.invalidResponse, "The key set at \(endpoint) is larger than \(maximumSize) bytes.")
        }
        return try response.json(from: "\(endpoint)")
    }
}
