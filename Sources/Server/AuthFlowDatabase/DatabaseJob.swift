import AuthFlow
import Synchronization

/// A request that waits for a connection, and then for its response.
final class DatabaseJob<Link: DatabaseLink>: Sendable {
    enum Phase {
        case waiting
        case running(Link)
        case ended
    }

    let request: Link.Request
    let result = FirstResult<Link.Response>()
    private let phase = Mutex(Phase.waiting)

    init(_ request: Link.Request) { self.request = request }

    /// Whether the request still needs a connection.
    var isWaiting: Bool { phase.withLock { if case .waiting = $0 { true } else { false } } && !result.isFinished }

    /// Records that a connection is about to send the request.
    /// - Returns: Whether to send it; false when its caller is no longer waiting.
    func begin(on link: Link) -> Bool {
        phase.withLock { phase in
            guard case .waiting = phase, !result.isFinished else { return false }
            phase = .running(link)
            return true
        }
    }

    func end(_ outcome: Result<Link.Response, any Error>) {
        phase.withLock { $0 = .ended }
        result.finish(outcome)
    }

    /// Ends the request unless it has been sent.
    /// - Returns: Whether the request was waiting for a connection.
    func cancel() -> Bool {
        phase.withLock { phase in
            guard case .waiting = phase else { return false }
            phase = .ended
            return true
        }
    }

    /// Ends the request at its deadline. Its connection, if any, is interrupted, because a late response must not be mistaken for
    /// the response to the next request.
    /// - Parameter reason: The error message if the request is still waiting for a connection.
    /// - Returns: The phase of the request at its deadline.
    func expire(_ reason: String) -> Phase {
        phase.withLock { phase in
            defer { phase = .ended }
            switch phase {
            case .ended: break
            case .waiting: result.finish(.failure(DatabaseFailure(.unreachable, reason)))
            case .running(let link):
                link.interrupt()
                result.finish(.failure(DatabaseFailure(.unknownOutcome, "The database did not respond in time.")))
            }
            return phase
        }
    }
}
