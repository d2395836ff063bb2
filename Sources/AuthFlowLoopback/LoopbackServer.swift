package import AuthFlow
import FlyingFox
import FlyingSocks
import Foundation
package import HTTPTypes
import Synchronization

/// An HTTP server that only this machine can reach, open for the length of one call.
package struct LoopbackServer {
    /// A type that answers a request. The body is whole and bounded.
    package typealias Handler = @Sendable (_ request: HTTPTypes.HTTPRequest, _ body: [UInt8]) async -> HTTPReply

    /// The largest request body accepted, in bytes.
    private static let maximumBodySize = 256 * 1024

    /// How long answers under way may take once the call is over.
    private static let grace = Duration.seconds(2)

    /// How long a connection may take to write the answer that it has, in seconds. FlyingFox does not say when it is done.
    private static let writingTime: TimeInterval = 0.1

    /// Opens the server, runs `body`, and closes it again whatever happens.
    /// - Parameters:
    ///   - host: `127.0.0.1`, `[::1]`, or `localhost`, which binds both.
    ///   - port: The port; nil for any free one.
    ///   - makeHandler: Makes what answers, when the port is known.
    ///   - onFailure: Called when the server fails while `body` runs, and after it.
    ///   - body: What to do meanwhile.
    /// - Throws: ``AuthError`` with `port_busy` or `user_agent_failed` when it cannot be opened; what `body` throws.
    package static func run<Return: Sendable>(
        host: String,
        port: Int?,
        makeHandler: (_ port: Int) -> Handler,
        onFailure: @escaping @Sendable () -> Void = {},
        _ body: (_ port: Int) async throws -> Return
    ) async throws -> Return {
        // A free port of one family may be taken in the other, so a few are tried.
        var lastError: any Error = AuthError(.portBusy, "No free port was found on this machine.")
        for _ in 0..<(port == nil ? 5 : 1) {
            let slot = HandlerSlot(onFailure: onFailure)
            let first = host == "[::1]" ? try ipv6(port: port ?? 0, slot) : try ipv4(port: port ?? 0, slot)
            do {
                return try await withRunning(first, port: port, slot) { boundPort in
                    slot.handler = makeHandler(boundPort)
                    guard host == "localhost", hasIPv6 else { return try await body(boundPort) }
                    // RFC 8252 section 8.3 warns of "localhost": a browser may try ::1 first, where somebody else
                    // could listen. So that address is taken too.
                    do {
                        return try await withRunning(try ipv6(port: boundPort, slot), port: boundPort, slot) {
                            try await body($0)
                        }
                    } catch let error as AuthError where error.code == .portBusy && port == nil {
                        throw Taken(error: error)
                    }
                }
            } catch let taken as Taken {
                lastError = taken.error
            }
        }
        throw lastError
    }

    private struct Taken: Error {
        let error: AuthError
    }

    private static func withRunning<Return: Sendable>(
        _ server: HTTPServer,
        port: Int?,
        _ slot: HandlerSlot,
        _ body: (_ port: Int) async throws -> Return
    ) async throws -> Return {
        try await withThrowingTaskGroup(of: Void.self) { group in
            let (failures, failing) = AsyncThrowingStream<Void, any Error>.makeStream()
            group.addTask {
                do {
                    try await server.run()
                    failing.finish()
                } catch {
                    failing.finish(throwing: error)
                }
                slot.onFailure()
            }
            do {
                try await listening(server, or: failures)
            } catch {
                group.cancelAll()
                throw Self.failure(error, port: port)
            }
            guard let boundPort = await server.port else {
                group.cancelAll()
                throw AuthError(.userAgentFailed, "The loopback server lost its port.")
            }
            do {
                let result = try await body(boundPort)
                await stop(server, slot)
                group.cancelAll()
                return result
            } catch {
                await stop(server, slot)
                group.cancelAll()
                throw error
            }
        }
    }

    /// Closes the server once the answers under way, the page for the person among them, are written.
    private static func stop(_ server: HTTPServer, _ slot: HandlerSlot) async {
        let hasAnswered: Void? = try? await withDeadline(grace, clock: ContinuousClock()) {
            AuthError(.timedOut, "An answer took too long.")
        } _: {
            await slot.waitUntilIdle()
        }
        // A cancelled task has nothing to say to the browser any more.
        await server.stop(timeout: hasAnswered == nil ? 0 : writingTime)
    }

    /// Returns when the server listens, and throws when it cannot.
    private static func listening(
        _ server: HTTPServer,
        or failures: AsyncThrowingStream<Void, any Error>
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await server.waitUntilListening(timeout: 10) }
            group.addTask {
                for try await _ in failures {}
                try Task.checkCancellation()
                throw SocketError.disconnected
            }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    private static func failure(_ error: any Error, port: Int?) -> any Error {
        switch error {
        case is CancellationError:
            return error
        case SocketError.failed(_, let number, _) where number == EADDRINUSE:
            return AuthError(
                .portBusy,
                """
                Port \(port ?? 0) on this machine is taken by another program, so the answer could not be received. End \
                that program, or register and configure another redirect URI.
                """,
                underlyingError: error
            )
        default:
            return AuthError(
                .userAgentFailed,
                "No loopback server could be opened\(port.map { " on port \($0)" } ?? "").",
                underlyingError: error
            )
        }
    }

    private static var hasIPv6: Bool {
        guard let socket = try? Socket(domain: AF_INET6), let address = try? sockaddr_in6.inet6(ip6: "::1", port: 0)
        else {
            return false
        }
        defer { try? socket.close() }
        return (try? socket.bind(to: address)) != nil
    }

    private static func ipv4(port: Int, _ slot: HandlerSlot) throws -> HTTPServer {
        server(try sockaddr_in.inet(ip4: "127.0.0.1", port: UInt16(port)), slot)
    }

    private static func ipv6(port: Int, _ slot: HandlerSlot) throws -> HTTPServer {
        server(try sockaddr_in6.inet6(ip6: "::1", port: UInt16(port)), slot)
    }

    private static func server(_ address: some SocketAddress, _ slot: HandlerSlot) -> HTTPServer {
        HTTPServer(address: address, timeout: 90, logger: .disabled, handler: slot)
    }

    /// Turns FlyingFox's requests into the engine's types and back.
    fileprivate static func answer(_ request: FlyingFox.HTTPRequest, with handler: Handler) async throws
        -> FlyingFox.HTTPResponse
    {
        var body: [UInt8] = []
        for try await chunk in request.bodySequence {
            body += chunk
            guard body.count <= maximumBodySize else { return HTTPResponse(statusCode: .payloadTooLarge) }
        }
        var fields = HTTPFields()
        for (header, value) in request.headers {
            guard let name = HTTPField.Name(header.rawValue) else { continue }
            fields.append(HTTPField(name: name, value: value))
        }
        let reply = await handler(
            HTTPTypes.HTTPRequest(
                method: HTTPTypes.HTTPRequest.Method(rawValue: request.method.rawValue) ?? .get,
                scheme: "http",
                authority: request.headers[.host],
                path: request.target.rawValue,
                headerFields: fields
            ),
            body
        )
        // FlyingFox leaves Nagle's algorithm on, which delays the second write on a kept connection by 40 ms.
        var headers: HTTPHeaders = [.connection: "close"]
        for field in reply.response.headerFields { headers.addValue(field.value, for: HTTPHeader(field.name.rawName)) }
        return HTTPResponse(
            statusCode: HTTPStatusCode(reply.status, phrase: reply.response.status.reasonPhrase),
            headers: headers,
            body: Data(reply.body)
        )
    }
}

