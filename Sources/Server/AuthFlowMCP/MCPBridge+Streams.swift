import AuthFlow
import Synchronization

// Event streams: the responses to requests, and server-initiated messages.

extension MCPBridge {
    /// Reads the messages in an event stream until `isLast` returns true.
    /// - Parameters:
    ///   - body: The stream.
    ///   - reader: Stores the last event ID, and the reconnection time.
    ///   - idleTimeout: The idle timeout of the stream; nil for none.
    ///   - failsOnUnreadableResponse: Whether an unreadable response ends the stream with an error; otherwise, it is dropped.
    ///   - isLast: Receives a message; returns whether it is the last message to read.
    /// - Returns: Whether the last message arrived.
    func readMessages(
        of body: ResponseBody,
        _ reader: inout ServerSentEventReader,
        idleTimeout: Duration?,
        failsOnUnreadableResponse: Bool = false,
        _ isLast: (MCPMessage) async -> Bool
    ) async throws -> Bool {
        let watch = idleTimeout.map { IdleTimeout(body, limit: $0, clock: clock) }
        defer { watch?.end() }
        for try await part in body {
            watch?.recordActivity()
            // Messages that have already arrived are not passed to the host after a cancellation.
            try Task.checkCancellation()
            for event in try reader.read(part) where event.type == "message" {
                let data = endpoint.redacted(event.data)
                guard let message = MCPMessage(data) else {
                    let error = unreadable(data)
                    if let error, failsOnUnreadableResponse { throw error }
                    continue
                }
                watch?.pause()
                if await isLast(message) { return true }
                watch?.resume()
            }
        }
        return false
    }

    /// Reports an event that is not a valid message.
    /// - Returns: The error if the event appears to be a response. If a response were dropped, the host would wait for it until the timeout.
    private func unreadable(_ bytes: [UInt8]) -> AuthError? {
        guard bytes.contains(where: { $0 > 0x20 }) else { return nil }
        let reason = Self.fault(of: bytes)
        options.log("An event from the server was dropped. \(reason)")
        func contains(_ key: String) -> Bool { bytes.firstRange(of: Array("\"\(key)\"".utf8)) != nil }
        let isResponse = contains("result") || contains("error") && !contains("method")
        return isResponse ? AuthError(.invalidResponse, reason) : nil
    }

    /// Whether a message is a response to a different request, or to a request that already has a response. The host
    /// must receive exactly one response to each request.
    func dropsResponse(_ message: MCPMessage) -> Bool {
        // A batch that contains only requests and notifications from the server is passed to the host.
        guard !message.answeredIDs.isEmpty else { return false }
        options.log("The server sent an unexpected response on this stream; it was dropped.")
        return true
    }

    /// Reads an event stream up to the response to a request, and resumes an interrupted stream if the revision
    /// allows it.
    /// - Parameter signsIn: Whether the user may be asked to sign in to resume the stream.
    func readStream(
        _ first: ResponseStream,
        for message: MCPMessage,
        _ id: JSON,
        _ session: MCPSession,
        signsIn: Bool
    ) async throws -> MCPMessage? {
        var stream = first
        var lastEventID: String?
        var retry = Duration.seconds(1)
        var failures = 0
        while true {
            var reader = ServerSentEventReader()
            var answer: MCPMessage?
            var hasMessages = false
            var broken: (any Error)?
            do {
                _ = try await readMessages(
                    of: stream.body,
                    &reader,
                    idleTimeout: options.idleTimeout,
                    failsOnUnreadableResponse: true
                ) { received in
                    hasMessages = true
                    guard !received.answers(id) else {
                        answer = received
                        return true
                    }
                    guard !dropsResponse(received) else { return false }
                    await write(received.bytes)
                    return false
                }
            } catch let error as AuthError where error.code != .invalidResponse && error.code != .timedOut {
                broken = error
            }
            if let answer { return answered(answer, message, id) }
            try Task.checkCancellation()
            // A server that requires polling sends only a new event ID.
            let isFurther = reader.lastEventID != nil && reader.lastEventID != lastEventID
            lastEventID = reader.lastEventID ?? lastEventID
            retry = reader.retry ?? retry
            failures = hasMessages || isFurther ? 0 : failures + 1
            // Starting with revision 2026-07-28, the response is lost if the stream breaks, and the bridge never
            // retries a call that was sent.
            guard message.version == nil, let lastEventID, failures < Self.maximumFailures else {
                throw broken
                    ?? AuthError(
                        .networkFailed,
                        "The server ended the stream before it sent the response. The request may have been executed."
                    )
            }
            stream = try await resume(after: lastEventID, in: retry, session, signsIn: signsIn, &failures)
        }
    }

