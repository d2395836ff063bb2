public import AuthFlow

/// Checks the requirements for every ``/AuthFlow/TokenStore``. Run it from one of your own tests:
///
/// ```swift
/// @Test func conforms() async throws { try await TokenStoreConformance(store: MyStore()).run() }
/// ```
public struct TokenStoreConformance: Sendable {
    private let store: any TokenStore

    /// Creates a suite for an empty store.
    public init(store: any TokenStore) {
        self.store = store
    }

    /// Runs every check.
    /// - Throws: ``ConformanceFailure`` for the first rule that is violated, or any error that the store throws.
    public func run() async throws {
        try await storesRecords()
        try await preservesTheRecordWhileSpaceIsReserved()
        try await separatesKeys()
        try await grantsOneLeaseAtATime()
        try await releasesALeaseWhenItsHolderFails()
        try await rejectsWritesUnderALostLease()
    }

    private func key(_ name: String, _ clientID: String = "client") -> RecordKey {
        RecordKey(name: name, issuer: "https://conformance.example", clientID: clientID)
    }

    private func write(_ bytes: [UInt8]?, for key: RecordKey) async throws {
        try await store.withLease(on: key) { lease in try await store.write(bytes, under: lease) }
    }

    private func storesRecords() async throws {
        let key = key("keeps")
        try require(try await store.bytes(for: key) == nil, "An unknown key must not have bytes.")
        for bytes in [[], [0], Array(UInt8.min...UInt8.max), [UInt8](repeating: 7, count: 100_000)] {
            try await write(bytes, for: key)
            try require(
                try await store.bytes(for: key) == bytes,
                "Bytes must be returned as they were stored (\(bytes.count) bytes)."
            )
        }
        try await write(nil, for: key)
        try require(try await store.bytes(for: key) == nil, "Removed bytes must not be returned.")
        try await write(nil, for: key)
    }

    private func preservesTheRecordWhileSpaceIsReserved() async throws {
        let key = key("reserved")
        try await write([1], for: key)
        try await store.withLease(on: key) { lease in
            try await store.reserve(1000, under: lease)
            try require(try await store.bytes(under: lease) == [1], "A reservation must not change the record.")
        }
        // Fewer bytes than were reserved, and then more.
        for bytes in [[2], [UInt8](repeating: 3, count: 2000)] {
            try await store.withLease(on: key) { lease in
                try await store.reserve(1000, under: lease)
                try await store.write(bytes, under: lease)
            }
            try require(
                try await store.bytes(for: key) == bytes,
                "Bytes must be returned as they were stored after a reservation."
            )
        }
        try await write(nil, for: key)
    }

    private func separatesKeys() async throws {
        let keys = [
            key("ab", "c"), key("a", "bc"), key("A", "bc"), key("../a", "bc"), key("\u{E4}/\u{0}", "bc"),
            key("a\u{308}/\u{0}", "bc"),
            key("", ""),
            RecordKey(name: "ab", issuer: "", clientID: "c"),
            RecordKey(name: "ab", issuer: "", clientID: "c", resource: ""),
            RecordKey(name: "ab", issuer: "", clientID: "c", resource: "https://api.example.com"),
            RecordKey(name: "ab", issuer: "", clientID: "c", kind: .shared),
        ]
        for (index, key) in keys.enumerated() { try await write([UInt8(index)], for: key) }
        for (index, key) in keys.enumerated() {
            try require(
                try await store.bytes(for: key) == [UInt8(index)],
                "Two keys must never share their bytes, regardless of their names."
            )
            try await write(nil, for: key)
        }
    }

    private func grantsOneLeaseAtATime() async throws {
        let key = key("exclusive")
        try await write([0], for: key)
        let store = self.store
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<20 {
                group.addTask {
                    try await store.withLease(on: key) { lease in
                        let count = try await store.bytes(for: key)?.first ?? 0
                        await Task.yield()
                        try await store.write([count + 1], under: lease)
                    }
                }
            }
            try await group.waitForAll()
        }
        try require(
            try await store.bytes(for: key) == [20],
            "No other holder may write between a read and a write under a lease."
        )
        try await write(nil, for: key)
    }

    private func releasesALeaseWhenItsHolderFails() async throws {
        struct Failure: Error {}
        let key = key("failing")
        do {
            try await store.withLease(on: key) { _ in throw Failure() }
            throw ConformanceFailure(description: "The holder's error must be rethrown.")
        } catch is Failure {}
        try await store.withLease(on: key) { _ in }
    }

    /// Checks writes under a lease that has ended, is forged, or belongs to another key.
    private func rejectsWritesUnderALostLease() async throws {
        let key = key("fenced")
        let old = try await store.withLease(on: key) { $0 }
        try await write([1], for: key)
        let forged = Lease(key: key, fence: old.fence &+ 1_000_000)
        for lease in [old, forged] {
            do {
                try await store.write([2], under: lease)
                throw ConformanceFailure(description: "A lease that is not held must not permit writes.")
            } catch let error as AuthError where error.code == .leaseLost {}
        }
        try await store.withLease(on: self.key("other")) { other in
            do {
                try await store.write([2], under: Lease(key: key, fence: other.fence))
                throw ConformanceFailure(description: "A lease on one key must not permit writes to another key.")
            } catch let error as AuthError where error.code == .leaseLost {}
        }
        let fences = try await [store.withLease(on: key) { $0.fence }, store.withLease(on: key) { $0.fence }]
        try require(fences[0] != fences[1], "Two leases must not have the same fence.")
        try require(try await store.bytes(for: key) == [1], "A rejected write must not change the record.")
        try await write(nil, for: key)
    }
}
