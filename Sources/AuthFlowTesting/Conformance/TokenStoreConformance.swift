public import AuthFlow

/// What every ``AuthFlow/TokenStore`` must do. Run it from a test of your own:
///
/// ```swift
/// @Test func conforms() async throws { try await TokenStoreConformance(store: MyStore()).run() }
/// ```
public struct TokenStoreConformance: Sendable {
    private let store: any TokenStore

    /// Creates a suite for a store that is empty.
    public init(store: any TokenStore) {
        self.store = store
    }

    /// Runs every check.
    /// - Throws: ``ConformanceFailure`` for the first rule that is broken.
    public func run() async throws {
        try await keepsWhatItIsGiven()
        try await keepsKeysApart()
        try await givesAccessToOneAtATime()
        try await givesAccessBackWhenTheHolderFails()
    }

    private func key(_ name: String, _ clientID: String = "client") -> TokenKey {
        TokenKey(name: name, provider: "conformance", clientID: clientID)
    }

    private func keepsWhatItIsGiven() async throws {
        let key = key("keeps")
        try ConformanceFailure.require(try await store.bytes(for: key) == nil, "An unknown key has no bytes.")
        for bytes in [[], [0], Array(UInt8.min...UInt8.max), [UInt8](repeating: 7, count: 100_000)] {
            try await store.set(bytes, for: key)
            try ConformanceFailure.require(
                try await store.bytes(for: key) == bytes,
                "Bytes come back as they were kept (\(bytes.count) of them)."
            )
        }
        try await store.set(nil, for: key)
        try ConformanceFailure.require(try await store.bytes(for: key) == nil, "Removed bytes are gone.")
        try await store.set(nil, for: key)
    }

    private func keepsKeysApart() async throws {
        let keys = [
            key("ab", "c"), key("a", "bc"), key("A", "bc"), key("../a", "bc"), key("ä/\u{0}", "bc"), key("", ""),
        ]
        for (index, key) in keys.enumerated() { try await store.set([UInt8(index)], for: key) }
        for (index, key) in keys.enumerated() {
            try ConformanceFailure.require(
                try await store.bytes(for: key) == [UInt8(index)],
                "Two keys never share their bytes, whatever is in their names."
            )
            try await store.set(nil, for: key)
        }
    }

    private func givesAccessToOneAtATime() async throws {
        let key = key("exclusive")
        try await store.set([0], for: key)
        let store = self.store
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<20 {
                group.addTask {
                    try await store.withExclusiveAccess(to: key) {
                        let count = try await store.bytes(for: key)?.first ?? 0
                        await Task.yield()
                        try await store.set([count + 1], for: key)
                    }
                }
            }
            try await group.waitForAll()
        }
        try ConformanceFailure.require(
            try await store.bytes(for: key) == [20],
            "Nobody else has access between a read and a write under exclusive access."
        )
        try await store.set(nil, for: key)
    }

    private func givesAccessBackWhenTheHolderFails() async throws {
        struct Failure: Error {}
        let key = key("failing")
        do {
            try await store.withExclusiveAccess(to: key) { throw Failure() }
            throw ConformanceFailure(description: "The holder's error is passed on.")
        } catch is Failure {}
        try await store.withExclusiveAccess(to: key) {}
    }
}
