import AuthFlow

// The code from the article "Writing a token store".

/// Stores credentials in a dictionary.
actor DictionaryStore: TokenStore {
    private var records: [RecordKey: [UInt8]] = [:]
    private var leases: [RecordKey: Lease] = [:]
    private var waiting: [RecordKey: [CheckedContinuation<Void, Never>]] = [:]
    private var lastFence: UInt64 = 0

    func bytes(for key: RecordKey) -> [UInt8]? { records[key] }

    func write(_ bytes: [UInt8]?, under lease: Lease) throws {
        guard leases[lease.key] == lease else { throw Lease.lost }
        records[lease.key] = bytes
    }

    nonisolated(nonsending) func withLease<Return: Sendable>(
        on key: RecordKey,
        _ body: nonisolated(nonsending) (Lease) async throws -> Return
    ) async throws -> Return {
        let lease = await take(key)
        do {
            let result = try await body(lease)
            await release(lease)
            return result
        } catch {
            await release(lease)
            throw error
        }
    }

    private func take(_ key: RecordKey) async -> Lease {
        while leases[key] != nil { await withCheckedContinuation { waiting[key, default: []].append($0) } }
        lastFence += 1
        let lease = Lease(key: key, fence: lastFence)
        leases[key] = lease
        return lease
    }

    private func release(_ lease: Lease) {
        leases[lease.key] = nil
        for waiter in waiting.removeValue(forKey: lease.key) ?? [] { waiter.resume() }
    }
}
