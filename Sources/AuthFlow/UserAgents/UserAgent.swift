/// A type that shows a page to a person (or acts for one) and catches the redirect that ends the visit.
///
/// It knows nothing of tokens. The scope of the call is the life of everything it opens: the port, the browser's wait,
/// the cookie jar. `body` is the rest of the sign-in: when it returns, the sign-in has succeeded, when it throws, it has
/// failed, and an agent that has a person in front of it can then say which.
///
/// `nonisolated(nonsending)` says that the method and `body` run where their caller runs; a module with the upcoming
/// feature `NonisolatedNonsendingByDefault` can leave the words out.
///
/// A sign-in that waits for neither a person nor a redirect (the device grant) is another seam, not a user agent.
///
/// ```swift
/// struct PasteUserAgent: UserAgent {
///     nonisolated(nonsending) func withRedirectSession<Return: Sendable>(
///         _ options: RedirectOptions,
///         _ body: nonisolated(nonsending) (RedirectSession) async throws -> Return
///     ) async throws -> Return {
///         try await body(RedirectSession(redirectURI: options.redirectURI.uri) { url in
///             print("Open this page, sign in, and paste the address you end at:\n\(url)")
///             return readLine() ?? ""
///         })
///     }
/// }
/// ```
public protocol UserAgent: Sendable {
    /// Opens a place for the redirect to land, runs `body`, and closes it again whatever happens.
    /// - Parameters:
    ///   - options: Which redirect to expect.
    ///   - body: The rest of the sign-in.
    /// - Throws: ``AuthError`` with `port_busy` or `user_agent_failed` when the place cannot be opened, before any page
    ///   is shown; and whatever `body` throws.
    func withRedirectSession<Return: Sendable>(
        _ options: RedirectOptions,
        _ body: nonisolated(nonsending) (RedirectSession) async throws -> Return
    ) async throws -> Return
}

/// Which redirect a user agent is to expect.
public struct RedirectOptions: Sendable {
    /// The redirect URI, as configured.
    public let redirectURI: RedirectURI

    /// The `state` that the answer will carry. What arrives without it is not the answer, and must not end the wait. nil
    /// when whatever arrives ends it: after a sign-out, where nothing depends on the answer.
    public let state: String?

    /// How the answer comes. An agent that cannot receive it in this way throws `unsupported` before it shows a page.
    public let responseMode: ResponseMode

    /// Where the agent reports what it does.
    public let reporter: FlowReporter

    /// The clock to wait on.
    public let clock: any Clock<Duration>

    /// Creates options.
    public init(
        redirectURI: RedirectURI,
        state: String?,
        responseMode: ResponseMode = .query,
        reporter: FlowReporter,
        clock: any Clock<Duration>
    ) {
        self.redirectURI = redirectURI
        self.state = state
        self.responseMode = responseMode
        self.reporter = reporter
        self.clock = clock
    }
}

/// A place where a redirect can land.
public struct RedirectSession: Sendable {
    /// The redirect URI to put in the authorization request.
    public let redirectURI: String

    private let visitor: @Sendable (_ url: String) async throws -> String

    /// Creates a session.
    /// - Parameters:
    ///   - redirectURI: The redirect URI to put in the authorization request.
    ///   - visit: Shows a URL and returns the one that the visit was redirected to.
    public init(redirectURI: String, visit: @escaping @Sendable (_ url: String) async throws -> String) {
        self.redirectURI = redirectURI
        self.visitor = visit
    }

    /// Shows `url` and returns the URL that the visit was redirected to: the redirect URI with the answer in its query, or
    /// in its fragment when that is the response mode. An answer that was posted as a form stands in the query.
    public func visit(_ url: String) async throws -> String {
        try await visitor(url)
    }
}
