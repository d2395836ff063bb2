import AuthFlowEssentials
public import AuthFlowHTTP
import Synchronization

/// Stores credentials in memory, until the process exits.
public actor MemoryTokenStore: SessionTokenStore {
    private struct Entry {
        var bytes: [UInt8]
        var expiresAt = Date.distantFuture
        var idleTime: Duration?
        var lastUse = Date.distantPast
        var tags: [RecordTag] = []

        func isAlive(at now: Date) -> Bool {
            now < expiresAt && idleTime.map { now < lastUse + $0.seconds } ?? true
        }
    }

    private let host: HostServices
    private nonisolated let observers = Mutex<[@Sendable ([UInt8]?) -> Void]>([])
    private var entries: [RecordKey: Entry] = [:]
    /// The fences of the leases that are held.
    private var held: [RecordKey: UInt64] = [:]
    private var waiting: [RecordKey: [(fence: UInt64, continuation: CheckedContinuation<Void, any Error>)]] = [:]
    private var lastFence: UInt64 = 0

    /// Creates an empty store.
    /// - Parameter host: The clock for record expiry; default: the system's.
    public init(host: HostServices = .system) { self.host = host }

    public func bytes(for key: RecordKey) -> [UInt8]? { entry(key)?.bytes }

    // Asynchronous, so that callers of the concrete type do not choose the default implementation, which does not check the lease.
    public func bytes(under lease: Lease) async throws -> [UInt8]? {
        guard held[lease.key] == lease.fence else { throw Lease.lost }
        return bytes(for: lease.key)
    }

    private func entry(_ key: RecordKey) -> Entry? {
        guard let entry = entries[key] else { return nil }
        if entry.isAlive(at: host.now()) { return entry }
        // Without the entry, the next write by the holder of a lease would have no expiry and no tags.
        if held[key] == nil { entries[key] = nil }
        return nil
    }

    public func write(_ bytes: [UInt8]?, under lease: Lease) throws {
        guard held[lease.key] == lease.fence else { throw Lease.lost }
        guard let bytes else {
            entries[lease.key] = nil
            return
        }
        entries[lease.key, default: Entry(bytes: bytes)].bytes = bytes
    }

    public func write(_ bytes: [UInt8], _ attributes: RecordAttributes, under lease: Lease) throws {
        guard held[lease.key] == lease.fence else { throw Lease.lost }
        let now = host.now()
        entries[lease.key] = Entry(
            bytes: bytes,
            expiresAt: attributes.lifetime.map { now + $0.seconds } ?? .distantFuture,
            idleTime: attributes.idleTime,
            lastUse: now,
            tags: attributes.tags
        )
    }

    public func touch(_ key: RecordKey) -> Bool {
        guard entry(key) != nil else { return false }
        entries[key]?.lastUse = host.now()
        return true
    }

    public func records(tagged tag: RecordTag) -> [TaggedRecord] {
        let now = host.now()
        return entries.filter { $0.value.tags.contains(tag) && $0.value.isAlive(at: now) }
            .map { TaggedRecord(key: $0.key, bytes: $0.value.bytes, lastUse: $0.value.lastUse) }
    }

    public func remove(_ keys: [RecordKey]) -> [TaggedRecord] {
        let removed = keys.compactMap { key -> TaggedRecord? in
            // The holder can no longer write; waiting callers receive the next lease when the holder releases this lease.
            if held[key] != nil { held[key] = 0 }
            guard let entry = entry(key) else { return nil }
            entries[key] = nil
            return TaggedRecord(key: key, bytes: entry.bytes, lastUse: entry.lastUse)
        }
        let observers = observers.withLock { $0 }
        for record in removed { for observer in observers { observer(record.key.digest) } }
        return removed
    }

    public func claim(_ key: RecordKey, for lifetime: Duration) -> Bool {
        guard entry(key) == nil else { return false }
        entries[key] = Entry(bytes: [], expiresAt: host.now() + lifetime.seconds)
        return true
    }

    public func keys(after digest: [UInt8]?, limit: Int) -> [RecordKey] {
        let all = entries.keys.map { (digest: $0.digest, key: $0) }
        let later = digest.map { last in all.filter { last.lexicographicallyPrecedes($0.digest) } } ?? all
        return later.sorted { $0.digest.lexicographicallyPrecedes($1.digest) }.prefix(limit).map(\.key)
    }

    public func removeEnded() -> Int {
        let now = host.now()
        let ended = entries.filter { !$0.value.isAlive(at: now) && held[$0.key] == nil }.keys
        for key in ended { entries[key] = nil }
        return ended.count
    }

    public nonisolated func observeRemovals(_ observer: @escaping @Sendable (_ digest: [UInt8]?) -> Void) {
        observers.withLock { $0.append(observer) }
    }

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
            grant(key, fence)
            return Lease(key: key, fence: fence)
        }
        // The lease passes directly from the previous holder to the next, so the key remains in `held`.
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                waiting[key, default: []].append((fence, continuation))
                if Task.isCancelled { cancelWaiter(fence, key) }
            }
        } onCancel: {
            Task { await self.cancelWaiter(fence, key) }
        }
        return Lease(key: key, fence: fence)
    }

    private func cancelWaiter(_ fence: UInt64, _ key: RecordKey) {
        guard let index = waiting[key]?.firstIndex(where: { $0.fence == fence }) else { return }
        waiting[key]?.remove(at: index).continuation.resume(throwing: CancellationError())
    }

    private func release(_ lease: Lease) {
        guard let next = waiting[lease.key]?.first else {
            held[lease.key] = nil
            waiting[lease.key] = nil
            return
        }
        waiting[lease.key]?.removeFirst()
        grant(lease.key, next.fence)
        next.continuation.resume()
    }

    private func grant(_ key: RecordKey, _ fence: UInt64) {
        held[key] = nil
        // Removes a record that has expired; otherwise, a write without attributes would inherit its expiry, and be lost.
        _ = entry(key)
        held[key] = fence
    }
}

extension MemoryTokenStore: NonReflectable {}
