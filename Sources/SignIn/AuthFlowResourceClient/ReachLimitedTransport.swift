import AuthFlowHTTP
import HTTPTypes
import Synchronization

/// A transport that restricts the servers that a resource names to the network reach of the resource itself.
///
/// A resource on a company network may refer to servers there, regardless of the addresses that their names resolve to; a public resource
/// must not make this client connect to loopback or private addresses (SSRF).
final class ReachLimitedTransport: HTTPTransport {
    private let base: any HTTPTransport
    private let home: Endpoint
    /// The network reach of the connections to the resource.
    private let reach = Mutex<NetworkReach?>(nil)

    /// - Parameter home: The resource.
    init(_ base: any HTTPTransport, home: Endpoint) {
        self.base = base
        self.home = home
    }

    func send(_ call: TransportRequest) async throws -> TransportResponse {
        let response = try await base.send(limited(call))
        if call.isFor(home) { record(response.reach) }
        return response
    }

    func stream(_ call: TransportRequest) async throws -> ResponseStream {
        let response = try await base.stream(limited(call))
        if call.isFor(home) { record(response.reach) }
        return response
    }

    func stream(_ call: TransportRequest, body: UploadBody) async throws -> ResponseStream {
        let response = try await base.stream(limited(call), body: body)
        if call.isFor(home) { record(response.reach) }
        return response
    }

    /// Records the network reach of a connection to the resource, including a connection that did not use this transport.
    func record(_ reach: NetworkReach?) {
        guard let reach else { return }
        self.reach.withLock { $0 = max($0 ?? reach, reach) }
    }

    private func limited(_ call: TransportRequest) -> TransportRequest {
        guard !call.isFor(home), let reach = reach.withLock({ $0 }) else { return call }
        var call = call
        call.allowedReach = min(call.allowedReach, max(reach, home.reach))
        return call
    }
}

extension TransportRequest {
    fileprivate func isFor(_ endpoint: Endpoint) -> Bool {
        let authority = head.authority ?? ""
        return authority == endpoint.authority || authority.hasPrefix("\(endpoint.host):") || authority == endpoint.host
    }
}
