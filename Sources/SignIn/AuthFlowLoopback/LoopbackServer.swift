package import AuthFlow
import AuthFlowEssentials
import AuthFlowSystem
import FlyingSocks
import Synchronization

/// An HTTP server that only this machine can reach, open for the duration of one call.
package struct LoopbackServer {
    /// Responds to a request. The body is complete, and its size is limited.
    package typealias Handler = @Sendable (_ request: HTTPRequest, _ body: [UInt8]) async -> TransportResponse

    /// The peer of the connection whose request is being handled; nil outside a handler.
    @TaskLocal static var peer: PeerOwner?

    /// The timeout for pending responses after `body` has completed.
    private static let grace = Duration.seconds(2)

    /// Opens the server, runs `body`, and always closes the server afterward.
    /// - Parameters:
    ///   - host: `127.0.0.1`, `[::1]`, or `localhost`, which binds both.
    ///   - port: The port; nil for any free port.
    ///   - makeHandler: Creates the handler, once the port is known.
    ///   - onFailure: Called when the server stops, either because of a failure while `body` runs or after `body` has
    ///     completed.
    ///   - body: Runs while the server is open.
    /// - Throws: ``AuthError`` with `port_busy` or `user_agent_failed` when the server cannot be opened; any error that `makeHandler` or `body`
    ///   throws.
    package static func run<Return: Sendable>(
        host: String,
        port: Int?,
        makeHandler: (_ port: Int) throws -> Handler,
        onFailure: @escaping @Sendable () -> Void = {},
        _ body: (_ port: Int) async throws -> Return
    ) async throws -> Return {
        let ports = try LoopbackPort.open(host: host, port: port)
        defer { ports.close() }
        let connections = Connections(handler: try makeHandler(ports.number))
        let pool = SocketPool<Poll>.make()
        do {
            try await pool.prepare()
        } catch {
            throw AuthError(.userAgentFailed, "No loopback server could be opened.", underlyingError: error)
        }
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                try? await pool.run()
                onFailure()
            }
            for socket in ports.sockets {
                let listener = try AsyncSocket(socket: socket, pool: pool)
                group.addTask { await connections.serve(listener) }
            }
            // After cancellation, nothing more is sent to the browser; otherwise the page for the user is sent first.
            defer { group.cancelAll() }
            do {
                let result = try await body(ports.number)
                await waitForAnswers(connections)
                return result
            } catch {
                await waitForAnswers(connections)
                throw error
            }
        }
    }

    private static func waitForAnswers(_ connections: Connections) async {
        try? await withDeadline(grace, clock: ContinuousClock()) {
            AuthError(.timedOut, "A response took too long.")
        } _: {
            await connections.waitUntilIdle()
        }
    }
}

/// The connections of a server, which are limited in number.
private final class Connections: Sendable {
    /// The maximum number of connections whose request has not arrived. At this limit, no further connection is accepted;
    /// connections that have been idle for a moment are closed to make room. A browser with a pending request sends it as
    /// soon as the connection is established; an idle connection is speculative (preconnect).
    private static let maximumWaiting = 256

    /// The idle timeout of a connection while the maximum number of connections is reached.
    private static let idleTimeout = Duration.milliseconds(100)

    /// The timeout for receiving a request, and for sending a response.
    private static let waitTimeout = Duration.seconds(10)

    private struct State {
        /// The connections whose request has not arrived yet, oldest first.
        var waiting: [(number: UInt64, socket: Socket, since: ContinuousClock.Instant)] = []
        var count: UInt64 = 0
        var responding = 0
        var isIdle: AsyncStream<Void>.Continuation?
    }

    private let handler: LoopbackServer.Handler
    private let state = Mutex(State())

    init(handler: @escaping LoopbackServer.Handler) { self.handler = handler }

