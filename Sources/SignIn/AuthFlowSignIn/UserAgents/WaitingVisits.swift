import AuthFlowOAuth
import Synchronization

/// The visits of a client that are waiting for their redirect. A redirect that arrives in another way, for
/// example because the system opened an app with it or the user pasted it, also ends the wait.
final class WaitingVisits: Sendable {
    private struct Visit {
        let options: RedirectOptions
        let redirectURI: String
        let arrival: AsyncStream<RedirectArrival>.Continuation
    }

    private let visits = Mutex<[UInt64: Visit]>([:])
    private let next = Atomic<UInt64>(0)

    /// Passes a redirect to the visit that it belongs to.
    /// - Returns: Whether there was such a visit.
    func resume(with url: String) -> Bool {
        let visits = visits.withLock { Array($0.values) }
        for visit in visits {
            guard let response = visit.options.response(in: url, at: visit.redirectURI) else { continue }
            if case .terminated = visit.arrival.yield(.response(response)) { return false }
            visit.arrival.finish()
            return true
        }
        return false
    }

    /// Visits a URL in a session of a user agent, unless the redirect arrives in another way first.
    func visit(_ url: String, in session: RedirectSession, _ options: RedirectOptions) async throws -> RedirectArrival {
        let (arrivals, arrival) = AsyncStream<RedirectArrival>.makeStream(bufferingPolicy: .bufferingOldest(1))
        let number = next.add(1, ordering: .relaxed).newValue
        visits.withLock {
            $0[number] = Visit(options: options, redirectURI: session.redirectURI, arrival: arrival)
        }
        defer { visits.withLock { $0[number] = nil } }
        return try await withThrowingTaskGroup(of: RedirectArrival?.self) { group in
            group.addTask { try await session.arrival(from: url) }
            group.addTask {
                for await arrival in arrivals { return arrival }
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

/// The reason why the last response to a visit was ignored: if no other response arrives, it is the best explanation.
package final class VisitNotes: Sendable {
    private let reason = Mutex<String?>(nil)

    package init() {}

    /// - Parameter reason: The end of a sentence, without any content from the response.
    package func ignoredResponse(because reason: String) { self.reason.withLock { $0 = reason } }

    /// A sentence for a timeout message, preceded by a space; empty when no response was ignored.
    package var advice: String {
        reason.withLock { $0.map { " The last response that arrived was not used: \($0)" } ?? "" }
    }
}
