public import AuthFlow
import Synchronization

/// Connects an MCP host that uses the stdio transport to a remote MCP server that requires a sign-in.
///
/// Bodies pass through unchanged, except that missing or reformatted response IDs are corrected, invalid tools and byte order marks are
/// removed, and an access token that the server quotes is redacted. The bridge handles only the header fields for tokens, sessions and the transport. The host chooses the revision (2025-03-26 or
/// later).
///
/// ```swift
/// let bridge = MCPBridge(client: client) { line in output.write(Data(line)) }
/// for await line in input { bridge.receive(line) }
/// await bridge.close()
/// ```
public final class MCPBridge: Sendable {
    /// The settings of a bridge.
    public struct Options: Sendable {
        /// Formats the message that the host displays for an error, for example with the command to run; default: the
        /// error's description.
        public var explain: @Sendable (AuthError) -> String = { $0.description }

        /// Receives the messages for the user, which are not sent to the host; default: the messages are dropped. They
        /// contain no secrets.
        public var log: @Sendable (String) -> Void = { _ in }

        /// The idle timeout of a response or stream, after which its request fails; default: 15 minutes.
        public var idleTimeout = Duration.seconds(900)

        /// Creates the default options.
        public init() {}
    }

    let endpoint: MCPEndpoint
    let options: Options
    let write: @Sendable ([UInt8]) async -> Void
    let clock: any Clock<Duration>
    let state = Mutex(State())

    struct State {
        var session = MCPSession()
        var tools = ToolList()
        /// The requests in progress, keyed by `id` as JSON text, each with its number.
        var running: [String: (number: Int, task: Task<Void, Never>)] = [:]
        var lastRequest = 0
        /// The number of `initialize` requests from the host.
        var initializations = 0
        /// The notifications and responses being delivered.
        var deliveries: [Int: Task<Void, Never>] = [:]
        var lastDelivery = 0
        var sessionReplacement: (number: Int, signsIn: Bool, task: Task<Bool, Never>)?
        var listener: Task<Void, Never>?
        /// Whether the server rejected the listening stream; only a new token can resolve this.
        var isListenerRejected = false
        /// The delivery of `notifications/initialized`. Servers reject other requests until it completes.
        var initializedDelivery: Task<Void, Never>?
        var isClosed = false
        var ownRequests = 0
    }

    /// Creates a bridge.
    /// - Parameters:
    ///   - client: The client for the server.
    ///   - transport: Sends the requests; default: the system's transport.
    ///   - clock: The clock for delays and timeouts; default: the system's.
    ///   - options: The settings; default: the defaults of ``Options``.
    ///   - write: Sends a message to the host: one line of JSON, without the newline. Several tasks call it
    ///     concurrently. While it waits for a host that does not read, the bridge applies backpressure to the server.
    public init(
        client: ResourceClient,
        transport: any HTTPTransport = SystemTransport(),
        clock: any Clock<Duration> = ContinuousClock(),
        options: Options = Options(),
        write: @escaping @Sendable (_ line: [UInt8]) async -> Void
    ) {
        self.endpoint = MCPEndpoint(
            client: client,
            transport: transport,
            clock: clock,
            headTimeout: options.idleTimeout
        )
        self.clock = clock
        self.options = options
        self.write = write
    }

    // MARK: The host

    /// Handles a message from the host. The method returns immediately; responses are written in any order.
    /// - Parameter line: One line, with or without the newline.
    public func receive(_ line: [UInt8]) {
        var line = line
        while let last = line.last, [0x0A, 0x0D, 0x20, 0x09].contains(last) { line.removeLast() }
        guard !line.isEmpty else { return }
        guard let message = MCPMessage(line) else {
            runInBackground { if let refusal = MCPMessage.parseError { await self.write(refusal.bytes) } }
            return
        }
        switch message.kind {
        case .request(let id, let method):
            run(message, id, initialization: method == "initialize" ? beginSession(with: message) : nil)
        case .notification(let method):
            guard method != "notifications/cancelled" else { return cancel(message) }
            let isInitialized = method == "notifications/initialized"
            if isInitialized { state.withLock { $0.session.initialized = message } }
            let task = runInBackground { await self.post(message) }
            if isInitialized { state.withLock { $0.initializedDelivery = task } }
        case .response: runInBackground { await self.post(message) }
        case .batch:
            let initializedDelivery = state.withLock { $0.initializedDelivery }
            runInBackground {
                await initializedDelivery?.value
                // The server does not respond to a batch without requests.
                if message.requestIDs.isEmpty { await self.post(message) } else { await self.postBatch(message) }
            }
        }
    }

