package import AuthFlowHTTP
import Synchronization

/// A transport that runs a closure before the first request to a URL that contains a given text.
package final class BeforeFirstRequest: HTTPTransport {
    private let base: any HTTPTransport
    private let text: String
    private let body: @Sendable () async throws -> Void
    private let hasRun = Atomic(false)

    package init(base: any HTTPTransport, to text: String, _ body: @escaping @Sendable () async throws -> Void) {
        self.base = base
        self.text = text
        self.body = body
    }

    package func send(_ call: TransportRequest) async throws -> TransportResponse {
        if call.url.contains(text), !hasRun.exchange(true, ordering: .relaxed) { try await body() }
        return try await base.send(call)
    }
}
