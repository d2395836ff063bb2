import AuthFlow
import AuthFlowLoopback
import AuthFlowTesting
import Foundation
import HTTPTypes
import Synchronization

/// A server that returns a function's responses, and records the requests that it receives.
final class Witness: ProviderEmulator {
    let origin: String
    private let respond: @Sendable (HTTPRequest, [UInt8]) async -> TransportResponse
    private let received = Mutex<[(line: String, text: String)]>([])

    init(_ origin: String, _ respond: @escaping @Sendable (HTTPRequest, [UInt8]) async -> TransportResponse) {
        self.origin = origin
        self.respond = respond
    }

    var origins: [String] { [origin] }

    /// The requests, as `METHOD /path`.
    var requests: [String] { received.withLock { $0.map(\.line) } }

    /// All received data: URLs, header fields and bodies.
    var everything: String { received.withLock { $0.map(\.text).joined(separator: "\n") } }

    func handle(_ request: HTTPRequest, body: [UInt8]) async -> TransportResponse {
        let fields = request.headerFields.map { "\($0.name): \($0.value)" }.joined(separator: "\n")
        received.withLock {
            $0.append(
                (
                    "\(request.method) \(request.path ?? "")",
                    "\(request.path ?? "")\n\(fields)\n\(String(decoding: body, as: UTF8.self))"
                )
            )
        }
        return await respond(request, body)
    }
}

/// An emulator that delays its responses to some requests until a test releases them.
final class HeldBack: ProviderEmulator {
    private let base: OIDCEmulator
    private let isHeld: @Sendable (HTTPRequest, [UInt8]) -> Bool
    private let arrived = AsyncStream<Void>.makeStream()
    private let released = AsyncStream<Void>.makeStream()

    init(_ base: OIDCEmulator, _ isHeld: @escaping @Sendable (HTTPRequest, [UInt8]) -> Bool) {
        self.base = base
        self.isHeld = isHeld
    }

    var origins: [String] { base.origins }

    /// Waits until such a request has arrived.
    func arrival() async { for await _ in arrived.stream { break } }

    /// Releases the responses.
    func release() { released.continuation.finish() }

    func handle(_ request: HTTPRequest, body: [UInt8]) async -> TransportResponse {
        // The provider processes the request immediately; only the response is delayed.
        let response = await base.handle(request, body: body)
        guard isHeld(request, body) else { return response }
        arrived.continuation.yield()
        for await _ in released.stream {}
        return response
    }
}

extension TransportResponse {
    static func html(_ body: String, status: HTTPResponse.Status = .ok) -> TransportResponse {
        TransportResponse(
            head: HTTPResponse(status: status, headerFields: [.contentType: "text/html; charset=utf-8"]),
            body: Array("<!doctype html><html><body>\(body)</body></html>".utf8)
        )
    }

    static func text(_ body: String, type: String = "application/json", status: HTTPResponse.Status = .ok)
        -> TransportResponse
    {
        TransportResponse(
            head: HTTPResponse(status: status, headerFields: [.contentType: type]),
            body: Array(body.utf8)
        )
    }

    static func redirect(_ location: String) -> TransportResponse {
        TransportResponse(head: HTTPResponse(status: .found, headerFields: [.location: location]))
    }
}
