public import AuthFlow
import AuthFlowJSON
import HTTPTypes
import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Connects a host that speaks MCP over standard input and output to a remote server that demands a sign-in.
///
/// Bodies pass through unchanged. The bridge's own part is the header: tokens, sessions, and what the transport demands of a client.
/// It speaks every revision from 2025-03-26 on, because it leaves the choice to the host.
///
/// ```swift
/// let bridge = MCPBridge(client: client, write: { line in standardOutput.write(line) })
/// for await line in standardInput.lines { bridge.receive(line) }
/// await bridge.close()
/// ```
public final class MCPBridge: Sendable {
    /// The settings of a bridge.
    public struct Options: Sendable {
        /// Turns an error into the sentence that the host shows, such as with the command to run; default: the error's own.
        public var explain: @Sendable (AuthError) -> String = { $0.description }

        /// Receives what a user may want to know and the host does not; default: dropped. Never secret.
        public var log: @Sendable (String) -> Void = { _ in }

        /// How long a stream may be silent before a request that waits for it is given up; default: 15 minutes.
        public var silence = Duration.seconds(900)

        /// Creates options with the defaults for everything.
        public init() {}
    }

    private let endpoint: MCPEndpoint
    private let options: Options
    private let write: @Sendable ([UInt8]) -> Void
    private let clock: any Clock<Duration>
    private let state = Mutex(State())

    private struct State {
        var session = MCPSession()
        var tools = ToolList()
        /// The requests under way, by `id` as JSON text.
        var running: [String: Task<Void, Never>] = [:]
        /// Notifications and responses under way.
        var others: [Int: Task<Void, Never>] = [:]
        var lastOther = 0
        var repair: (number: Int, task: Task<Bool, Never>)?
        var listener: Task<Void, Never>?
        /// The delivery of `notifications/initialized`, before which servers take no other request.
        var greeting: Task<Void, Never>?
        var isClosed = false
        var ownRequests = 0
    }

    /// Creates a bridge.
    /// - Parameters:
    ///   - client: The client of the server.
    ///   - transport: Sends the requests; default: the system's.
    ///   - clock: Waits; default: the system's.
    ///   - options: Default: the defaults of ``Options``.
    ///   - write: Hands a message to the host: one line of JSON, without its end. Called from any thread, and by several at once.
    public init(
        client: ResourceClient,
        transport: any HTTPTransport = SystemTransport(),
        clock: any Clock<Duration> = ContinuousClock(),
        options: Options = Options(),
        write: @escaping @Sendable (_ line: [UInt8]) -> Void
    ) {
        self.endpoint = MCPEndpoint(client: client, transport: transport, clock: clock)
        self.clock = clock
        self.options = options
        self.write = write
    }

    // MARK: The host

    /// Takes a message of the host. It returns at once; responses come in any order.
    /// - Parameter line: One line, with or without its end.
    public func receive(_ line: [UInt8]) {
        var line = line
        while let last = line.last, [0x0A, 0x0D, 0x20, 0x09].contains(last) { line.removeLast() }
        guard !line.isEmpty else { return }
        guard let message = MCPMessage(line) else {
            // JSON-RPC 2.0 section 5.1
            return send([
                "jsonrpc": "2.0", "id": .null,
                "error": ["code": -32700, "message": "The line is not a JSON-RPC message."],
            ])
        }
        switch message.kind {
        case .request(let id, let method):
            if method == "initialize" { beginSession(with: message) }
            run(message, id)
        case .notification(let method):
            if method == "notifications/cancelled", cancel(message) { return }
            let task = runInBackground { await self.post(message) }
            if method == "notifications/initialized" {
                state.withLock { ($0.session.initialized, $0.greeting) = (message, task) }
            }
        case .response: runInBackground { await self.post(message) }
        case .batch:
            let greeting = state.withLock { $0.greeting }
            runInBackground {
                await self.wait(for: greeting)
                await self.postBatch(message)
            }
        }
    }