    /// The maximum number of consecutive attempts to resume a stream without receiving a new message.
    private static let maximumFailures = 5

    /// Resumes a stream with a GET request that contains the last event ID, after the server's reconnection time (MCP 2025-11-25,
    /// "Resumability and Redelivery").
    private func resume(
        after id: String,
        in wait: Duration,
        _ session: MCPSession,
        signsIn: Bool,
        _ failures: inout Int
    ) async throws -> ResponseStream {
        var fields = session.fields
        fields[.accept] = "text/event-stream"
        fields[MirroredHeaders.lastEventID] = id
        var wait = wait
        while true {
            // The reconnection time is limited to the idle timeout.
            try await clock.sleep(for: min(options.idleTimeout, wait))
            do {
                let response = try await endpoint.send(.get, fields, signsIn: signsIn)
                let status = response.head.status.code
                if status == 200, Self.isEventStream(response.head) { return response }
                guard Self.isTransient(status), failures < Self.maximumFailures else {
                    throw AuthError(
                        .invalidResponse,
                        "The stream was interrupted before the response arrived, and the server did not resume it.",
                        status: status
                    )
                }
            } catch let error as AuthError where Self.isTransient(error) && failures < Self.maximumFailures {
                // The server may be restarting.
            }
            failures += 1
            wait = max(wait, .seconds(1)) * 2
        }
    }

    private static func isTransient(_ error: AuthError) -> Bool {
        [.networkFailed, .timedOut, .temporarilyUnavailable].contains(error.code)
    }

    private static func isTransient(_ status: Int) -> Bool { status == 429 || status >= 500 }

    static func isEventStream(_ head: HTTPResponse) -> Bool {
        let type = (head.headerFields[.contentType] ?? "").prefix { $0 != ";" }
        return type.lowercased().trimmingSpaces() == "text/event-stream"
    }

    // MARK: Server-initiated messages

    /// Listens for server-initiated messages with a GET request, if the server offers them (up to revision 2025-11-25).
    func listen() {
        state.withLock { state in
            guard !state.isClosed, state.session.initialize != nil else { return }
            let session = state.session
            state.listener?.cancel()
            state.isListenerRejected = false
            state.session.lastEventID = nil
            state.listener = Task { await self.listen(in: session) }
        }
    }

    /// Listens again if the listening stream was rejected and the server has since accepted another token, such as the
    /// token of a new sign-in.
    func listenAfterRejection() {
        if endpoint.hasOtherToken, state.withLock({ $0.isListenerRejected }) { listen() }
    }

    /// Records that the listening stream was rejected, and listens again once the server accepts another token.
    /// - Parameter id: The ID of the event after which the next stream resumes; nil for none.
    private func rejectListener(of session: MCPSession, after id: String?) {
        state.withLock { state in
            guard state.session.number == session.number else { return }
            (state.isListenerRejected, state.session.lastEventID) = (true, id)
        }
        listenAfterRejection()
    }

    /// The maximum number of consecutive rejections of a stream that the server has offered before: with the delays between them, about five minutes.
    private static let maximumRejections = 10

    /// Whether a rejection of the listening stream indicates that the server has lost the session.
    /// - Throws: `CancellationError`.
    private func isLost(_ session: MCPSession, _ response: ResponseStream) async throws -> Bool {
        let status = response.head.status.code
        guard session.id != nil, status != 409 else { return false }
        let isLost = Self.isLostSession(status, await endpoint.errorBody(of: response))
        // The bridge may have been closed, or the host may have started another session.
        try Task.checkCancellation()
        return isLost
    }

