public import AuthFlowHTTP
public import AuthFlowStorage

/// Encrypts the sessions in another store, in the same way as ``EncryptedTokenStore`` encrypts credentials. The
/// expiry and the tags of a record remain in plaintext, because the underlying store needs them.
public struct EncryptedSessionStore: Sendable {
    /// The store for the encrypted records.
    package let base: any SessionTokenStore
    private let encrypted: EncryptedTokenStore

    /// Creates a store.
    /// - Parameters:
    ///   - base: The store for the encrypted records.
    ///   - keys: The keys.
    ///   - host: Provides random bytes.
    public init(_ base: any SessionTokenStore, keys: EncryptionKeys, host: HostServices = .system) {
        self.base = base
        self.encrypted = EncryptedTokenStore(base, key: .keys(keys), host: host)
    }

    /// Rewraps the data keys of all records with the current key. Other processes may use the store during the call.
    /// - Returns: The number of records that were rewrapped, and the number of records that could not be rewrapped.
    ///   Call the method again until the latter is zero. Damaged records, and records with an unknown key, count until they expire or are removed.
    /// - Throws: ``AuthError`` with `storage_failed`.
    public func rewrap() async throws -> (rewrapped: Int, left: Int) {
        var (rewrapped, left) = (0, 0)
        var last: [UInt8]?
        while true {
            let keys = try await base.keys(after: last, limit: 100)
            guard let end = keys.last else { return (rewrapped, left) }
            last = end.digest
            for key in keys where key.kind != .claim {
                do {
                    if try await encrypted.rewrap(key) { rewrapped += 1 }
                } catch let error as AuthError
                    where error.indicatesLostLease || [.leaseBusy, .credentialUnusable].contains(error.code)
                {
                    left += 1
                }
            }
        }
    }

    private func decrypted(_ records: [TaggedRecord]) async throws -> [TaggedRecord] {
        var result: [TaggedRecord] = []
        for record in records {
            // A record that cannot be decrypted still exists, and can be removed.
            let bytes = (try? await encrypted.decrypted(record.bytes, of: record.key)) ?? []
            result.append(TaggedRecord(key: record.key, bytes: bytes, lastUse: record.lastUse))
        }
        return result
    }
}

extension EncryptedSessionStore: SessionTokenStore {
    public func bytes(for key: RecordKey) async throws -> [UInt8]? { try await encrypted.bytes(for: key) }

    public func bytes(under lease: Lease) async throws -> [UInt8]? { try await encrypted.bytes(under: lease) }

    public func reserve(_ size: Int, under lease: Lease) async throws {
        try await encrypted.reserve(size, under: lease)
    }

    public func write(_ bytes: [UInt8]?, under lease: Lease) async throws {
        try await encrypted.write(bytes, under: lease)
    }

    public func write(_ bytes: [UInt8], _ attributes: RecordAttributes, under lease: Lease) async throws {
        try await base.write(try await encrypted.encrypted(bytes, for: lease.key), attributes, under: lease)
    }

    public func withLease<Return: Sendable>(
        on key: RecordKey,
        _ body: (Lease) async throws -> Return
    ) async throws -> Return {
        try await base.withLease(on: key, body)
    }

    public func touch(_ key: RecordKey) async throws -> Bool { try await base.touch(key) }

    public func records(tagged tag: RecordTag) async throws -> [TaggedRecord] {
        try await decrypted(try await base.records(tagged: tag))
    }

    public func remove(_ keys: [RecordKey]) async throws -> [TaggedRecord] {
        try await decrypted(try await base.remove(keys))
    }

    public func claim(_ key: RecordKey, for lifetime: Duration) async throws -> Bool {
        try await base.claim(key, for: lifetime)
    }

    public func keys(after digest: [UInt8]?, limit: Int) async throws -> [RecordKey] {
        try await base.keys(after: digest, limit: limit)
    }

    public func removeEnded() async throws -> Int { try await base.removeEnded() }

    public func observeRemovals(_ observer: @escaping @Sendable (_ digest: [UInt8]?) -> Void) {
        base.observeRemovals(observer)
    }
}

extension EncryptedSessionStore: GaugeSource {
    /// The gauges of the store for the encrypted records.
    public var gauges: [FlowGauge] { (base as? any GaugeSource)?.gauges ?? [] }
}