    /// Accepts connections and responds to their requests until the task is cancelled.
    func serve(_ listener: AsyncSocket) async {
        await withDiscardingTaskGroup { group in
            while !Task.isCancelled {
                do {
                    while let pause = closeIdleConnections() { try await Task.sleep(for: pause) }
                    let socket = try await listener.accept()
                    group.addTask { await self.respond(socket) }
                } catch SocketError.failed(_, let number, _) where number == ECONNABORTED || number == EINTR {
                    continue
                } catch SocketError.failed {
                    // The process may be out of file descriptors, so wait until some have been closed.
                    try? await Task.sleep(for: .milliseconds(50))
                } catch {
                    break
                }
            }
            group.cancelAll()
        }
    }

    private func respond(_ socket: AsyncSocket) async {
        let number = begin(socket.socket)
        let response: TransportResponse
        var method: HTTPRequest.Method?
        do {
            let (request, body) = try await inTime { try await HTTPMessageReader.request(from: socket) }
            beginAnswer(number)
            method = request.method
            response = await LoopbackServer.$peer.withValue(PeerOwner(of: socket.socket.file.rawValue)) {
                await handler(request, body)
            }
        } catch let refusal as HTTPMessageReader.Refusal {
            beginAnswer(number)
            response = TransportResponse(head: HTTPResponse(status: refusal.status))
        } catch {
            return end(number, socket.socket)
        }
        let bytes = Data(HTTPMessageReader.bytes(of: response, to: method))
        try? await inTime { try await socket.write(bytes) }
        end(number, socket.socket)
        endAnswer()
    }

    private func inTime<Return: Sendable>(
        _ body: @escaping @Sendable () async throws -> Return
    ) async throws -> Return {
        try await withDeadline(Self.waitTimeout, clock: ContinuousClock()) {
            AuthError(.timedOut, "A connection was too slow.")
        } _: {
            try await body()
        }
    }

    private func begin(_ socket: Socket) -> UInt64 {
        state.withLock { state in
            state.count += 1
            state.waiting.append((state.count, socket, .now))
            return state.count
        }
    }

    /// Closes idle connections when the maximum number of connections is reached.
    /// - Returns: The time to wait before checking again; nil when there is room.
    private func closeIdleConnections() -> Duration? {
        state.withLock { state in
            guard state.waiting.count >= Self.maximumWaiting else { return nil }
            let now = ContinuousClock.now
            state.waiting.removeAll { connection in
                guard connection.since.duration(to: now) >= Self.idleTimeout, !Self.hasUnreadBytes(connection.socket)
                else { return false }
                // The socket is only shut down (a waiting reader then sees the end of the stream), because the descriptor
                // still belongs to that connection.
                shutdown(connection.socket.file.rawValue, Int32(SHUT_RDWR))
                return true
            }
            return state.waiting.count < Self.maximumWaiting ? nil : .milliseconds(10)
        }
    }

    /// Whether unread bytes have arrived, which means that a request is being received.
    private static func hasUnreadBytes(_ socket: Socket) -> Bool {
        var byte: UInt8 = 0
        return unsafe recv(socket.file.rawValue, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)) > 0
    }

    private func beginAnswer(_ number: UInt64) {
        state.withLock { state in
            state.waiting.removeAll { $0.number == number }
            state.responding += 1
        }
    }

    /// Closes a connection under the lock, so that `closeIdleConnections()` cannot shut down a new connection that has just been assigned the
    /// same descriptor.
    private func end(_ number: UInt64, _ socket: Socket) {
        state.withLock { state in
            state.waiting.removeAll { $0.number == number }
            try? socket.close()
        }
    }

    private func endAnswer() {
        state.withLock { state in
            state.responding -= 1
            if state.responding == 0 { state.isIdle?.finish() }
        }
    }

    /// Returns when no response is pending, or the task is cancelled.
    func waitUntilIdle() async {
        let (changes, change) = AsyncStream<Void>.makeStream()
        state.withLock { state in
            if state.responding == 0 { change.finish() } else { state.isIdle = change }
        }
        for await _ in changes {}
    }
}
