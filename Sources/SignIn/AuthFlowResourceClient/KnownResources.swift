import AuthFlowJSON
public import AuthFlowStorage

/// Lists of the resources and registrations in a store, needed because a store itself can find records
/// only by key. They are displayed to users, and indicate whether a registration is still in use.
public struct KnownResources: Sendable {
    private let store: any TokenStore

    /// The maximum number of entries in a list.
    static let limit = 1000

    /// Opens the lists of a store.
    public init(store: any TokenStore) {
        self.store = store
    }

    /// The URLs of the protected resources that users have signed in to with clients that have the default name, sorted.
    /// - Throws: ``AuthError`` with `storage_failed`.
    public func addresses() async throws -> [String] { try await records().filter { !$0.contains(" ") } }

    /// The names of the records about resources, sorted: the URL of the resource, preceded by the name of its client unless that is the default.
    func records() async throws -> [String] { try await entries(of: "resources") }

    /// The issuers of dynamic registrations, and the origins of the resources that they were created for, sorted.
    /// - Throws: ``AuthError`` with `storage_failed`.
    public func registrations() async throws -> [(issuer: String, origin: String)] {
        try await entries(of: "registrations").map { entry in
            let parts = entry.split(separator: " ", maxSplits: 1).map(String.init)
            return (parts.first ?? "", parts.dropFirst().first ?? "")
        }
    }

    func add(record: String) async { await change("resources") { $0.contains(record) ? $0 : $0 + [record] } }
    func remove(record: String) async { await change("resources") { $0.filter { $0 != record } } }
    func add(issuer: String, origin: String) async {
        await change("registrations") { $0.contains("\(issuer) \(origin)") ? $0 : $0 + ["\(issuer) \(origin)"] }
    }
    func remove(issuer: String, origin: String) async {
        await change("registrations") { $0.filter { $0 != "\(issuer) \(origin)" } }
    }

    private func entries(of list: String) async throws -> [String] {
        try await store.bytes(for: Self.key(list)).flatMap { try? JSON(parsing: $0) }?["entries"]?.strings?.sorted()
            ?? []
    }

    /// A failed write does not stop the sign-in.
    private func change(_ list: String, _ body: ([String]) -> [String]) async {
        guard let known = try? await entries(of: list), body(known) != known else { return }
        let key = Self.key(list)
        try? await store.withLease(on: key) { lease in
            let json: JSON = ["entries": .array(body(try await entries(of: list)).suffix(Self.limit).map(JSON.string))]
            try await store.write(try json.serialized(), under: lease)
        }
    }

    private static func key(_ list: String) -> RecordKey {
        RecordKey(name: list, issuer: "", clientID: "", kind: .list)
    }
}
