public import AuthFlow

/// Checks the requirements for every ``/AuthFlow/UserAgent``. Run it from one of your own tests:
///
/// ```swift
/// @Test func conforms() async throws {
///     let redirectURI: RedirectURI = "com.example.app:/callback"
///     let suite = UserAgentConformance(agent: MyAgent(), redirectURI: redirectURI) { url in
///         try await myBrowser.goTo(url)
///     }
///     try await suite.run()
/// }
/// ```
public struct UserAgentConformance: Sendable {
    /// An error thrown by the rest of a sign-in, which an agent must rethrow.
    private struct Failure: Error {}

    private let agent: any UserAgent
    private let redirectURI: RedirectURI
    private let deliver: @Sendable (_ response: String) async throws -> Void

    /// Creates a suite.
    /// - Parameters:
    ///   - agent: The agent.
    ///   - redirectURI: A redirect URI at which the agent can receive redirects.
    ///   - deliver: Requests the redirect URI with the authorization response, as the user's browser does at the end of
    ///     a visit. For an agent without a browser, it may do nothing. In that case, the visit itself must lead to
    ///     the `redirect_uri` in the query of the visited URL, with the `state` in that query and the code
    ///     `conformance`.
    public init(
        agent: any UserAgent,
        redirectURI: RedirectURI,
        deliver: @escaping @Sendable (_ response: String) async throws -> Void
    ) {
        self.agent = agent
        self.redirectURI = redirectURI
        self.deliver = deliver
    }

    /// Runs every check.
    /// - Throws: ``ConformanceFailure`` for the first rule that is violated, or any error that the agent or the delivery throws.
    public func run() async throws {
        try await returnsTheResponse()
        try await propagatesErrors()
        try await endsWhenItIsCancelled()
        // It must be possible to receive redirects again after an error or a cancellation.
        try await returnsTheResponse()
    }

    private func options(_ state: String) -> RedirectOptions {
        RedirectOptions(
            redirectURIs: [redirectURI],
            state: Secret(state),
            reporter: FlowReporter(),
            clock: ContinuousClock()
        )
    }

    private func url(_ session: RedirectSession, _ state: String) -> String {
        let query: FormParameters = ["redirect_uri": session.redirectURI, "state": state]
        return "https://id.example.com/authorize?\(FormURLEncoding.encodeQuery(query))"
    }

    private func returnsTheResponse() async throws {
        // A new state each time, as in production.
        let state = Base64URL.encode(HostServices.systemRandomBytes(16))
        let (response, expected) = try await agent.withRedirectSession(options(state)) { session in
            try require(
                isSame(session.redirectURI),
                "The redirect URI in the request must be the configured URI, plus the chosen port if that URI has none."
            )
            let expected = RedirectResponse.url(session.redirectURI, adding: ["code": "conformance", "state": state])
            let arrival = FirstResult<String>()
            let visit = Task { [url = url(session, state)] in
                do {
                    arrival.finish(.success(try await session.visit(url)))
                } catch {
                    arrival.finish(.failure(error))
                }
            }
            defer { visit.cancel() }
            // The end of the delivery is not awaited, because the browser receives the final page only after the sign-in has
            // completed. If the delivery fails first, no response can arrive.
            Task {
                do { try await deliver(expected) } catch { arrival.finish(.failure(error)) }
            }
            let response = try await arrival.value(begin: {})
            return (response, expected)
        }
        try require(response == expected, "The authorization response must be returned unchanged.")
    }

    private func isSame(_ uri: String) -> Bool {
        guard let port = try? Endpoint(uri).port else { return uri == redirectURI.uri }
        return uri == redirectURI.uri(port: port)
    }

    private func propagatesErrors() async throws {
        do {
            try await agent.withRedirectSession(options("error")) { _ in throw Failure() }
        } catch is Failure {
            return
        }
        throw ConformanceFailure(description: "An error thrown by the rest of the sign-in must be rethrown unchanged.")
    }

    private func endsWhenItIsCancelled() async throws {
        let task = Task {
            try await agent.withRedirectSession(options("cancelled")) { session in
                unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
                _ = try await session.visit(url(session, "cancelled"))
            }
        }
        do {
            try await task.value
        } catch is CancellationError {
            return
        }
        throw ConformanceFailure(description: "A visit whose task is cancelled must throw CancellationError.")
    }
}