    /// Cancels everything in progress, and ends the session. It may first wait for requests in progress to complete.
    /// - Parameter grace: The maximum time to wait for requests in progress; default: zero.
    public func close(within grace: Duration = .zero) async {
        let running = state.withLock { $0.running.values.map(\.task) + Array($0.deliveries.values) }
        if grace > .zero, !running.isEmpty {
            let watch = Task {
                try await clock.sleep(for: min(grace, .longestSleep))
                for task in running { task.cancel() }
                // Requests may be waiting for a new session.
                state.withLock { $0.sessionReplacement?.task }?.cancel()
            }
            for task in running { await task.value }
            watch.cancel()
        }
        let (left, replacement, session) = state.withLock { state in
            state.isClosed = true
            state.sessionReplacement?.task.cancel()
            let tasks =
                state.running.values.map(\.task) + Array(state.deliveries.values) + [state.listener].compactMap { $0 }
            return (tasks, state.sessionReplacement?.task, state.session)
        }
        for task in left { task.cancel() }
        await end(session)
        // The cancelled replacement ends the session that it has started, and the process may exit when this method returns.
        _ = await replacement?.value
    }

    /// Ends a session at the server that is no longer used, even if this task has been cancelled.
    func end(_ session: MCPSession) async {
        // MCP 2025-11-25, "Session Management": clients "SHOULD send an HTTP DELETE to the MCP endpoint with the
        // MCP-Session-Id header".
        guard session.id != nil else { return }
        // Sent in a separate task, because this task may have been cancelled.
        let sessionDeletion = Task { [endpoint] in
            _ = try? await endpoint.send(.delete, session.fields, signsIn: false, timeout: .seconds(2), pool: .replies)
        }
        let watch = Task { [clock] in
            try? await clock.sleep(for: .seconds(2))
            sessionDeletion.cancel()
        }
        await sessionDeletion.value
        watch.cancel()
    }

    /// - Returns: The number of the `initialize`.
    private func beginSession(with initialize: MCPMessage) -> Int {
        let (listener, initialization) = state.withLock { state in
            defer { (state.listener, state.initializedDelivery) = (nil, nil) }
            state.initializations += 1
            state.session = MCPSession(
                initialize: initialize,
                initialization: state.initializations,
                number: state.session.number
            )
            return (state.listener, state.initializations)
        }
        listener?.cancel()
        return initialization
    }

    /// - Parameter initialization: The number of the `initialize`; nil for any other request.
    private func run(_ message: MCPMessage, _ id: JSON, initialization: Int?) {
        let key = Self.key(id)
        state.withLock { state in
            guard !state.isClosed else { return }
            let initializedDelivery = message.version == nil ? state.initializedDelivery : nil
            // After another `initialize`, a host may use its IDs again. It would take the response to the earlier request for the response to
            // this one.
            state.running[key]?.task.cancel()
            state.lastRequest += 1
            let number = state.lastRequest
            let task = Task {
                await initializedDelivery?.value
                let response = await self.exchange(message, id, initialization: initialization)
                // A request that the host has cancelled receives no response.
                if let response, !Task.isCancelled { await self.write(response.bytes) }
                self.state.withLock { if $0.running[key]?.number == number { $0.running[key] = nil } }
            }
            state.running[key] = (number, task)
        }
    }

    @discardableResult private func runInBackground(_ work: @escaping @Sendable () async -> Void) -> Task<Void, Never>?
    {
        state.withLock { state in
            guard !state.isClosed else { return nil }
            state.lastDelivery += 1
            let number = state.lastDelivery
            let task = Task {
                await work()
                self.state.withLock { $0.deliveries[number] = nil }
            }
            state.deliveries[number] = task
            return task
        }
    }

    /// Ends a request that the host has cancelled.
    ///
    /// Starting with revision 2026-07-28, closing the response stream cancels the request. Servers of older revisions
    /// require the notification: closing the stream does not cancel the request.
    private func cancel(_ message: MCPMessage) {
        let task = message.json["params"]?["requestId"].flatMap { id in
            state.withLock { $0.running[Self.key(id)]?.task }
        }
        // Cancel the task immediately, because the server may not accept the notification for a while.
        task?.cancel()
        guard state.withLock({ $0.session.initialize != nil }) else { return }
        runInBackground { await self.post(message) }
    }

    private static func key(_ id: JSON) -> String {
        (try? id.serialized()).map { String(decoding: $0, as: UTF8.self) } ?? ""
    }
}
