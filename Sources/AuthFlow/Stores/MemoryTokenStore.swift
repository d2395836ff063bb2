/// Keeps credentials as long as the process runs.
public actor MemoryTokenStore: TokenStore {
    private var entries: [RecordKey: [UInt8]] = [:]
    /// The fence of the lease that is held.
    private var held: [RecordKey: UInt64] = [:]
    private var waiting: [RecordKey: [(fence: UInt64, continuation: CheckedContinuation<Void, any Error>)]] = [:]
    private var lastFence: UInt64 = 0

    /// Creates an empty store.
    public init() {}

    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func bytes(for key: RecordKey) -> [UInt8]? { entries[key] }

    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func write(_ bytes: [UInt8]?, under lease: Lease) throws {
        guard held[lease.key] == lease.fence else { throw Lease.lost }
        entries[lease.key] = bytes
    }

    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public nonisolated func withLease<Return: Sendable>(
        on key: RecordKey,
        _ body: (Lease) async throws -> Return
    ) async throws -> Return {
        let lease = try await acquire(key)
        do {
            let result = try await body(lease)
            await release(lease)
            return result
        } catch {
            await release(lease)
            throw error
        }
    }

    private func acquire(_ key: RecordKey) async throws -> Lease {
        try Task.checkCancellation()
        lastFence += 1
        let fence = lastFence
        if held[key] == nil {
            held[key] = fence
            return Lease(key: key, fence: fence)
        }
        // The holder before hands the key over, so it stays in `held`.
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                waiting[key, default: []].append((fence, continuation))
                if Task.isCancelled { giveUp(fence, key) }
            }
        } onCancel: {
            Task { await self.giveUp(fence, key) }
        }
        return Lease(key: key, fence: fence)
    }

    private func giveUp(_ fence: UInt64, _ key: RecordKey) {
        guard let index = waiting[key]?.firstIndex(where: { $0.fence == fence }) else { return }
        waiting[key]?.remove(at: index).continuation.resume(throwing: CancellationError())
    }

    private func release(_ lease: Lease) {
        let next = waiting[lease.key].flatMap { $0.isEmpty ? nil : $0[0] }
        held[lease.key] = next?.fence
        guard let next else {
            waiting[lease.key] = nil
            return
        }
        waiting[lease.key]?.removeFirst()
        next.continuation.resume()
    }
}

extension MemoryTokenStore: CustomReflectable {
    /// A mirror without children: what is stored is secret.
    public nonisolated var customMirror: Mirror { Mirror(self, children: [:]) }
}
