import AuthFlow
import Synchronization

// Notifications and responses from the host, batches, and the replacement of sessions that the server has lost.

extension MCPBridge {
    /// Delivers a notification, a response or a batch of them from the host.
    func post(_ message: MCPMessage) async {
        do {
            // The response to an accepted message has no meaningful body.
            let response = try await sendInSession(message, timeout: Self.deliveryTimeout, pool: .replies)
            let status = response.head.status.code
            if status >= 400 {
                let name = message.method ?? (message.kind == .batch ? "a batch" : "a response")
                options.log("The server responded with status \(status) to \(name).")
            }
        } catch {
            if !(error is CancellationError) {
                options.log((error as? AuthError).map(options.explain) ?? "A message was not delivered.")
            }
        }
        if message.method == "notifications/initialized" { listen() }
    }

    /// The timeout for the delivery of a message that needs no response. It is short, because later requests wait for
    /// the delivery of `notifications/initialized`.
    private static let deliveryTimeout = Duration.seconds(30)

    /// Sends a message that is not a single request, and retries it in a new session if the server has lost the old one.
    private func sendInSession(
        _ message: MCPMessage,
        timeout: Duration? = nil,
        pool: ConnectionPool = .resources
    ) async throws -> ResponseStream {
        // A session that replaces this session also needs the notification.
        let session = state.withLock { state in
            if message.method == "notifications/initialized" { state.session.initialized = message }
            return state.session
        }
        var replace: (@Sendable () async -> Bool)?
        if session.id != nil { replace = { await self.replaceSession(session.number) } }
        let response: ResponseStream
        do {
            response = try await endpoint.send(
                .post,
                fields(of: message, session),
                body: message.bytes,
                timeout: timeout,
                pool: pool,
                replaceSession: replace
            )
        } catch is MCPEndpoint.SessionReplaced {
            return try await sendInReplacement(of: session, message, timeout: timeout, pool: pool)
        }
        listenAfterRejection()
        let status = response.head.status.code
        guard [400, 404].contains(status), session.id != nil else { return response }
        var whole = response
        if status == 400 {
            let ids = (message.json.array ?? []).compactMap { $0["id"] }
            let bytes = ids.isEmpty ? await endpoint.errorBody(of: response) : try await collect(response.body)
            try Task.checkCancellation()
            whole = ResponseStream(head: response.head, body: ResponseBody(bytes))
            // The server has executed the requests to which it has responded, so the batch must not be sent again.
            let isAnswer =
                MCPMessage(bytes)?.answeredIDs.contains { answered in
                    ids.contains { MCPMessage.areEqual($0, answered) }
                } ?? false
            guard !isAnswer, Self.isLostSession(status, bytes) else { return whole }
        }
        guard await replaceSession(session.number) else { return whole }
        return try await sendInReplacement(of: session, message, timeout: timeout, pool: pool)
    }

    /// Sends a message in the session that has replaced a lost session.
    private func sendInReplacement(
        of session: MCPSession,
        _ message: MCPMessage,
        timeout: Duration?,
        pool: ConnectionPool
    ) async throws -> ResponseStream {
        let replacement = state.withLock { $0.session }
        if message.method == "notifications/initialized" {
            // A session that was begun after the host's notification has already received it, and a session that the host itself has started
            // has its own.
            guard replacement.initialized == nil, replacement.initialization == session.initialization else {
                return ResponseStream(head: HTTPResponse(status: .accepted), body: ResponseBody([]))
            }
            state.withLock { if $0.session.number == replacement.number { $0.session.initialized = message } }
        }
        return try await endpoint.send(
            .post,
            fields(of: message, replacement),
            body: message.bytes,
            timeout: timeout,
            pool: pool
        )
    }

    /// Sends a batch with requests, which only revision 2025-03-26 supports, and passes the responses to the host as they arrive.
    func postBatch(_ batch: MCPMessage) async {
        var open = batch.requestIDs
        func pass(_ message: MCPMessage) async {
            guard case .response(.null) = message.kind else {
                // The host must receive exactly one response to each request.
                guard let (message, answered) = message.responding(to: open) else {
                    return options.log(
                        "The server sent a duplicate response, or a response to an unknown request; it was dropped."
                    )
                }
                open.removeAll { answered.contains($0) }
                return await write(message.bytes)
            }
            // The error applies to the entire batch, so it is returned for each request.
            for id in open { if let failure = message.replacingID(by: id) { await write(failure.bytes) } }
            open = []
        }
        do {
            let response = try await sendInSession(batch)
            if Self.isEventStream(response.head) {
                var reader = ServerSentEventReader()
                _ = try await readMessages(of: response.body, &reader, idleTimeout: options.idleTimeout) { message in
                    await pass(message)
                    return open.isEmpty
                }
            } else if let message = MCPMessage(try await collect(response.body)) {
                await pass(message)
            }
            for id in open {
                let status = response.head.status.code
                let text = "The server responded with status \(status), but without a response to this request."
                if let failure = MCPMessage.failure(of: id, text, status: status, cause: "no_response") {
                    await write(failure.bytes)
                }
            }
        } catch {
            if error is CancellationError, Task.isCancelled { return }
            for id in open { if let failure = failure(of: id, error) { await write(failure.bytes) } }
        }
    }

