import AuthFlowJSON

/// The addresses of the protected resources that were signed in to, for lists.
public struct KnownResources: Sendable {
    private let store: any TokenStore
    private let key = RecordKey(name: "resources", issuer: "", clientID: "", kind: .protectedResources)

    /// The most addresses that are remembered.
    private static let limit = 1000

    /// Opens the list of a store.
    public init(store: any TokenStore) {
        self.store = store
    }

    /// The addresses, sorted.
    /// - Throws: ``AuthError`` with `storage_failed`.
    public func addresses() async throws -> [String] {
        try await store.bytes(for: key).flatMap { try? JSON(parsing: $0) }?["resources"]?.strings?.sorted() ?? []
    }

    func add(_ address: String) async throws { try await change { $0.contains(address) ? $0 : $0 + [address] } }
    func remove(_ address: String) async throws { try await change { $0.filter { $0 != address } } }

    private func change(_ body: ([String]) -> [String]) async throws {
        guard case let known = try await addresses(), body(known) != known else { return }
        try await store.withLease(on: key) { lease in
            let json: JSON = ["resources": .array(Array(body(try await addresses()).suffix(Self.limit)).map(JSON.string))]
            try await store.write(try json.serialized(), under: lease)
        }
    }
}
