import AuthFlow
import Synchronization

// A request from the host, and its response.

extension MCPBridge {
    /// Sends a request to the server, and passes to the host all messages that precede the response.
    /// - Parameter initialization: The number of the host's `initialize`; nil for any other request.
    /// - Returns: The response; nil when the request was cancelled.
    func exchange(_ message: MCPMessage, _ id: JSON, initialization: Int? = nil) async -> MCPMessage? {
        do {
            var response = try await attempt(message, id, initialization: initialization)
            // MCP 2026-07-28, "Custom Headers": after a header mismatch (-32020), list the tools again, and retry the call once.
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

    func failure(of id: JSON, _ error: any Error) -> MCPMessage? {
        let known = error as? AuthError
        let text =
            known.map(options.explain)
            ?? (error is CancellationError ? "The sign-in was cancelled." : "The request failed.")
        options.log(text)
        return .failure(of: id, text, status: known?.status, cause: known?.code.rawValue ?? "unknown")
    }

    func attempt(
        _ message: MCPMessage,
        _ id: JSON,
        initialization: Int? = nil,
        mayReplaceSession: Bool = true
    ) async throws -> MCPMessage? {
        let session = state.withLock { $0.session }
        let isSessionRequest = message.version == nil && message.method != "initialize"
        let response: ResponseStream
        do {
            var replaceSession: (@Sendable () async -> Bool)?
            if isSessionRequest, session.id != nil, mayReplaceSession {
                replaceSession = { await self.replaceSession(session.number) }
            }
            response = try await endpoint.send(
                .post,
                fields(of: message, session),
                body: message.bytes,
                replaceSession: replaceSession
            )
        } catch is MCPEndpoint.SessionReplaced {
            return try await attempt(message, id, mayReplaceSession: false)
        }
        listenAfterRejection()
        if message.method == "initialize" {
            var begun = session
            begun.begin(response.head)
            let answer: MCPMessage
            do {
                guard let received = try await read(response, for: message, id, begun) else { return nil }
                answer = received
            } catch {
                await end(begun)
                throw error
            }
            // The host may have sent another `initialize` in the meantime, whose session a late response to this one must not replace.
            let isUsed = state.withLock { state in
                guard answer.json["result"] != nil, state.session.initialization == initialization else { return false }
                state.session.begin(response.head, answer)
                return true
            }
            // The host does not use the session.
            if !isUsed, state.withLock({ $0.session.id }) != begun.id { await end(begun) }
            if [404, 405].contains(response.head.status.code), answer.json["result"] == nil {
                options.log("Servers that use the HTTP+SSE transport (before revision 2025-03-26) are not supported.")
            }
            return answer
        }
        // MCP 2025-11-25, "Session Management": after a 404 response to a request with a session ID, the client "MUST
        // start a new session".
        let status = response.head.status.code
        if [400, 404].contains(status), isSessionRequest, session.id != nil, mayReplaceSession {
            let body = try await collect(response.body)
            let answer = MCPMessage(body)
            let isOwnAnswer = status == 400 && answer.map { $0.answeredIDs != [.null] && $0.answers(id) } ?? false
            if !isOwnAnswer, let answer, answer.errorCode == -32601 {
                // Some servers use an ID of their own for errors.
                return answered(answer.answers(id) ? answer : answer.replacingID(by: id) ?? answer, message, id)
            }
            let isReplaced =
                !isOwnAnswer && Self.isLostSession(status, body) ? await replaceSession(session.number) : false
            guard isReplaced else {
                if status == 400 {
                    let whole = ResponseStream(head: response.head, body: ResponseBody(body))
                    return try await read(whole, for: message, id, session)
                }
                return .failure(
                    of: id,
                    "The server ended the session, and a new session could not be started.",
                    status: 404,
                    cause: "session_lost"
                )
            }
            return try await attempt(message, id, mayReplaceSession: false)
        }
        return try await read(response, for: message, id, session)
    }

    /// Whether a response indicates that the server has lost the session. Some servers respond with 400 and a message about an unknown or
    /// ended session, or an uninitialized server.
    static func isLostSession(_ status: Int, _ body: [UInt8]) -> Bool {
        guard status == 400 else { return status == 404 }
        let text = String(decoding: body.prefix(4096), as: UTF8.self).lowercased()
        // Some servers reject a second listening stream with "session already exists".
        guard !text.contains("already exists") else { return false }
        let phrases = ["session id", "session-id", "sessionid", "server not initialized", "server is not initialized"]
        if phrases.contains(where: { text.contains($0) }) { return true }
        let words = Set(text.split { !$0.isLetter && $0 != "_" }.map(String.init))
        let causes: Set = [
            "valid", "invalid", "missing", "unknown", "found", "find", "exist", "exists", "expired", "terminated",
            "closed", "ended",
        ]
        return words.contains("session") && !words.isDisjoint(with: causes)
    }

    func fields(of message: MCPMessage, _ session: MCPSession) -> HTTPFields {
        // The client MUST list both media types, whichever one the server chooses.
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

    /// Reads the response to a request, and passes the messages that precede it to the host.
    /// - Parameter signsIn: Whether the user may be asked to sign in to resume an interrupted stream.
    func read(
        _ response: ResponseStream,
        for message: MCPMessage,
        _ id: JSON,
        _ session: MCPSession,
        signsIn: Bool = true
    ) async throws -> MCPMessage? {
        let status = response.head.status.code
        if status == 200, Self.isEventStream(response.head) {
            return try await readStream(response, for: message, id, session, signsIn: signsIn)
        }
        let body = try await collect(response.body)
        if let answer = MCPMessage(body), answer.answers(id) { return answered(answer, message, id) }
        if status == 202 || status == 204 {
            return .failure(
                of: id,
                "The server accepted the request but sent no response to it.",
                status: status,
                cause: "no_response"
            )
        }
        let error = await endpoint.client.providerError(in: TransportResponse(head: response.head, body: body))
        let words = error.map { " (\($0))" } ?? ""
        return .failure(
            of: id,
            status == 200
                ? Self.fault(of: body)
                : "The server responded with status \(status)\(words).",
            status: status,
            cause: status == 200 ? "invalid_response" : "http_status"
        )
    }

    static func fault(of body: [UInt8]) -> String {
        do throws(JSONError) {
            let text = ReadableJSON.bytes(MCPMessage.withoutByteOrderMark(body))
            _ = try JSON(parsing: text, limits: MCPMessage.limits)
        } catch {
            return "The server's response cannot be read as JSON: \(error)."
        }
        guard let message = MCPMessage(body) else {
            return "The server's response is JSON, but not a valid JSON-RPC message."
        }
        if case .response = message.kind {
            return "The server responded to a different request: the \"id\" of its response differs."
        }
        return "The server sent a request, a notification or a batch instead of a response."
    }

    /// The complete body of a response, with the token redacted.
    func collect(_ body: ResponseBody) async throws -> [UInt8] {
        let watch = IdleTimeout(body, limit: options.idleTimeout, clock: clock)
        defer { watch.end() }
        var bytes: [UInt8] = []
        for try await part in body {
            watch.recordActivity()
            bytes += part
            guard bytes.count <= MCPMessage.maximumSize else {
                throw AuthError(
                    .invalidResponse,
                    "The server's response exceeds \(MCPMessage.maximumSize >> 20) MiB."
                )
            }
        }
        return endpoint.redacted(bytes)
    }

    /// The response to a request, adapted for the host.
    func answered(_ answer: MCPMessage, _ message: MCPMessage, _ id: JSON) -> MCPMessage {
        var answer = answer
        // Some servers omit the request's id from an error. Without the id, the host would wait forever.
        // Others send 5 as "5" or 5.0.
        if case .response(.null) = answer.kind {
            answer = answer.replacingID(by: id) ?? answer
        } else {
            answer = answer.responding(to: [id])?.message ?? answer
        }
        guard message.method == "tools/list", message.version != nil else { return answer }
        let (response, removed) = state.withLock { $0.tools.read(answer) }
        for name in removed {
            options.log(
                "The tool \"\(DisplayText.sanitized(name, limit: 100))\" is omitted: its x-mcp-header annotations are invalid, or it has such annotations and its name is too long."
            )
        }
        return response
    }
}