    /// Waits before a session is replaced without a request from the host. A server that loses every session must not receive an `initialize` request
    /// every second, so the delay doubles with each session that is lost within a minute, up to a minute.
    /// - Parameter age: The time for which the bridge has listened in the session.
    /// - Throws: `CancellationError`.
    private func delayReplacement(of session: MCPSession, after age: Duration) async throws {
        let delay = age < .seconds(60) ? session.replacementDelay : .seconds(1)
        try await clock.sleep(for: delay)
        state.withLock { state in
            guard state.session.number == session.number else { return }
            // The new session inherits the value.
            state.session.replacementDelay = min(delay * 2, .seconds(60))
        }
    }

    private func listen(in session: MCPSession) async {
        var fields = session.fields
        fields[.accept] = "text/event-stream"
        fields[MirroredHeaders.lastEventID] = session.lastEventID
        var backoff = Duration.seconds(1)
        var retry = Duration.zero
        var wasOpen = session.lastEventID != nil
        var rejections = 0
        let age = clock.stopwatch()
        while !Task.isCancelled {
            var reader = ServerSentEventReader()
            var isOpen = false
            var elapsed = clock.stopwatch()
            defer { if let id = reader.lastEventID { fields[MirroredHeaders.lastEventID] = id } }
            do {
                let response = try await endpoint.send(
                    .get,
                    fields,
                    signsIn: false,
                    timeout: .seconds(86_400),
                    pool: .replies
                )
                let status = response.head.status.code
                if status == 200, Self.isEventStream(response.head) {
                    isOpen = true
                    (wasOpen, rejections) = (true, 0)
                    elapsed = clock.stopwatch()
                    _ = try await readMessages(of: response.body, &reader, idleTimeout: nil) { message in
                        // MCP 2025-11-25, "Listening for Messages from the Server": "The server MUST NOT send a
                        // JSON-RPC response on the stream" of a GET, unless the GET resumes a stream.
                        guard !dropsResponse(message) else { return false }
                        await write(message.bytes)
                        backoff = .seconds(1)
                        return false
                    }
                } else if [401, 403].contains(status) {
                    return rejectListener(of: session, after: fields[MirroredHeaders.lastEventID])
                } else if 400..<500 ~= status, ![409, 429].contains(status),
                    fields[MirroredHeaders.lastEventID] != nil
                {
                    // The server may no longer have the event.
                    fields[MirroredHeaders.lastEventID] = nil
                } else if wasOpen, [400, 404, 409].contains(status) {
                    if try await isLost(session, response) {
                        // Until the host's next request, the server would have no session in which to send a message.
                        try await delayReplacement(of: session, after: age())
                        // The user has not started a request, so no sign-in page is opened.
                        if await replaceSession(session.number, signsIn: false) { return }
                    }
                    // A server that is still starting may accept a new session later, and a server with one stream for each session may not have
                    // detected the end of the previous stream yet.
                    rejections += 1
                    guard rejections < Self.maximumRejections else { return }
                } else if !Self.isTransient(status) {
                    return
                }
            } catch let error as AuthError
                where Self.isTransient(error) || error.code == .invalidResponse && (isOpen || error.status == nil)
            {
                // The server may be restarting, or the stream was cut off.
            } catch {
                guard !(error is CancellationError) else { return }
                endpoint.rejectCurrentToken()
                return rejectListener(of: session, after: reader.lastEventID ?? fields[MirroredHeaders.lastEventID])
            }
            // A server that closes each stream immediately must not be polled every second.
            if isOpen, reader.retry != nil || elapsed() >= .seconds(10) { backoff = .seconds(1) }
            // MCP 2025-11-25: "The client MUST respect the retry field".
            retry = reader.retry ?? retry
            guard (try? await clock.sleep(for: max(backoff, retry))) != nil else { return }
            backoff = min(backoff * 2, .seconds(60))
        }
    }
}
