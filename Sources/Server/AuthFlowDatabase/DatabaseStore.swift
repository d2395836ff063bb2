public import AuthFlow

/// A session store that stores its records in a database.
public protocol DatabaseStore: SessionTokenStore, GaugeSource {
    /// The underlying store, to which every operation is delegated.
    var base: any SessionTokenStore & GaugeSource { get }
}

extension DatabaseStore {
    public func bytes(for key: RecordKey) async throws -> [UInt8]? { try await base.bytes(for: key) }

    public func bytes(under lease: Lease) async throws -> [UInt8]? { try await base.bytes(under: lease) }

    public func write(_ bytes: [UInt8]?, under lease: Lease) async throws { try await base.write(bytes, under: lease) }

    public func write(_ bytes: [UInt8], _ attributes: RecordAttributes, under lease: Lease) async throws {
        try await base.write(bytes, attributes, under: lease)
    }

    public func withLease<Return: Sendable>(
        on key: RecordKey,
        _ body: (Lease) async throws -> Return
    ) async throws -> Return {
        try await base.withLease(on: key, body)
    }

    public func touch(_ key: RecordKey) async throws -> Bool { try await base.touch(key) }

    public func records(tagged tag: RecordTag) async throws -> [TaggedRecord] { try await base.records(tagged: tag) }

    public func remove(_ keys: [RecordKey]) async throws -> [TaggedRecord] { try await base.remove(keys) }

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

    /// `authflow_leases_held` (including those with an unwritten result), `authflow_lease_waiters` (tasks waiting for a lease), `authflow_writes_unfinished`
    /// (retryable writes that failed or have an unknown outcome) and `authflow_store_statements` (in progress, or waiting for a connection).
    public var gauges: [FlowGauge] { base.gauges }
}
