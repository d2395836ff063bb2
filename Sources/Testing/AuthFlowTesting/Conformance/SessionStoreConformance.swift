public import AuthFlow

/// Checks the requirements for every ``/AuthFlow/SessionTokenStore``, in addition to those that ``TokenStoreConformance`` checks.
public struct SessionStoreConformance: Sendable {
    private let store: any SessionTokenStore
    private let wait: @Sendable (Duration) async throws -> Void

    /// Creates a suite for an empty store.
    /// - Parameters:
    ///   - store: The store.
    ///   - wait: Waits for a duration on the store's clock.
    public init(store: any SessionTokenStore, wait: @escaping @Sendable (Duration) async throws -> Void) {
        self.store = store
        self.wait = wait
    }

    /// Runs every check.
    /// - Throws: ``ConformanceFailure`` for the first rule that is violated, or any error that the store or `wait` throws.
    public func run() async throws {
        try await TokenStoreConformance(store: store).run()
        try await expiresRecords()
        try await replacesExpiredRecords()
        try await expiresRecordsUnderALease()
        try await extendsTheIdleTimeout()
        try await preservesExpiryAndTagsAcrossWrites()
        try await findsRecordsByTag()
        try await removesRecordsUnderALease()
        try await claimsOnce()
        try await treatsClaimsAsRecords()
        try await removesExpiredRecords()
        try await listsKeys()
    }

    private func listsKeys() async throws {
        let keys = (1...7).map { key("listed \($0)") }
        for key in keys { try await write([1], RecordAttributes(), for: key) }
        try require(try await listed().isSuperset(of: keys), "Every key must be listed exactly once.")
        _ = try await store.remove(keys)
    }

    /// The keys of all pages.
    private func listed() async throws -> Set<RecordKey> {
        var (found, last): (Set<RecordKey>, [UInt8]?) = ([], nil)
        while true {
            let next = try await store.keys(after: last, limit: 3)
            guard let end = next.last else { return found }
            try require(next.count <= 3, "A list must not contain more keys than requested.")
            // Without this order, the list might never end.
            let digests = (last.map { [$0] } ?? []) + next.map(\.digest)
            try require(
                zip(digests, digests.dropFirst()).allSatisfy { $0.lexicographicallyPrecedes($1) },
                "Keys must be listed in the order of their digests, and only those after the given digest."
            )
            found.formUnion(next)
            last = end.digest
        }
    }

    private func key(_ name: String) -> RecordKey {
        RecordKey(name: name, issuer: "https://conformance.example", clientID: "sessions")
    }

    private func write(_ bytes: [UInt8], _ attributes: RecordAttributes, for key: RecordKey) async throws {
        try await store.withLease(on: key) { lease in try await store.write(bytes, attributes, under: lease) }
    }

    /// Whether the test ran so slowly that a record may already have expired.
    private static func hasPassed(_ lifetime: Duration, since start: ContinuousClock.Instant) -> Bool {
        start.duration(to: .now) >= lifetime
    }

    private func expiresRecords() async throws {
        let keys = (key("ends"), key("ends when idle"), key("does not end"))
        let start = ContinuousClock.now
        try await write([1], RecordAttributes(lifetime: .milliseconds(300)), for: keys.0)
        try await write([2], RecordAttributes(idleTime: .milliseconds(300)), for: keys.1)
        try await write([3], RecordAttributes(), for: keys.2)
        let found = try await [store.bytes(for: keys.0), store.bytes(for: keys.1)]
        try require(
            found == [[1], [2]] || Self.hasPassed(.milliseconds(300), since: start),
            "A record must exist until it expires."
        )
        try await wait(.milliseconds(350))
        for key in [keys.0, keys.1] {
            try require(try await store.bytes(for: key) == nil, "A record must cease to exist when it expires.")
            try require(try await !store.touch(key), "Touching an expired record must fail.")
            try await store.withLease(on: key) { lease in
                try require(
                    try await store.bytes(for: key) == nil,
                    "The holder of a lease must not be able to read an expired record."
                )
                try await store.write([9], under: lease)
            }
            try await wait(.milliseconds(350))
            try require(
                try await store.bytes(for: key) == [9],
                "A record that replaces an expired record must not inherit its expiry."
            )
        }
        try require(try await store.bytes(for: keys.2) == [3], "A record without an expiry must not be removed.")
        _ = try await store.remove([keys.0, keys.1, keys.2])
    }

