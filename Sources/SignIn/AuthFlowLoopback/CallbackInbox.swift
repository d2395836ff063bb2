import AuthFlow
import Synchronization

/// Filters the requests at the loopback port: only one of them is accepted as the authorization response.
///
/// Any page in the user's browser, and any process on the machine, can send requests to this port. Only a request for the exact
/// path, in the requested response mode and with the state of this sign-in, completes it.
final class CallbackInbox: Sendable {
    /// The outcome of a sign-in, for the page that the user sees.
    enum Outcome: Sendable {
        case succeeded
        case failed(message: String)
    }

    /// The maximum time that the browser waits for the outcome.
    private static let waitTimeout = Duration.seconds(30)

    private let redirectURI: String
    /// The accepted values of `Host`: browsers omit the default port of the scheme.
    private let authorities: [String]
    private let path: String
    private let expected: RedirectOptions
    private let appearance: LoopbackUserAgent.Appearance

    private let callbacks: AsyncStream<ReceivedRedirect>
    private let callbackContinuation: AsyncStream<ReceivedRedirect>.Continuation
    private struct State {
        /// Whether two browsers have opened the start page.
        var wasOpenedTwice = false
        /// The reports about ignored requests.
        var reported: Set<String> = []
        var outcome: Outcome?
        var isKnown: [AsyncStream<Void>.Continuation] = []
    }

    private let state = Mutex(State())
    private let start: StartPage

    init(
        redirectURI: String,
        host: String,
        port: Int,
        path: String,
        expected: RedirectOptions,
        appearance: LoopbackUserAgent.Appearance
    ) {
        self.redirectURI = redirectURI
        self.authorities = ["\(host):\(port)"] + (port == 80 ? [host] : [])
        self.path = path
        self.expected = expected
        self.appearance = appearance
        self.start = StartPage(origin: "http://\(host):\(port)", appearance: appearance)
        (self.callbacks, self.callbackContinuation) = AsyncStream.makeStream()
    }

    /// A short URL at this port that redirects to another URL.
    func start(at url: String) -> String { start.redirect(to: url) }

    /// Waits for the authorization response.
    func callback() async throws -> ReceivedRedirect {
        for await callback in callbacks { return callback }
        try Task.checkCancellation()
        if state.withLock(\.wasOpenedTwice) {
            throw AuthError(
                .userAgentFailed,
                "The start page was opened in two browsers, but only one of them can be yours. Try again. If this happens again, another user of this machine may be opening it."
            )
        }
        throw AuthError(.userAgentFailed, "The loopback server stopped before the redirect arrived. Try again.")
    }

    /// Stops waiting.
    func close() { callbackContinuation.finish() }

    /// Records the outcome of the sign-in.
    func conclude(_ outcome: Outcome) {
        state.withLock { state in
            state.outcome = outcome
            for waiter in state.isKnown { waiter.finish() }
            state.isKnown = []
        }
    }

