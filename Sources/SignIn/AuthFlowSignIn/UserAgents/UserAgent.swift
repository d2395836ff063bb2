public import AuthFlowOAuth

/// A type that shows a page to the user (or acts on the user's behalf) and receives the redirect that ends the visit.
///
/// A user agent does not handle tokens. Its resources, such as the port and the cookie jar, exist only during the call.
/// `body` is the rest of the sign-in: when it returns, the sign-in has succeeded; when it throws, it has
/// failed. An interactive agent can then show the user the outcome.
///
/// `nonisolated(nonsending)` means that the method and `body` run on the caller's actor; a module with the upcoming
/// feature `NonisolatedNonsendingByDefault` can omit it.
///
/// A grant without a redirect (the device authorization grant) does not use a user agent.
///
/// ```swift
/// struct PostcardUserAgent: UserAgent {
///     let postOffice: PostOffice
///
///     nonisolated(nonsending) func withRedirectSession<Return: Sendable>(
///         _ options: RedirectOptions,
///         _ body: nonisolated(nonsending) (RedirectSession) async throws -> Return
///     ) async throws -> Return {
///         try await body(
///             RedirectSession(redirectURI: options.redirectURI.uri) { url in
///                 try await postOffice.send(url)
///                 return try await postOffice.response()
///             }
///         )
///     }
/// }
/// ```
public protocol UserAgent: Sendable {
    /// Prepares to receive the redirect, runs `body`, and always releases the resources that it opened.
    /// - Parameters:
    ///   - options: The redirect to expect.
    ///   - body: The rest of the sign-in.
    /// - Throws: ``AuthError`` with `port_busy`, `unsupported`, `invalid_configuration` or `user_agent_failed` when no redirect can be
    ///   received, before any
    ///   page is shown; and any error that `body` throws.
    func withRedirectSession<Return: Sendable>(
        _ options: RedirectOptions,
        _ body: nonisolated(nonsending) (RedirectSession) async throws -> Return
    ) async throws -> Return
}

/// The redirect that a user agent must expect.
public struct RedirectOptions: Sendable {
    /// The purpose of a visit.
    public enum Purpose: Sendable, Hashable {
        /// Signing in. Forms may be filled in.
        case signIn
        /// Signing out (RP-Initiated Logout 1.0). No credentials are entered.
        case signOut
    }

    /// The purpose of the visit.
    public let purpose: Purpose

    /// The registered redirect URIs, in order of preference. A user agent uses the first URI at which it can
    /// receive redirects.
    public let redirectURIs: [RedirectURI]

    /// The first redirect URI.
    public var redirectURI: RedirectURI { redirectURIs.first ?? .loopback }

    /// The `state` that the redirect must contain. A response without it belongs to another request, and must not end the wait.
    public let state: Secret

    /// The response mode: `query`, `fragment` or `form_post`. An agent that does not support the mode throws
    /// `unsupported` before it shows a page.
    public let responseMode: ResponseMode

    /// Whether a sign-in may use a session at the provider that another app has shared; false when the user requested
    /// another account, for which the provider must prompt. Default: true.
    public var usesSharedSessions = true

    /// The reporter for the agent's events.
    public let reporter: FlowReporter

    /// The clock for timeouts.
    public let clock: any Clock<Duration>

    /// Creates options.
    public init(
        purpose: Purpose = .signIn,
        redirectURIs: [RedirectURI],
        state: Secret,
        responseMode: ResponseMode = .query,
        reporter: FlowReporter,
        clock: any Clock<Duration>
    ) {
        self.purpose = purpose
        self.redirectURIs = redirectURIs
        self.state = state
        self.responseMode = responseMode.delivery
        self.reporter = reporter
        self.clock = clock
    }

    /// Decrypts a signed authorization response (JARM) if it is encrypted; nil if no signed response was requested.
    package var decrypt: RedirectResponse.Decryption? = { (response) throws(AuthError) in response }

    /// Records the reason for ignoring a response.
    package var ignoredResponseReason = IgnoredResponseReason()
}

extension RedirectOptions {
    /// Whether a URL is the expected redirect: it consists of the redirect URI and response parameters that contain the
    /// state. The other parameters are checked later.
    /// - Parameters:
    ///   - url: The complete URL.
    ///   - redirectURI: The redirect URI that was sent.
    public func accepts(_ url: String, at redirectURI: String) -> Bool { response(in: url, at: redirectURI) != nil }

    /// The response in a URL; nil when it is not the expected redirect.
    func response(in url: String, at redirectURI: String) -> RedirectResponse? {
        RedirectResponse.encoded(in: url, at: redirectURI, responseMode).flatMap { response($0, at: redirectURI) }
    }

    /// The response whose parameters contain exactly the expected state; nil for any other response, which must not end
    /// the wait, and whose sender must not learn the reason for its rejection.
    package func response(_ encoded: Substring, at redirectURI: String) -> RedirectResponse? {
        do throws(AuthError) {
            let response = try RedirectResponse(encoded: encoded, at: redirectURI, responseMode, decrypt: decrypt)
            guard let response else {
                ignoredResponseReason.record("its parameters are not form-encoded UTF-8.")
                return nil
            }
            guard let found = response.state else {
                ignoredResponseReason.record("it has no state, or more than one.")
                return nil
            }
            // Secrets are compared in constant time.
            guard found == state else {
                ignoredResponseReason.record("its state does not match this request.")
                return nil
            }
            return response
        } catch {
            ignoredResponseReason.record("it cannot be read. \(error.message)")
            return nil
        }
    }
}

/// A session of a user agent that can receive a redirect.
public struct RedirectSession: Sendable {
    /// The redirect URI to send in the authorization request.
    public let redirectURI: String

    private let visitor: @Sendable (_ url: String) async throws -> ReceivedRedirect

    /// Creates a session.
    /// - Parameters:
    ///   - redirectURI: The redirect URI to send in the authorization request.
    ///   - visit: Opens a URL and returns the URL that the browser was redirected to: the redirect URI with the response parameters in its
    ///     query, or in its fragment if that is the response mode. The parameters of a posted form are put in the query.
    ///
    ///     The visit must end when its task is cancelled: the response may arrive through ``AuthClient/resume(with:)-(String)`` instead.
    public init(redirectURI: String, visit: @escaping @Sendable (_ url: String) async throws -> String) {
        self.init(receivingAt: redirectURI) { .url(try await visit($0)) }
    }

    /// Creates a session of an agent that decodes the response itself.
    package init(
        receivingAt redirectURI: String,
        visitor: @escaping @Sendable (_ url: String) async throws -> ReceivedRedirect
    ) {
        self.redirectURI = redirectURI
        self.visitor = visitor
    }

    /// Opens `url` and returns the URL that the browser was redirected to.
    public func visit(_ url: String) async throws -> String {
        switch try await visitor(url) {
        case .url(let url): return url
        case .response(let response): return response.url
        }
    }

    /// Opens `url` and returns the response.
    func receiveRedirect(from url: String) async throws -> ReceivedRedirect { try await visitor(url) }
}