    /// No method reads the record after its expiry, because reading it may remove it.
    private func replacesExpiredRecords() async throws {
        let key = key("replaced")
        try await write([1], RecordAttributes(lifetime: .milliseconds(300)), for: key)
        try await wait(.milliseconds(350))
        try await store.withLease(on: key) { lease in try await store.write([2], under: lease) }
        try require(
            try await store.bytes(for: key) == [2],
            "A record that replaces an expired record must not inherit its expiry."
        )
        _ = try await store.remove([key])
    }

    private func expiresRecordsUnderALease() async throws {
        let (key, tag) = (key("ends under a lease"), RecordTag(["ends"]))
        let start = ContinuousClock.now
        try await write([1], RecordAttributes(lifetime: .milliseconds(300), tags: [tag]), for: key)
        let hasExpiredEarlier = try await store.withLease(on: key) { lease in
            let hasExpiredEarlier = Self.hasPassed(.milliseconds(300), since: start)
            try await wait(.milliseconds(350))
            _ = try await store.bytes(for: key)
            try await store.write([2], under: lease)
            return hasExpiredEarlier
        }
        let found = try await store.bytes(for: key)
        try require(
            found == nil || hasExpiredEarlier,
            "A record that expires while a lease on it is held must stay expired, regardless of what the holder writes."
        )
        _ = try await store.remove([key])
    }

    private func extendsTheIdleTimeout() async throws {
        let key = key("idle")
        let begin = ContinuousClock.now
        try await write([1], RecordAttributes(lifetime: .milliseconds(900), idleTime: .milliseconds(500)), for: key)
        for _ in 0..<2 {
            let start = ContinuousClock.now
            try await wait(.milliseconds(300))
            let exists = try await store.touch(key)
            // The record was written or last used slightly before `start`.
            try require(
                exists || Self.hasPassed(.milliseconds(450), since: start)
                    || Self.hasPassed(.milliseconds(850), since: begin),
                "A record in use must not expire because of its idle timeout."
            )
        }
        try await wait(.milliseconds(400))
        try require(try await store.bytes(for: key) == nil, "Use must not extend a record beyond its lifetime.")
    }

    private func preservesExpiryAndTagsAcrossWrites() async throws {
        let (key, tag) = (key("kept"), RecordTag(["kept"]))
        let start = ContinuousClock.now
        try await write([1], RecordAttributes(lifetime: .milliseconds(400), tags: [tag]), for: key)
        try await store.withLease(on: key) { lease in try await store.write([2], under: lease) }
        let found = try await store.records(tagged: tag).map(\.bytes)
        // If the record had expired before the second write, that write would have created a new record, which does not expire.
        guard !Self.hasPassed(.milliseconds(400), since: start) else {
            _ = try await store.remove([key])
            return
        }
        try require(found == [[2]], "A write without attributes must preserve the tags.")
        try await wait(.milliseconds(450))
        try require(try await store.bytes(for: key) == nil, "A write without attributes must preserve the expiry.")
        try require(try await store.records(tagged: tag).isEmpty, "An expired record must not be found by its tags.")
    }