    /// Responds to one request.
    func handle(_ request: HTTPRequest, body: [UInt8]) async -> TransportResponse {
        let target = request.path ?? ""
        let requestPath = target.prefix { $0 != "?" }
        // A page whose host name was made to resolve to this server (DNS rebinding) sends that name in `Host`.
        guard authorities.contains(request.authority?.lowercased() ?? "") else {
            return appearance.page(.badRequest, "Wrong host", "This server does not serve that host.")
        }
        // A prefetch is not the redirect itself, because the browser has not navigated to the URL yet.
        if request.headerFields.contains(where: {
            $0.name.canonicalName == "sec-purpose" && $0.value.contains("prefetch")
        }) {
            return TransportResponse(head: HTTPResponse(status: .serviceUnavailable))
        }
        if requestPath == start.path {
            if let refusal = otherUserResponse { return refusal }
            let response = start.response(to: request)
            if response.head.status == .gone {
                // Another program on this machine may have opened the start page and could complete the sign-in with its own account. It is not
                // possible to tell which of the two is the user's browser.
                state.withLock { $0.wasOpenedTwice = true }
                close()
            }
            return response
        }
        guard requestPath == path else {
            return appearance.page(
                .notFound,
                "Nothing here",
                "The sign-in in progress expects its response at another URL."
            )
        }
        let response: Substring
        switch (request.method, expected.responseMode) {
        case (.get, .query):
            response = target.dropFirst(requestPath.count + 1)
        case (.get, .fragment):
            // Browsers do not send fragments, so this page's script sends the fragment.
            return FragmentPage.response
        case (.post, .fragment) where isCrossOrigin(request): return unexpectedRequestResponse
        case (.post, .formPost), (.post, .fragment):
            // RFC 9110 section 8.3.1: media types are case-insensitive, and may be followed by spaces.
            let mediaType = (request.headerFields[.contentType]?.prefix { $0 != ";" } ?? "").trimmingSpaces()
                .lowercased()
            guard mediaType == "application/x-www-form-urlencoded", let text = String(validating: body, as: UTF8.self)
            else { return unexpectedRequestResponse }
            response = Substring(text)
        default:
            return unexpectedRequestResponse
        }
        // A page on any site can redirect the user to this URL, so a request without the state is rejected, even during a
        // sign-out.
        guard let received = expected.response(response, at: redirectURI) else {
            // Some providers omit the state from error responses, and the user would otherwise wait until the timeout.
            reportOnce(["ignored": "a redirect without the state of this request"])
            return appearance.page(
                .badRequest,
                expected.purpose == .signIn ? "Not this sign-in" : "Not this sign-out",
                expected.purpose == .signIn
                    ? "This URL does not belong to the sign-in that is in progress. Go back to the page where you signed in."
                    : "This URL does not identify the sign-out that it belongs to, so you may still be signed in. Go back to \(appearance.program), which shows the result."
            )
        }
        if let refusal = otherUserResponse { return refusal }
        // A response from a second tab or a reload is ignored, because the stream has ended, but the browser shows the same page.
        callbackContinuation.yield(.response(received))
        callbackContinuation.finish()
        return await resultPage()
    }

    /// Whether a page from another origin sent the request. Only the page of this server forwards a fragment.
    private func isCrossOrigin(_ request: HTTPRequest) -> Bool {
        guard let origin = request.headerFields[HTTPField.Name.origin], origin != "null" else { return false }
        return !authorities.contains { "http://\($0)" == origin.lowercased() }
    }

    /// Publishes an event about an ignored request, unless the same event has been published.
    private func reportOnce(_ details: [String: String]) {
        let isFirst = state.withLock { $0.reported.insert(details["ignored"] ?? "").inserted }
        if isFirst { expected.reporter.report(.userAgentVisit, details: details) }
    }

    /// The response to a process that is owned by another user of this machine. That user may have read the URL of the
    /// start page from a command line, and could complete the sign-in with another account.
    private var otherUserResponse: TransportResponse? {
        guard let owner = LoopbackServer.peer?.owner, owner.isAnotherUser else { return nil }
        // Under sudo, the user's own browser belongs to another user, and the user would otherwise wait until the timeout.
        if case .user(let id) = owner { reportOnce(["ignored": "a request by another user", "user": "\(id)"]) }
        return appearance.page(.forbidden, "Not your sign-in", "This sign-in belongs to another user of this machine.")
    }

    private var unexpectedRequestResponse: TransportResponse {
        appearance.page(
            .methodNotAllowed,
            "Unexpected response",
            "This request is not a response in the expected response mode."
        )
    }

    /// Waits for the outcome of the sign-in, because the page must not show "signed in" before the code has been exchanged and the
    /// tokens have been validated.
    private func resultPage() async -> TransportResponse {
        try? await withDeadline(Self.waitTimeout, clock: expected.clock) {
            AuthError(.timedOut, "The outcome was not available in time.")
        } _: {
            await self.waitForOutcome()
        }
        let outcome = state.withLock { $0.outcome }
        switch outcome {
        case .succeeded?:
            return appearance.page(
                .ok,
                expected.purpose == .signIn ? "You are signed in" : "You are signed out",
                "You can close this page and go back to \(appearance.program).",
                mark: .done
            )
        case .failed(let message)?:
            return appearance.page(
                .ok,
                expected.purpose == .signIn ? "The sign-in failed" : "You may still be signed in",
                "\(message) Go back to \(appearance.program), and try again there.",
                mark: .failed
            )
        default:
            return appearance.page(
                .ok,
                "The response was received",
                "Go back to \(appearance.program), which shows the result."
            )
        }
    }

    private func waitForOutcome() async {
        let (changes, change) = AsyncStream<Void>.makeStream()
        state.withLock { state in
            if state.outcome != nil { change.finish() } else { state.isKnown.append(change) }
        }
        for await _ in changes {}
    }
}