    /// Ends what is under way and the session. Requests that are about to be answered may take a moment longer.
    /// - Parameter grace: How long to wait for them; default: not at all.
    public func close(within grace: Duration = .zero) async {
        let running = state.withLock { Array($0.running.values) + Array($0.others.values) }
        if grace > .zero, !running.isEmpty {
            let watch = Task {
                try await clock.sleep(for: grace)
                for task in running { task.cancel() }
            }
            for task in running { await task.value }
            watch.cancel()
        }
        let (left, session) = state.withLock { state in
            state.isClosed = true
            state.repair?.task.cancel()
            let tasks = Array(state.running.values) + Array(state.others.values) + [state.listener].compactMap { $0 }
            return (tasks, state.session)
        }
        for task in left { task.cancel() }
        // T25: clients "SHOULD send an HTTP DELETE to the MCP endpoint with the Mcp-Session-Id header".
        guard session.id != nil else { return }
        // In a task of its own, because this one may have been cancelled.
        let farewell = Task { [endpoint] in
            _ = try? await endpoint.send(.delete, session.fields, signsIn: false, timeout: .seconds(2))
        }
        let watch = Task { [clock] in
            try? await clock.sleep(for: .seconds(2))
            farewell.cancel()
        }
        await farewell.value
        watch.cancel()
    }

    private func beginSession(with initialize: MCPMessage) {
        let listener = state.withLock { state in
            defer { (state.listener, state.greeting) = (nil, nil) }
            let number = state.session.number
            state.session = MCPSession(initialize: initialize, number: number)
            return state.listener
        }
        listener?.cancel()
    }

    private func run(_ message: MCPMessage, _ id: JSON) {
        let key = Self.key(id)
        state.withLock { state in
            guard !state.isClosed else { return }
            let greeting = message.version == nil ? state.greeting : nil
            state.running[key] = Task {
                await self.wait(for: greeting)
                let response = await self.exchange(message, id)
                // What the host has cancelled is not answered any more.
                if let response, !Task.isCancelled { self.write(response.bytes) }
                self.state.withLock { $0.running[key] = nil }
            }
        }
    }

    /// Waits until a notification has been delivered, but not for ever: a server may keep it waiting.
    private func wait(for greeting: Task<Void, Never>?) async {
        guard let greeting else { return }
        let (delivered, end) = AsyncStream<Void>.makeStream()
        let waits = [
            Task {
                await greeting.value
                end.finish()
            },
            Task {
                try? await clock.sleep(for: Self.longestGreeting)
                end.finish()
            },
        ]
        for await _ in delivered {}
        for wait in waits { wait.cancel() }
    }

    /// The longest wait for the delivery of `notifications/initialized`.
    private static let longestGreeting = Duration.seconds(10)

    @discardableResult private func runInBackground(_ work: @escaping @Sendable () async -> Void) -> Task<Void, Never>?
    {
        state.withLock { state in
            guard !state.isClosed else { return nil }
            state.lastOther += 1
            let number = state.lastOther
            let task = Task {
                await work()
                self.state.withLock { $0.others[number] = nil }
            }
            state.others[number] = task
            return task
        }
    }

    /// Ends a request that the host has cancelled.
    ///
    /// From 2026-07-28 on, closing the stream of its response is the cancellation. Older servers are told, and closing it alone is
    /// none.
    /// - Returns: Whether that is all.
    private func cancel(_ message: MCPMessage) -> Bool {
        let task = message.json["params"]?["requestId"].flatMap { id in state.withLock { $0.running[Self.key(id)] } }
        guard state.withLock({ $0.session.initialize == nil }) else {
            runInBackground {
                await self.post(message)
                task?.cancel()
            }
            return true
        }
        task?.cancel()
        return true
    }

    private static func key(_ id: JSON) -> String {
        "\((try? id.serialized()).map { String(decoding: $0, as: UTF8.self) } ?? "")"
    }

    private func send(_ json: JSON) { if let message = MCPMessage(json) { write(message.bytes) } }

    // MARK: One request

    /// Sends a request and everything that comes before its response to the host.
    /// - Returns: The response; nil when there is none to give.
    private func exchange(_ message: MCPMessage, _ id: JSON) async -> MCPMessage? {
        do {
            var response = try await attempt(message, id)
            // MCP 2026-07-28, "Custom Headers": the server lists the tools anew, and the call is sent once more.
            if response?.errorCode == -32020, message.method == "tools/call", message.version != nil,
                await listTools(for: message)
            {
                response = try await attempt(message, id)
            }
            return response
        } catch is CancellationError where Task.isCancelled {
            return nil
        } catch {
            return failure(of: id, error)
        }
    }