/// Holds what answers, which is made after the port is known and before anybody knows the port, and counts the answers
/// under way.
private final class HandlerSlot: HTTPHandler, Sendable {
    private struct State {
        var handler: LoopbackServer.Handler?
        var underWay = 0
        var isIdle: [AsyncStream<Void>.Continuation] = []
    }

    private let state = Mutex(State())
    let onFailure: @Sendable () -> Void

    init(onFailure: @escaping @Sendable () -> Void) {
        self.onFailure = onFailure
    }

    var handler: LoopbackServer.Handler? {
        get { state.withLock { $0.handler } }
        set { state.withLock { $0.handler = newValue } }
    }

    func handleRequest(_ request: FlyingFox.HTTPRequest) async throws -> FlyingFox.HTTPResponse {
        guard let handler else { return HTTPResponse(statusCode: .notFound) }
        state.withLock { $0.underWay += 1 }
        defer {
            state.withLock { state in
                state.underWay -= 1
                if state.underWay == 0 { for waiter in state.isIdle { waiter.finish() } }
            }
        }
        return try await LoopbackServer.answer(request, with: handler)
    }

    /// Returns when no answer is under way, or the task is cancelled.
    func waitUntilIdle() async {
        let (changes, change) = AsyncStream<Void>.makeStream()
        state.withLock { state in
            if state.underWay == 0 { change.finish() } else { state.isIdle.append(change) }
        }
        for await _ in changes {}
    }
}

extension HTTPServer {
    fileprivate var port: Int? {
        switch listeningAddress {
        case .ip4(_, let port), .ip6(_, let port): Int(port)
        default: nil
        }
    }
}
