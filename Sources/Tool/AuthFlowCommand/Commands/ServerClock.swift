import AuthFlow
import AuthFlowEssentials
import Synchronization

/// A transport that compares this machine's clock with the server's.
final class ServerClock: HTTPTransport {
    private let base = Mutex<any HTTPTransport>(SystemTransport())
    private let found = Mutex<TimeInterval?>(nil)

    /// The number of seconds by which this machine's clock is ahead; nil when no response had a `Date` header.
    var offset: TimeInterval? { found.withLock { $0 } }

    func over(_ transport: any HTTPTransport) -> any HTTPTransport {
        base.withLock { $0 = transport }
        return self
    }

    func send(_ call: TransportRequest) async throws -> TransportResponse {
        let response = try await base.withLock(\.self).send(call)
        // The `Date` header has a resolution of one second, so half a second is the best estimate of the fraction.
        if let offset = response.clockOffset(at: Date()) { found.withLock { $0 = offset - 0.5 } }
        return response
    }
}