    private func failure(of id: JSON, _ error: any Error) -> MCPMessage? {
        let known = error as? AuthError
        let text =
            known.map(options.explain)
            ?? (error is CancellationError ? "The sign-in was cancelled." : "The request has failed.")
        options.log(text)
        return .failure(of: id, text, status: known?.status, cause: known?.code.rawValue ?? "unknown")
    }

    private func attempt(_ message: MCPMessage, _ id: JSON, repairs: Bool = true) async throws -> MCPMessage? {
        let session = state.withLock { $0.session }
        let isSessionRequest = message.version == nil && message.method != "initialize"
        let response: ResponseStream
        do {
            var repair: (@Sendable () async -> Bool)?
            if isSessionRequest, session.id != nil, repairs { repair = { await self.repair(session.number) } }
            response = try await endpoint.send(
                .post,
                fields(of: message, session),
                body: message.bytes,
                repair: repair
            )
        } catch is MCPEndpoint.SessionRepaired {
            return try await attempt(message, id, repairs: false)
        }
        if message.method == "initialize" {
            guard let answer = try await read(response, for: message, id, session) else { return nil }
            if answer.json["result"] != nil { state.withLock { $0.session.begin(response.head, answer) } }
            if [404, 405].contains(response.head.status.code), answer.json["result"] == nil {
                options.log("A server of the transport HTTP+SSE, before revision 2025-03-26, is not spoken to.")
            }
            return answer
        }
        // T25: 404 to a request with a session id: the client "MUST start a new session".
        if response.head.status.code == 404, isSessionRequest, session.id != nil, repairs {
            let body = try await collect(response.body)
            if let answer = MCPMessage(body), answer.errorCode == -32601 { return answered(answer, message, id) }
            guard await repair(session.number) else {
                return .failure(
                    of: id,
                    "The server has ended the session, and a new one could not be begun.",
                    status: 404,
                    cause: "session_lost"
                )
            }
            return try await attempt(message, id, repairs: false)
        }
        return try await read(response, for: message, id, session)
    }

    private func fields(of message: MCPMessage, _ session: MCPSession) -> HTTPFields {
        // Both types MUST be listed, whichever the server will choose.
        var fields: HTTPFields = [.contentType: "application/json", .accept: "application/json, text/event-stream"]
        let more =
            if let version = message.version {
                MirroredHeaders.fields(of: message, version: version, tools: state.withLock { $0.tools.parameters })
            } else if message.method == "initialize" {
                HTTPFields()
            } else {
                session.fields
            }
        for field in more { fields[field.name] = field.value }
        return fields
    }

    // MARK: Responses

    /// Reads the response to a request, and passes on what comes before it.
    private func read(
        _ response: ResponseStream,
        for message: MCPMessage,
        _ id: JSON,
        _ session: MCPSession
    ) async throws -> MCPMessage? {
        let status = response.head.status.code
        if status == 200, Self.isEventStream(response.head) {
            return try await readStream(response, for: message, id, session)
        }
        let body = try await collect(response.body)
        if let answer = MCPMessage(body), answer.answers(id) { return answered(answer, message, id) }
        if status == 202 || status == 204 {
            return .failure(
                of: id,
                "The server has accepted the request and answers it nowhere.",
                status: status,
                cause: "no_response"
            )
        }
        let words = TransportResponse(head: response.head, body: body).providerError.map { " (\($0))" } ?? ""
        return .failure(
            of: id,
            status == 200
                ? "The server's response is not a JSON-RPC message."
                : "The server responded with status \(status)\(words).",
            status: status,
            cause: status == 200 ? "invalid_response" : "http_status"
        )
    }

    private func collect(_ body: ResponseBody) async throws -> [UInt8] {
        let watch = SilenceWatch(body, limit: options.silence, clock: clock)
        defer { watch.end() }
        var bytes: [UInt8] = []
        for try await part in body {
            watch.hear()
            bytes += part
            guard bytes.count <= MCPMessage.maximumSize else {
                throw AuthError(
                    .invalidResponse,
                    "The server's response has more than \(MCPMessage.maximumSize >> 20) MiB."
                )
            }
        }
        return bytes
    }

