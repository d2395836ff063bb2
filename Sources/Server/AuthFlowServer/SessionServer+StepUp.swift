public import AuthFlow
import AuthFlowEssentials

extension SessionServer {
    /// Whether the user of a session has authenticated as a page requires.
    public func isMet(_ requirement: AuthenticationRequirement, by session: Session) -> Bool {
        let leeway = provider(session.provider)?.client.registration.clockLeeway ?? .zero
        return requirement.isMet(by: session.authentication, at: host.now(), clockLeeway: leeway)
    }

    /// Returns the response to a request whose user is not signed in, or has not authenticated as required (step-up); nil if the session
    /// meets the requirement. A navigation is redirected to the provider and then returns to the page; a script receives a 401 response, with
    /// `insufficient_user_authentication` if it has a session.
    ///
    /// A POST request is not resent: specify the page to return to in `returnPath`, and store the posted values in the
    /// session's data if they must not be lost.
    /// - Parameters:
    ///   - request: The request.
    ///   - session: The session of the request; nil when no user is signed in.
    ///   - requirement: The requirement; default: any authentication.
    ///   - returnPath: The page to return to; default: the page of the request, or the start page for methods other
    ///     than GET.
    public func stepUp(
        _ request: HTTPRequest,
        _ session: Session?,
        to requirement: AuthenticationRequirement = AuthenticationRequirement(),
        returnPath: String? = nil
    ) async -> TransportResponse? {
        let response = await response(to: request, session, requiring: requirement, returnPath: returnPath)
        return response.map { Self.answer($0, to: request) }
    }

    /// RFC 9110 section 9.3.2: "the server MUST NOT send content in the response" to HEAD.
    private static func answer(_ response: TransportResponse, to request: HTTPRequest) -> TransportResponse {
        request.method == .head ? TransportResponse(head: response.head) : response
    }

    /// The minimum time between two sign-ins without user interaction, in seconds.
    private static let minimumSignInInterval: TimeInterval = 60

    /// Returns the response to a request whose handler has thrown an error; nil if there is none, as with ``response(for:)``.
    ///
    /// A navigation is redirected to the provider, and then returns to the page, if the session has ended, or if its access token has expired and
    /// cannot be refreshed. In the second case, the session continues, so every request would fail with the same error. If the user has just
    /// signed in, another sign-in would not help, and the browser would enter a redirect loop.
    /// - Parameters:
    ///   - error: The error.
    ///   - request: The request.
    ///   - session: The session of the request; nil when no user is signed in.
    package func response(
        for error: AuthError,
        to request: HTTPRequest,
        _ session: Session?
    ) async -> TransportResponse? {
        guard error.code == .loginRequired, let session, isPage(request),
            host.now().timeIntervalSince(session.signedInAt) > Self.minimumSignInInterval
        else { return Self.response(for: error) }
        let options = SessionSignInOptions(provider: session.provider, returnPath: page(of: request))
        return Self.answer(await signIn(request, options), to: request)
    }

    /// Whether a request is for a page rather than from a script, so that the browser follows a redirect to the provider.
    private func isPage(_ request: HTTPRequest) -> Bool {
        isNavigation(request) && request.headerFields[headerName] == nil
            && [.get, .head, .post].contains(request.method)
    }

    /// The page that a request is for; nil for methods other than GET.
    private func page(of request: HTTPRequest) -> String? {
        request.method == .get ? ReturnAddress(request.path ?? "", prefixes: nil)?.path : nil
    }

    private func response(
        to request: HTTPRequest,
        _ session: Session?,
        requiring requirement: AuthenticationRequirement,
        returnPath: String?
    ) async -> TransportResponse? {
        let own = page(of: request)
        let isPage = isPage(request)
        guard let session else {
            guard isPage else { return ServerResponse.plain(.unauthorized) }
            // Do not redirect directly to the provider: a visit through a link on another site lacks the cookie of an existing session, and with several
            // providers the user chooses one.
            // Omit the return path if the URL is too long; otherwise, a visit without the cookie would require the user to sign in again.
            let address = ReturnAddress(loginPath(returningTo: returnPath ?? own), prefixes: nil)
            return ServerResponse.redirect(to: address?.path ?? options.loginPath)
        }
        guard !isMet(requirement, by: session) else { return nil }
        guard isPage else {
            var json: [String: JSON] = ["error": "insufficient_user_authentication"]
            if !requirement.acrValues.isEmpty {
                json["acr_values"] = .string(requirement.acrValues.joined(separator: " "))
            }
            json["max_age"] = requirement.maximumAge.map { .integer($0.components.seconds) }
            return ServerResponse.json(.unauthorized, .object(json))
        }
        return await signIn(
            request,
            SessionSignInOptions(provider: session.provider, returnPath: returnPath ?? own, requirement: requirement)
        )
    }
}
