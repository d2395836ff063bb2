/// Keeps credentials as long as the process runs.
public actor MemoryTokenStore: TokenStore {
    private var entries: [TokenKey: [UInt8]] = [:]
    private var held: Set<TokenKey> = []
    private var waiting: [TokenKey: [(id: Int, continuation: CheckedContinuation<Void, any Error>)]] = [:]
    private var nextID = 0

    /// Creates an empty store.
    public init() {}

    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func bytes(for key: TokenKey) -> [UInt8]? { entries[key] }

    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func set(_ bytes: [UInt8]?, for key: TokenKey) { entries[key] = bytes }

    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public nonisolated func withExclusiveAccess<Return: Sendable>(
        to key: TokenKey,
        _ body: () async throws -> Return
    ) async throws -> Return {
        try await acquire(key)
        do {
            let result = try await body()
            await release(key)
            return result
        } catch {
            await release(key)
            throw error
        }
    }

    private func acquire(_ key: TokenKey) async throws {
        try Task.checkCancellation()
        if held.insert(key).inserted { return }
        nextID += 1
        let id = nextID
        // The holder before hands the key over, so it stays in `held`.
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                waiting[key, default: []].append((id, continuation))
                if Task.isCancelled { giveUp(id, key) }
            }
        } onCancel: {
            Task { await self.giveUp(id, key) }
        }
    }

    private func giveUp(_ id: Int, _ key: TokenKey) {
        guard let index = waiting[key]?.firstIndex(where: { $0.id == id }) else { return }
        waiting[key]?.remove(at: index).continuation.resume(throwing: CancellationError())
    }

    private func release(_ key: TokenKey) {
        if waiting[key]?.isEmpty == false {
            waiting[key]?.removeFirst().continuation.resume()
        } else {
            held.remove(key)
        }
    }
}

extension MemoryTokenStore: CustomReflectable {
    /// A mirror without children: what is stored is secret.
    public nonisolated var customMirror: Mirror { Mirror(self, children: [:]) }
}