    /// The response to a request as the host has to see it.
    private func answered(_ answer: MCPMessage, _ message: MCPMessage, _ id: JSON) -> MCPMessage {
        var answer = answer
        // Some servers do not say which request an error is for. The host would wait for ever.
        if answer.json["error"] != nil, answer.json["id"] == nil || answer.json["id"] == .null {
            answer = answer.replacingID(by: id) ?? answer
        }
        guard message.method == "tools/list", message.version != nil else { return answer }
        let (response, removed) = state.withLock { $0.tools.read(answer) }
        for name in removed {
            options.log(
                "The tool \"\(DisplayText.sanitized(name, limit: 100))\" is left out: its x-mcp-header annotations are not allowed."
            )
        }
        return response
    }

    /// Reads an event stream up to the response to a request, and resumes it where the revision allows that.
    private func readStream(
        _ first: ResponseStream,
        for message: MCPMessage,
        _ id: JSON,
        _ session: MCPSession
    ) async throws -> MCPMessage? {
        var stream = first
        var lastEventID: String?
        var retry = Duration.seconds(1)
        var failures = 0
        while true {
            var reader = ServerSentEventReader()
            var hasEvents = false
            var broken: (any Error)?
            do {
                let watch = SilenceWatch(stream.body, limit: options.silence, clock: clock)
                defer { watch.end() }
                for try await part in stream.body {
                    watch.hear()
                    for event in try reader.read(part) where event.type == "message" {
                        hasEvents = true
                        guard let received = MCPMessage(event.data) else { continue }
                        if received.answers(id) { return answered(received, message, id) }
                        write(received.bytes)
                    }
                }
            } catch let error as AuthError where error.code != .invalidResponse && error.code != .timedOut {
                broken = error
            }
            try Task.checkCancellation()
            // A server that is polled says so with a new id alone.
            if let id = reader.lastEventID, id != lastEventID {
                lastEventID = id
                hasEvents = true
            }
            retry = reader.retry ?? retry
            failures = hasEvents ? 0 : failures + 1
            // From 2026-07-28 on a broken stream loses the request, and a call that was sent is never repeated by the bridge.
            guard message.version == nil, let lastEventID, failures < Self.maximumFailures else {
                throw broken
                    ?? AuthError(
                        .networkFailed,
                        "The server ended the stream before its response. The request may have been carried out."
                    )
            }
            guard let resumed = try await resume(after: lastEventID, in: retry, session, &failures) else {
                throw AuthError(
                    .networkFailed,
                    "The stream broke off before the response, and the server does not resume it."
                )
            }
            stream = resumed
        }
    }

    /// The most attempts to go on with a stream that bring nothing new.
    private static let maximumFailures = 5

    /// T25, "Resumability and Redelivery": a GET with the last event's id, after the time that the server asked for.
    private func resume(
        after id: String,
        in wait: Duration,
        _ session: MCPSession,
        _ failures: inout Int
    ) async throws -> ResponseStream? {
        var fields = session.fields
        fields[.accept] = "text/event-stream"
        fields[MirroredHeaders.lastEventID] = id
        var wait = wait
        while true {
            try await clock.sleep(for: wait)
            do {
                let response = try await endpoint.send(.get, fields)
                let status = response.head.status.code
                if status == 200, Self.isEventStream(response.head) { return response }
                guard Self.isPassing(status), failures < Self.maximumFailures else { return nil }
                failures += 1
                wait = max(wait, .seconds(1)) * 2
            } catch let error as AuthError where Self.isPassing(error) && failures < Self.maximumFailures {
                failures += 1
                wait = max(wait, .seconds(1)) * 2
            }
        }
    }

    private static func isPassing(_ error: AuthError) -> Bool {
        [.networkFailed, .timedOut, .temporarilyUnavailable].contains(error.code)
    }

    private static func isPassing(_ status: Int) -> Bool { status == 429 || status >= 500 }

