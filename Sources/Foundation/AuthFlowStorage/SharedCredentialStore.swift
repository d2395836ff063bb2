public import AuthFlowHTTP
import AuthFlowJSON

/// The shared store of one vendor's apps on one machine, so that a user signs in only once for all of them.
///
/// It stores one document for each issuer, under the group's name, in a ``TokenStore`` that all apps can open: every
/// process of the same user can read the document. The provider's adapter defines its content, and only one
/// process at a time can change it.
public struct SharedCredentialStore: Sendable {
    /// The name of the group of apps.
    package let group: String

    private let store: any TokenStore

    /// Creates a shared store for a group of apps.
    /// - Parameters:
    ///   - group: The name of the group of apps.
    ///   - store: The token store, which must be the same for all of the apps.
    public init(group: String, store: any TokenStore) {
        self.group = group
        self.store = store
    }

    /// The shared document for an issuer; nil when there is none.
    /// - Throws: ``AuthError`` with `storage_failed`, or `credential_unusable` when the document is damaged or cannot be decrypted.
    public func value(for issuer: String) async throws -> RedactedJSON? {
        try await store.bytes(for: key(issuer)).map { try decode($0) }.map(RedactedJSON.init)
    }

    /// Changes the document for an issuer under an exclusive lease.
    /// - Parameters:
    ///   - issuer: The issuer.
    ///   - body: Receives the old document, and returns the new document; nil means no document.
    /// - Throws: The errors of ``value(for:)``, ``TokenStore/withLease(on:_:)`` and ``TokenStore/write(_:under:)``, or any error thrown by `body`.
    public func change(
        for issuer: String,
        _ body: nonisolated(nonsending) (RedactedJSON?) async throws -> RedactedJSON?
    ) async throws {
        let key = key(issuer)
        try await store.withLease(on: key) { lease in
            let old = try await store.bytes(under: lease).map { try decode($0) }
            let new = try await body(old.map(RedactedJSON.init))?.exposed
            guard old != new else { return }
            let bytes = try new?.serialized()
            guard bytes?.count ?? 0 <= RecordKey.maximumRecordSize else {
                throw AuthError(.storageFailed, "The shared document exceeds the maximum record size.")
            }
            try await store.write(bytes, under: lease)
        }
    }

    /// Removes the document for an issuer, even if it cannot be read.
    /// - Throws: The errors of ``TokenStore/withLease(on:_:)`` and ``TokenStore/write(_:under:)``.
    public func remove(for issuer: String) async throws {
        try await store.withLease(on: key(issuer)) { lease in try await store.write(nil, under: lease) }
    }

    private func key(_ issuer: String) -> RecordKey {
        RecordKey(name: group, issuer: issuer, clientID: "", kind: .shared)
    }

    private func decode(_ bytes: [UInt8]) throws(AuthError) -> JSON {
        do throws(JSONError) {
            return try JSON(parsing: bytes)
        } catch {
            throw AuthError(
                .credentialUnusable,
                "The shared document of the group \"\(DisplayText.sanitized(group, limit: 60))\" is damaged: \(error).",
                underlyingError: error
            )
        }
    }
}
