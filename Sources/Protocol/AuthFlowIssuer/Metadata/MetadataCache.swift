import AuthFlowEssentials
import AuthFlowHTTP
import Synchronization

/// Caches the metadata of one issuer: one fetch serves all waiting callers, and is repeated when the metadata expires.
///
/// - After a failed fetch, the old metadata is used until it is a day old.
/// - After a failure, fetches are retried with exponential backoff (one second to one minute); until the next attempt, the same error is
///   rethrown, so that many users of one server do not flood an unavailable provider with requests.
final class MetadataCache: Sendable {
    /// The maximum age of stale metadata that is still used when refetching fails, in seconds.
    static let maximumStaleAge: TimeInterval = 86_400
    /// The minimum age of metadata that is refetched before it expires, because an endpoint does not exist or no key matches a signature, in seconds.
    static let minimumRefetchInterval: TimeInterval = 60
    /// The maximum backoff after a failure, in seconds.
    static let maximumBackoff: TimeInterval = 60

    private struct State {
        var metadata: ProviderMetadata?
        var fetchedAt = Date.distantPast
        var freshUntil = Date.distantPast
        var running: SharedTask<ProviderMetadata>?
        var supplement = Supplement.none
        var failure: (error: AuthError, at: Date, until: Date, count: Int)?

        /// Whether the metadata was discovered, and is old enough to be refetched.
        func canBeRefetched(at now: Date) -> Bool {
            metadata?.lifetime != nil && now >= fetchedAt + minimumRefetchInterval
        }
    }

    /// The state of the search for a second metadata document.
    private enum Supplement {
        case none
        case running(SharedTask<ProviderMetadata>)
        case finished
    }

    private let state = Mutex(State())
    private let now: @Sendable () -> Date

    init(now: @escaping @Sendable () -> Date) {
        self.now = now
    }

    /// The most recently fetched metadata, however old; nil before the first fetch.
    var known: ProviderMetadata? { state.withLock { $0.metadata } }

    /// Returns the metadata, after fetching it if it is missing or has expired.
    /// - Parameters:
    ///   - waits: Whether to wait for a new document even if the old document is usable; default: true.
    ///   - forcesRefetch: Whether to refetch an unexpired document, unless it was fetched very recently; default: false.
    /// - Throws: Any new or cached error from `fetch`; `CancellationError`, which does not affect other callers.
    func metadata(
        waits: Bool = true,
        forcesRefetch: Bool = false,
        _ fetch: @escaping @Sendable () async throws -> ProviderMetadata
    ) async throws -> ProviderMetadata {
        let now = self.now()
        let (usable, task, failure) = state.withLock {
            state -> (ProviderMetadata?, SharedTask<ProviderMetadata>?, AuthError?) in
            // If the clock was set back, metadata must not remain fresh forever.
            let isKnown = now >= state.fetchedAt
            let isFresh = now < state.freshUntil && !(forcesRefetch && state.canBeRefetched(at: now))
            if isKnown, isFresh, let metadata = state.metadata { return (metadata, nil, nil) }
            let usable = isKnown && now < state.fetchedAt + Self.maximumStaleAge ? state.metadata : nil
            if let running = state.running { return (usable, running, nil) }
            if let failure = state.failure, now >= failure.at, now < failure.until {
                return (usable, nil, failure.error)
            }
            let task = begin(fetch)
            state.running = task
            return (usable, task, nil)
        }
        if let usable, !waits { return usable }
        if let task {
            do {
                return try await task.value()
            } catch {
                try Task.checkCancellation()
                guard let usable else { throw error }
                return usable
            }
        }
        if let usable { return usable }
        throw failure ?? AuthError(.discoveryFailed, "The provider's metadata could not be fetched.")
    }

    private func begin(_ fetch: @escaping @Sendable () async throws -> ProviderMetadata) -> SharedTask<ProviderMetadata>
    {
        SharedTask { [self] in
            do {
                let found = try await fetch()
                let now = self.now()
                state.withLock { state in
                    state.running = nil
                    state.failure = nil
                    state.metadata = found
                    state.supplement = .none
                    state.fetchedAt = now
                    state.freshUntil = found.lifetime.map { now + $0.seconds } ?? .distantFuture
                }
                return found
            } catch {
                let now = self.now()
                state.withLock { state in
                    state.running = nil
                    guard let error = error as? AuthError else { return }
                    let count = (state.failure?.count ?? 0) + 1
                    let wait = min(Self.maximumBackoff, Double(1 << min(count - 1, 10)))
                    state.failure = (error, now, now + wait, count)
                }
                throw error
            }
        }
    }

    /// The metadata supplemented by a second document, which is requested once during the lifetime of the first document. A
    /// search that fails with a transient error is retried.
    /// - Parameter search: Returns the metadata to use from now on; throws when the search was inconclusive.
    func supplemented(_ search: @escaping @Sendable () async throws -> ProviderMetadata) async throws
        -> ProviderMetadata
    {
        let (known, task) = state.withLock { state -> (ProviderMetadata?, SharedTask<ProviderMetadata>?) in
            switch state.supplement {
            case .finished: return (state.metadata, nil)
            case .running(let task): return (nil, task)
            case .none:
                let fetchedAt = state.fetchedAt
                let task = SharedTask { [self] in
                    do {
                        let found = try await search()
                        self.state.withLock { state in
                            // Metadata that was fetched again in the meantime is newer than the supplemented metadata.
                            guard state.fetchedAt == fetchedAt else { return }
                            state.metadata = found
                            state.supplement = .finished
                        }
                        return found
                    } catch {
                        self.state.withLock { if $0.fetchedAt == fetchedAt { $0.supplement = .none } }
                        throw error
                    }
                }
                state.supplement = .running(task)
                return (nil, task)
            }
        }
        if let known { return known }
        guard let task else { throw AuthError(.discoveryFailed, "The provider's metadata could not be fetched.") }
        return try await task.value()
    }

    /// Marks the metadata as stale, unless it was fetched very recently.
    func expire() {
        let now = self.now()
        state.withLock { state in
            guard state.canBeRefetched(at: now) else { return }
            state.freshUntil = min(state.freshUntil, now)
        }
    }
}