    private static func isEventStream(_ head: HTTPResponse) -> Bool {
        let type = (head.headerFields[.contentType] ?? "").prefix { $0 != ";" }
        return type.lowercased().trimmingSpaces() == "text/event-stream"
    }

    // MARK: Notifications, and the server's own messages

    /// Delivers a notification or a response of the host's.
    private func post(_ message: MCPMessage) async {
        do {
            let status = try await deliver(message)
            if status >= 400 {
                options.log("The server responded with status \(status) to \(message.method ?? "a response").")
            }
        } catch {
            if !(error is CancellationError) {
                options.log((error as? AuthError).map(options.explain) ?? "A message was not delivered.")
            }
        }
        if message.method == "notifications/initialized" { listen() }
    }

    /// - Returns: The status of the server's response, whose body says nothing.
    private func deliver(_ message: MCPMessage) async throws -> Int {
        let session = state.withLock { $0.session }
        let response = try await endpoint.send(.post, fields(of: message, session), body: message.bytes)
        let status = response.head.status.code
        guard status == 404, session.id != nil, await repair(session.number) else { return status }
        // The new session has had the host's greeting.
        guard message.method != "notifications/initialized" else { return 202 }
        let repaired = state.withLock { $0.session }
        return try await endpoint.send(.post, fields(of: message, repaired), body: message.bytes).head.status.code
    }

    /// Sends several messages at once, which revision 2025-03-26 alone has, and passes their responses on as they come.
    private func postBatch(_ batch: MCPMessage) async {
        var open = (batch.json.array ?? []).filter { $0["method"] != nil }.compactMap { $0["id"] }
        func pass(_ bytes: [UInt8]) {
            guard let message = MCPMessage(bytes) else { return }
            guard case .response(.null) = message.kind else {
                open.removeAll { message.answers($0) }
                return write(message.bytes)
            }
            // An error about all of it: each request is told.
            for id in open { if let failure = message.replacingID(by: id) { write(failure.bytes) } }
            open = []
        }
        do {
            let session = state.withLock { $0.session }
            var response = try await endpoint.send(.post, fields(of: batch, session), body: batch.bytes)
            if response.head.status.code == 404, session.id != nil, await repair(session.number) {
                let repaired = state.withLock { $0.session }
                response = try await endpoint.send(.post, fields(of: batch, repaired), body: batch.bytes)
            }
            let watch = SilenceWatch(response.body, limit: options.silence, clock: clock)
            defer { watch.end() }
            if Self.isEventStream(response.head) {
                var reader = ServerSentEventReader()
                for try await part in response.body {
                    watch.hear()
                    for event in try reader.read(part) where event.type == "message" { pass(event.data) }
                }
            } else {
                pass(try await collect(response.body))
            }
            for id in open {
                let status = response.head.status.code
                let text = "The server responded with status \(status) and not to this request."
                if let failure = MCPMessage.failure(of: id, text, status: status, cause: "no_response") {
                    write(failure.bytes)
                }
            }
        } catch {
            if error is CancellationError, Task.isCancelled { return }
            for id in open { if let failure = failure(of: id, error) { write(failure.bytes) } }
        }
    }

    /// Listens to what the server says by itself, where it offers that: up to 2025-11-25, by a GET.
    private func listen() {
        state.withLock { state in
            guard !state.isClosed, state.session.initialize != nil else { return }
            let session = state.session
            state.listener?.cancel()
            state.listener = Task { await self.listen(in: session) }
        }
    }

    private func listen(in session: MCPSession) async {
        var lastEventID: String?
        var wait = Duration.seconds(1)
        while !Task.isCancelled {
            var fields = session.fields
            fields[.accept] = "text/event-stream"
            fields[MirroredHeaders.lastEventID] = lastEventID
            do {
                let response = try await endpoint.send(.get, fields, signsIn: false, timeout: .seconds(86_400))
                let status = response.head.status.code
                guard status == 200 && Self.isEventStream(response.head) || Self.isPassing(status) else { return }
                var reader = ServerSentEventReader()
                for try await part in response.body where status == 200 {
                    for event in try reader.read(part) where event.type == "message" {
                        if let message = MCPMessage(event.data) { write(message.bytes) }
                        wait = .seconds(1)
                    }
                    lastEventID = reader.lastEventID ?? lastEventID
                }
                wait = max(wait, reader.retry ?? .zero)
            } catch let error as AuthError
                where Self.isPassing(error)
            {
                // The server may be starting again.
            } catch {
                return
            }
            guard (try? await clock.sleep(for: wait)) != nil else { return }
            wait = min(wait * 2, .seconds(60))
        }
    }

