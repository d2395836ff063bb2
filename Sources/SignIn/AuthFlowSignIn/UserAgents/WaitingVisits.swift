import Synchronization

/// The visits of a client that wait for their redirect, so that one that arrives another way can end them: the system
/// opened an app with it, or the user pasted it.
final class WaitingVisits: Sendable {
    private struct Visit {
        let options: RedirectOptions
        let redirectURI: String
        let arrival: AsyncStream<String>.Continuation
    }

    private let visits = Mutex<[UInt64: Visit]>([:])
    private let next = Atomic<UInt64>(0)

    /// Hands a redirect to the visit that it belongs to.
    /// - Returns: Whether there was one.
    func resume(with url: String) -> Bool {
        let visits = visits.withLock { Array($0.values) }
        guard let visit = visits.first(where: { $0.options.accepts(url, at: $0.redirectURI) }) else { return false }
        if case .terminated = visit.arrival.yield(url) { return false }
        visit.arrival.finish()
        return true
    }

    /// Visits a URL in a session of a user agent, unless the redirect arrives another way.
    func visit(_ url: String, in session: RedirectSession, _ options: RedirectOptions) async throws -> String {
        let (arrivals, arrival) = AsyncStream<String>.makeStream(bufferingPolicy: .bufferingOldest(1))
        let number = next.add(1, ordering: .relaxed).newValue
        visits.withLock {
            $0[number] = Visit(options: options, redirectURI: session.redirectURI, arrival: arrival)
        }
        defer { visits.withLock { $0[number] = nil } }
        return try await withThrowingTaskGroup(of: String?.self) { group in
            group.addTask { try await session.visit(url) }
            group.addTask {
                for await url in arrivals { return url }
                return nil
            }
            defer { group.cancelAll() }
            while let response = try await group.next() {
                if let response { return response }
            }
            throw CancellationError()
        }
    }
}
