import AuthFlowHTTP
import AuthFlowJSON
package import AuthFlowStorage

/// Lists of the resources and registrations in a store, needed because a store itself can find records
/// only by key. They are displayed to users, and indicate whether a registration is still in use.
package struct KnownResources: Sendable {
    private let store: any TokenStore

    /// The maximum number of entries in a list.
    static let limit = 1000

    /// Opens the lists of a store.
    package init(store: any TokenStore) { self.store = store }

    /// The URLs of the protected resources that users have signed in to with clients that have the default name and are not preregistered, sorted.
    /// - Throws: ``AuthError`` with `storage_failed`.
    package func addresses() async throws -> [String] { try await records().filter { !$0.contains(" ") } }

    /// The URLs of the protected resources that users have signed in to with preregistered clients with this name.
    package func addresses(registered name: String) async throws -> [String] {
        let records = try await entries(of: Self.resources(true))
        guard name != "default" else { return records.filter { !$0.contains(" ") } }
        return records.compactMap { $0.hasPrefix("\(name) ") ? String($0.dropFirst(name.count + 1)) : nil }
    }

    /// The names of the records of clients that are not preregistered, sorted: the URL of the resource, preceded by the client's name
    /// unless that is the default.
    func records() async throws -> [String] { try await entries(of: "resources") }

    /// The issuers of dynamic registrations, and the origins of the resources that they were created for, sorted.
    /// - Throws: ``AuthError`` with `storage_failed`.
    package func registrations() async throws -> [(issuer: String, origin: String)] {
        try await entries(of: "registrations").map { entry in
            let parts = entry.split(separator: " ", maxSplits: 1).map(String.init)
            return (parts.first ?? "", parts.dropFirst().first ?? "")
        }
    }

    /// - Parameter isRegistered: Whether the client is preregistered. Only the configuration of such a client can find its tokens, and a client with
    ///   the same name that is not preregistered may have signed in to the same resource.
    func add(record: String, isRegistered: Bool = false) async {
        await change(Self.resources(isRegistered)) { $0.contains(record) ? $0 : $0 + [record] }
    }
    func remove(record: String, isRegistered: Bool = false) async {
        await change(Self.resources(isRegistered)) { $0.filter { $0 != record } }
    }

    private static func resources(_ isRegistered: Bool) -> String {
        isRegistered ? "resources of registered clients" : "resources"
    }

    func add(issuer: String, origin: String) async {
        await change("registrations") { $0.contains("\(issuer) \(origin)") ? $0 : $0 + ["\(issuer) \(origin)"] }
    }
    func remove(issuer: String, origin: String) async {
        await change("registrations") { $0.filter { $0 != "\(issuer) \(origin)" } }
    }

    private func entries(of list: String) async throws -> [String] { try await self.list(of: list).entries }

    /// The entries of a list, sorted, and whether the list is complete: a list that was damaged or was full has lost entries.
    func list(of name: String) async throws -> (entries: [String], isComplete: Bool) {
        do {
            guard let bytes = try await store.bytes(for: Self.key(name)) else { return ([], true) }
            guard let json = try? JSON(parsing: bytes), let entries = json["entries"]?.strings else {
                return ([], false)
            }
            return (entries.sorted(), json["incomplete"] != true)
        } catch let error as AuthError where error.code == .credentialUnusable {
            // The next entry replaces the list.
            return ([], false)
        }
    }

    /// Whether the list of ``addresses()`` may lack entries.
    package func lacksResources() async throws -> Bool { try await !list(of: Self.resources(false)).isComplete }

    /// Whether the list of ``registrations()`` may lack entries.
    package func lacksRegistrations() async throws -> Bool { try await !list(of: "registrations").isComplete }

    /// A failed write does not stop the sign-in.
    private func change(_ name: String, _ body: ([String]) -> [String]) async {
        guard let known = try? await entries(of: name), body(known) != known else { return }
        let key = Self.key(name)
        try? await store.withLease(on: key) { lease in
            let (entries, isComplete) = try await list(of: name)
            let changed = body(entries)
            var members: [String: JSON] = ["entries": .array(changed.suffix(Self.limit).map(JSON.string))]
            if !isComplete || changed.count > Self.limit { members["incomplete"] = true }
            try await store.write(try JSON.object(members).serialized(), under: lease)
        }
    }

    private static func key(_ list: String) -> RecordKey {
        RecordKey(name: list, issuer: "", clientID: "", kind: .list)
    }
}