    // MARK: Requests of the bridge's own

    /// Begins a new session in the place of one that the server has lost: once, however many requests notice it.
    /// - Parameter number: The session that was lost.
    private func repair(_ number: Int) async -> Bool {
        let task = state.withLock { state -> Task<Bool, Never>? in
            // Another request has done it already.
            guard state.session.number == number else { return nil }
            if let repair = state.repair, repair.number == number { return repair.task }
            let task = Task { await self.initializeAgain() }
            state.repair = (number, task)
            return task
        }
        guard let task else { return true }
        let isRepaired = await task.value
        // A server that is still starting may take a session later.
        if !isRepaired { state.withLock { if $0.repair?.number == number { $0.repair = nil } } }
        return isRepaired
    }

    private func initializeAgain() async -> Bool {
        let (session, id) = state.withLock { state in (state.session, Self.ownID(&state)) }
        guard let initialize = session.initialize?.replacingID(by: id) else { return false }
        do {
            let response = try await endpoint.send(.post, fields(of: initialize, MCPSession()), body: initialize.bytes)
            guard let answer = try await read(response, for: initialize, id, MCPSession()),
                // The host goes on with the revision that it knows.
                answer.json["result"]?["protocolVersion"]?.string == session.version
            else { return false }
            var begun = session
            begun.begin(response.head, answer)
            if let initialized = session.initialized {
                let greeted = try await endpoint.send(.post, fields(of: initialized, begun), body: initialized.bytes)
                // A server that forgets its sessions at once is not asked for one after another.
                guard greeted.head.status.code < 400 else { return false }
            }
            state.withLock { [begun] in $0.session = begun }
            if session.initialized != nil { listen() }
            options.log("The server had ended the session; a new one was begun.")
            return true
        } catch {
            return false
        }
    }

    /// Lists the tools for the annotations that a call was refused for.
    private func listTools(for call: MCPMessage) async -> Bool {
        var cursor: JSON?
        for _ in 0..<20 {
            let id = state.withLock { Self.ownID(&$0) }
            var params: [String: JSON] = ["_meta": call.json["params"]?["_meta"] ?? [:]]
            params["cursor"] = cursor
            guard
                let list = MCPMessage(["jsonrpc": "2.0", "id": id, "method": "tools/list", "params": .object(params)]),
                let answer = try? await attempt(list, id), answer.json["result"] != nil
            else { return false }
            cursor = answer.json["result"]?["nextCursor"]
            if cursor == nil || cursor == .null { return true }
        }
        return true
    }

    private static func ownID(_ state: inout State) -> JSON {
        state.ownRequests += 1
        return .string("authflow-\(state.ownRequests)")
    }
}

/// Ends a body that nothing is heard of for too long.
private final class SilenceWatch: Sendable {
    private let task: Task<Void, Never>
    private let counter = Counter()

    /// How often it looks within the limit, so that a silence is noticed soon after.
    private static let looks = 4

    init(_ body: ResponseBody, limit: Duration, clock: any Clock<Duration>) {
        task = Task { [counter] in
            var (last, silent) = (counter.value, 0)
            while (try? await clock.sleep(for: limit / Self.looks)) != nil {
                silent = counter.value == last ? silent + 1 : 0
                last = counter.value
                guard silent >= Self.looks else { continue }
                let seconds = Int(limit.components.seconds)
                return body.cancel(
                    throwing: AuthError(.timedOut, "The server's stream was silent for \(seconds) seconds.")
                )
            }
        }
    }

    /// Counts the parts.
    private final class Counter: Sendable {
        private let count = Atomic(0)
        var value: Int { count.load(ordering: .relaxed) }
        func add() { count.add(1, ordering: .relaxed) }
    }

    func hear() { counter.add() }
    func end() { task.cancel() }
}