    private func findsRecordsByTag() async throws {
        let (user, other, session) = (
            RecordTag(["user", "1"]), RecordTag(["user", "2"]), RecordTag(["session", "1"])
        )
        let keys = (1...4).map { key("tagged \($0)") }
        try await write([1], RecordAttributes(tags: [user, session]), for: keys[0])
        try await write([2], RecordAttributes(tags: [user]), for: keys[1])
        try await write([3], RecordAttributes(tags: [other]), for: keys[2])
        try await write([4], RecordAttributes(), for: keys[3])
        let found = try await store.records(tagged: user)
        try require(
            Set(found.map(\.key)) == Set(keys.prefix(2)) && Set(found.map(\.bytes)) == [[1], [2]],
            "A search for a tag must return all records that have it, with their keys and bytes."
        )
        try require(
            try await store.records(tagged: session).map(\.key) == [keys[0]],
            "A record must be able to have two tags."
        )
        try await write([5], RecordAttributes(tags: [other]), for: keys[1])
        try require(
            try await store.records(tagged: user).map(\.key) == [keys[0]],
            "New attributes must replace the old attributes."
        )
        let removed = try await store.remove(Array(keys.prefix(3)))
        try require(Set(removed.map(\.bytes)) == [[1], [5], [3]], "Removed records must be returned.")
        try require(try await store.remove(keys).map(\.key) == [keys[3]], "Absent records must not be returned.")
        for tag in [user, other, session] {
            try require(try await store.records(tagged: tag).isEmpty, "A removed record must not be found by its tags.")
        }
    }

    private func removesRecordsUnderALease() async throws {
        let key = key("removed")
        try await write([1], RecordAttributes(), for: key)
        try await store.withLease(on: key) { lease in
            try require(try await store.bytes(under: lease) == [1], "A lease must permit reads.")
            _ = try await store.remove([key])
            do {
                _ = try await store.bytes(under: lease)
                throw ConformanceFailure(
                    description:
                        "A lease on a removed record must not permit reads: another holder may own the record by now."
                )
            } catch let error as AuthError where error.code == .leaseLost {}
            do {
                try await store.write([2], under: lease)
                throw ConformanceFailure(
                    description: "The holder of an older lease must not be able to write a removed record."
                )
            } catch let error as AuthError where error.code == .leaseLost {}
        }
        try require(try await store.bytes(for: key) == nil, "A removed record must stay removed.")
    }

    private func claimsOnce() async throws {
        let (key, store) = (key("claimed"), store)
        let start = ContinuousClock.now
        let claims = try await withThrowingTaskGroup(of: Bool.self) { group in
            for _ in 0..<20 { group.addTask { try await store.claim(key, for: .milliseconds(500)) } }
            return try await group.reduce(0) { $1 ? $0 + 1 : $0 }
        }
        try require(
            claims == 1 || claims > 1 && Self.hasPassed(.milliseconds(500), since: start),
            "Exactly one of 20 callers must claim a record (\(claims) did)."
        )
        try await wait(.milliseconds(550))
        try require(try await store.claim(key, for: .milliseconds(100)), "A claim must expire.")
        _ = try await store.remove([key])
    }

    /// A sign-out is recorded by a claim, extended by a write, and looked up with `touch`.
    private func treatsClaimsAsRecords() async throws {
        let (key, store) = (key("extended claim"), store)
        let start = ContinuousClock.now
        _ = try await store.claim(key, for: .milliseconds(500))
        let isFound = try await store.touch(key)
        try require(
            isFound || Self.hasPassed(.milliseconds(500), since: start),
            "Touching a claimed record must succeed, although it has no bytes."
        )
        try await write([1], RecordAttributes(lifetime: .milliseconds(1500)), for: key)
        try await wait(.milliseconds(550))
        let isNew = try await store.claim(key, for: .milliseconds(100))
        try require(
            !isNew || Self.hasPassed(.milliseconds(1500), since: start),
            "A write must replace the lifetime of a claimed record."
        )
        _ = try await store.remove([key])
    }

    private func removesExpiredRecords() async throws {
        let keys = (1...5).map { key("ended \($0)") }
        for key in keys { try await write([1], RecordAttributes(lifetime: .milliseconds(100)), for: key) }
        let kept = key("not ended")
        try await write([2], RecordAttributes(lifetime: .seconds(60)), for: kept)
        try await wait(.milliseconds(150))
        while try await store.removeEnded() > 0 {}
        try require(try await listed().isDisjoint(with: keys), "Expired records must be removed.")
        try require(try await store.bytes(for: kept) == [2], "A record that has not expired must not be removed.")
        _ = try await store.remove([kept])
    }
}
