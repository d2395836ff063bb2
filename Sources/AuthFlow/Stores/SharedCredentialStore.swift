import AuthFlowJSON

/// What several apps of one maker share on one machine, so that a person signs in once for all of them.
///
/// It is a named place in a ``TokenStore`` that all of the apps can open: every process of the same person that knows the
/// group's name can read it. What is in it is for the adapter of the provider to say; there is one document for each issuer,
/// and who changes it is alone with it.
public struct SharedCredentialStore: Sendable {
    /// The name of the group of apps.
    public let group: String

    private let store: any TokenStore

    /// Creates a place in a store.
    /// - Parameters:
    ///   - group: The name of the group of apps.
    ///   - store: The store, the same for all of the apps.
    public init(group: String, store: any TokenStore) {
        self.group = group
        self.store = store
    }

    /// What is shared about an issuer; nil when nothing is.
    /// - Throws: ``AuthError`` with `storage_failed`.
    public func value(for issuer: String) async throws -> RedactedJSON? {
        try await read(key(issuer)).map(RedactedJSON.init)
    }

    /// Changes what is shared about an issuer, alone with it.
    /// - Parameter body: Given what is there, returns what is to be there; nil for nothing.
    /// - Throws: ``AuthError`` with `storage_failed`; what `body` throws.
    public func change(
        for issuer: String,
        _ body: nonisolated(nonsending) (RedactedJSON?) async throws -> RedactedJSON?
    ) async throws {
        let key = key(issuer)
        try await store.withExclusiveAccess(to: key) {
            let old = try await read(key)
            let new = try await body(old.map(RedactedJSON.init))?.exposed
            guard old != new else { return }
            let bytes = try new?.serialized()
            guard bytes?.count ?? 0 <= AccountBook.maximumSize else {
                throw AuthError(.storageFailed, "What is to be shared is larger than what is kept.")
            }
            try await store.set(bytes, for: key)
        }
    }

    private func key(_ issuer: String) -> TokenKey {
        TokenKey(name: group, provider: "shared", clientID: issuer)
    }

    private func read(_ key: TokenKey) async throws -> JSON? {
        guard let bytes = try await store.bytes(for: key) else { return nil }
        do throws(JSONError) {
            return try JSON(parsing: bytes)
        } catch {
            throw AuthError(
                .storageFailed,
                "What the group \"\(DisplayText.sanitized(group, limit: 60))\" shares is damaged: \(error).",
                underlyingError: error
            )
        }
    }
}