    // MARK: Requests that the bridge initiates

    /// Starts a new session to replace a session that the server has lost. Only one new session is started, however
    /// many requests detect the loss.
    /// - Parameters:
    ///   - number: The number of the lost session.
    ///   - signsIn: Whether the user may be asked to sign in.
    func replaceSession(_ number: Int, signsIn: Bool = true) async -> Bool {
        let attempt = state.withLock { state -> (task: Task<Bool, Never>, signsIn: Bool)? in
            // Another request has already replaced the session.
            guard state.session.number == number else { return nil }
            if let replacement = state.sessionReplacement, replacement.number == number {
                return (replacement.task, replacement.signsIn)
            }
            let task = Task { [clock] in
                // A server that sends only SSE comments would block every request.
                let isReplaced = try? await withDeadline(.seconds(60), clock: clock) {
                    AuthError(.timedOut, "The server did not start a new session.")
                } _: {
                    await self.initializeAgain(signsIn: signsIn)
                }
                return isReplaced ?? false
            }
            state.sessionReplacement = (number, signsIn, task)
            return (task, signsIn)
        }
        guard let attempt else { return true }
        let task = attempt.task
        let isReplaced = await task.value
        // A server that is still starting may accept a session later, so the next request starts another attempt. A request that also waited for
        // this attempt may already have started it.
        if !isReplaced { state.withLock { if $0.sessionReplacement?.task == task { $0.sessionReplacement = nil } } }
        // The server may have required a sign-in that the attempt of the listening stream could not start.
        if !isReplaced, signsIn, !attempt.signsIn { return await replaceSession(number) }
        return isReplaced
    }

    /// - Parameter signsIn: Whether the user may be asked to sign in.
    private func initializeAgain(signsIn: Bool) async -> Bool {
        let (session, id) = state.withLock { state in (state.session, Self.ownID(&state)) }
        guard let initialize = session.initialize?.replacingID(by: id) else { return false }
        var opened = MCPSession()
        do {
            let response = try await endpoint.send(
                .post,
                fields(of: initialize, opened),
                body: initialize.bytes,
                signsIn: signsIn
            )
            opened.begin(response.head)
            guard let answer = try await read(response, for: initialize, id, opened, signsIn: signsIn),
                // The host continues with the revision that it has negotiated.
                answer.json["result"]?["protocolVersion"]?.string == session.version
            else {
                await end(opened)
                return false
            }
            var begun = session
            begun.begin(response.head, answer)
            if let initialized = session.initialized {
                let initializedResponse = try await endpoint.send(
                    .post,
                    fields(of: initialized, begun),
                    body: initialized.bytes,
                    signsIn: signsIn
                )
                // If the server immediately loses the new session, no further session is requested.
                let status = initializedResponse.head.status.code
                guard status < 400 else {
                    if status != 404 { await end(begun) }
                    return false
                }
            }
            // The host may have sent another `initialize` in the meantime; its session is then the current session.
            let isCurrent = state.withLock { [begun] state in
                guard !state.isClosed, state.session.initialization == session.initialization,
                    state.session.number == session.number
                else { return false }
                state.session = begun
                return true
            }
            guard isCurrent else {
                if state.withLock({ $0.session.id }) != begun.id { await end(begun) }
                return true
            }
            if session.initialized != nil { listen() }
            options.log("The server ended the session; a new session was started.")
            return true
        } catch {
            await end(opened)
            return false
        }
    }

    /// Lists the tools again, to update outdated annotations that caused the rejection of a call.
    func listTools(for call: MCPMessage) async -> Bool {
        let isListed = try? await withDeadline(options.idleTimeout, clock: clock) {
            AuthError(.timedOut, "The tools were not listed in time.")
        } _: { [self] in
            await listAllTools(for: call)
        }
        return isListed ?? false
    }

    private func listAllTools(for call: MCPMessage) async -> Bool {
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

extension ConnectionPool {
    /// The connections for the host's responses and notifications, and for the listening stream. They must not queue
    /// behind calls that depend on them.
    static let replies = Self(rawValue: "mcp_replies")
}
