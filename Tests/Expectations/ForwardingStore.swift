package import AuthFlowStorage

/// An in-memory store that forwards the operations that a test does not replace.
package protocol ForwardingStore: TokenStore {
    var base: MemoryTokenStore { get }
}

extension ForwardingStore {
    package func bytes(for key: RecordKey) async throws -> [UInt8]? { await base.bytes(for: key) }

    package func write(_ bytes: [UInt8]?, under lease: Lease) async throws { try await base.write(bytes, under: lease) }

    package func withLease<Return: Sendable>(
        on key: RecordKey,
        _ body: (Lease) async throws -> Return
    ) async throws -> Return {
        try await base.withLease(on: key, body)
    }
}

/// An in-memory session store that forwards the operations that a test does not replace.
package protocol ForwardingSessionStore: ForwardingStore, SessionTokenStore {}

extension ForwardingSessionStore {
    package func write(_ bytes: [UInt8], _ attributes: RecordAttributes, under lease: Lease) async throws {
        try await base.write(bytes, attributes, under: lease)
    }

    package func touch(_ key: RecordKey) async throws -> Bool { await base.touch(key) }

    package func records(tagged tag: RecordTag) async throws -> [TaggedRecord] { await base.records(tagged: tag) }

    package func remove(_ keys: [RecordKey]) async throws -> [TaggedRecord] { await base.remove(keys) }

    package func claim(_ key: RecordKey, for lifetime: Duration) async throws -> Bool {
        await base.claim(key, for: lifetime)
    }

    package func keys(after digest: [UInt8]?, limit: Int) async throws -> [RecordKey] {
        await base.keys(after: digest, limit: limit)
    }

    package func removeEnded() async throws -> Int { await base.removeEnded() }

    package func observeRemovals(_ observer: @escaping @Sendable (_ digest: [UInt8]?) -> Void) {
        base.observeRemovals(observer)
    }
}
