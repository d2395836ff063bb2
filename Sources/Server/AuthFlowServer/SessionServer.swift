public import AuthFlow
import AuthFlowEssentials
import Synchronization

/// The sessions of a web application whose users sign in at a provider (a backend for frontend, RFC 10017 section 6.1):
/// the browser stores a random identifier in a cookie, and the tokens remain on the server.
///
/// It works with any web framework. For each request, first call ``response(to:body:)``, which handles the session
/// server's routes. For any other request, get the session of the request.
///
/// ```swift
/// let server = try SessionServer(client: client, store: store, options: .init(origin: "https://app.example.com"))
/// if let response = await server.response(to: request, body: body) { return response }
/// guard let session = try await server.session(of: request) else { return unauthorized }
/// let token = try await server.freshTokens(for: session).accessToken
/// ```
///
/// Processes with the same store share sessions: a sign-in can start in one process and finish in another, and a
/// session that ends in one process ends in all of them.
public final class SessionServer: Sendable {
    let options: SessionServerOptions
    let store: any SessionTokenStore
    let providers: [ProviderSessions]
    let headerName: HTTPField.Name
    let isSecure: Bool
    let observer: (@Sendable (FlowEvent) -> Void)?
    let host: HostServices
    let isDraining = Atomic(false)
    private let touched: Mutex<TouchTimes>

    /// Creates a session server for an application whose users sign in at one provider.
    /// - Parameters:
    ///   - client: The client. It must be a confidential client (RFC 10017 section 6.1.3.1: "the BFF MUST act as a
    ///     confidential client"), and its first redirect URI must be on the application's origin.
    ///   - store: Stores the sessions. All processes that serve the application share it.
    ///   - options: The options.
    ///   - observer: Receives every event of every flow. It must not block.
    /// - Throws: ``/AuthFlow/AuthError`` with `invalid_configuration`.
    public convenience init(
        client: OAuthClient,
        store: any SessionTokenStore,
        options: SessionServerOptions,
        observer: (@Sendable (FlowEvent) -> Void)? = nil
    ) throws {
        try self.init(
            checked: [SessionProvider("", client: client)],
            store: store,
            options: options,
            observer: observer
        )
    }

    /// Creates a session server for an application whose users choose between several providers.
    /// - Parameters:
    ///   - providers: The providers, in the order in which users see them. Each must have a unique name and redirect
    ///     URI.
    ///   - store: The same as for one provider.
    ///   - options: The same as for one provider.
    ///   - observer: The same as for one provider.
    /// - Throws: ``/AuthFlow/AuthError`` with `invalid_configuration`.
    public convenience init(
        providers: [SessionProvider],
        store: any SessionTokenStore,
        options: SessionServerOptions,
        observer: (@Sendable (FlowEvent) -> Void)? = nil
    ) throws {
        guard !providers.isEmpty, providers.allSatisfy({ SessionProvider.isName($0.name) }),
            Set(providers.map(\.name)).count == providers.count
        else {
            throw AuthError(
                .invalidConfiguration,
                "Specify one or more providers, each with a unique name: 1 to 32 lowercase letters, digits and hyphens."
            )
        }
        try self.init(checked: providers, store: store, options: options, observer: observer)
    }

    /// - Parameter providers: The providers, whose names have been checked.
    package init(
        checked providers: [SessionProvider],
        store: any SessionTokenStore,
        options: SessionServerOptions,
        observer: (@Sendable (FlowEvent) -> Void)?
    ) throws {
        let (options, headerName, isSecure) = try options.checked()
        let hooks = options.hooks
        let sessions = try providers.map { provider in
            try ProviderSessions(
                provider,
                isOnly: providers.count == 1,
                store: store,
                options: options,
                observer: observer
            ) { key, credential in
                let session = KnownSession(name: key.name, provider: provider.name, credential)
                await hooks.onEnd(SessionEnd(session: session, reason: .refreshRefused))
            }
        }
        let paths =
            [options.loginPath, options.logoutPath, options.sessionPath]
            + [options.frontChannelLogoutPath].compactMap(\.self)
            + sessions.flatMap { [$0.callbackPath, $0.backChannelLogoutPath] }
        guard paths.allSatisfy({ $0.hasPrefix("/") }), Set(paths).count == paths.count else {
            throw AuthError(
                .invalidConfiguration,
                "Each route, and each provider's redirect URI, must have a unique path that starts with a slash."
            )
        }
        // A request's path has no query or fragment, and browsers remove dot segments and encode other characters, so no request would
        // match such a route.
        let routes =
            [options.loginPath, options.logoutPath, options.sessionPath, options.backChannelLogoutPath]
            + [options.frontChannelLogoutPath].compactMap(\.self)
        guard routes.allSatisfy({ ReturnAddress($0, prefixes: nil) != nil && !$0.contains("?") && !$0.contains("#") })
        else {
            throw AuthError(
                .invalidConfiguration,
                "The path of a route must not contain a query, a fragment, a dot segment, or a character that must be percent-encoded, and must not start with two slashes."
            )
        }
        // Otherwise, a session of one provider would also be a session of the other.
        let clients = sessions.map { [$0.client.server.issuer, $0.client.registration.clientID] }
        guard Set(clients).count == clients.count else {
            throw AuthError(.invalidConfiguration, "Two providers have the same issuer and client ID.")
        }
        guard let start = ReturnAddress(options.startPath, prefixes: nil),
            !paths.contains(String(start.path.prefix { !"?#".contains($0) }))
        else {
            throw AuthError(
                .invalidConfiguration,
                "The start page must be a path of the application, not a route of the session server."
            )
        }
        let host = providers[0].client.host
        self.options = options
        self.headerName = headerName
        self.isSecure = isSecure
        self.store = store
        self.providers = sessions
        self.observer = observer
        self.host = host
        self.touched = Mutex(TouchTimes(clock: host.clock))
    }

    /// Whether a request is for one of this server's routes. If so, read its body; other requests, and their bodies, are for
    /// the application.
    public func handles(_ request: HTTPRequest) -> Bool {
        Self.path(of: request).flatMap(route) != nil
    }

    /// The path of a request; nil if it contains non-ASCII characters, which RFC 3986 section 2 does not allow and
    /// which can take a long time to compare.
    static func path(of request: HTTPRequest) -> String? {
        let path = (request.path ?? "/").utf8.prefix { $0 != UInt8(ascii: "?") }
        return path.allSatisfy { $0 < 0x80 } ? String(Substring(path)) : nil
    }

    /// Returns the response to a request for one of this server's routes; nil for the application's routes.
    /// - Parameters:
    ///   - request: The request. Its path is used as is, so a reverse proxy must not rewrite it.
    ///   - body: The body, whose size the caller must limit: no route needs more than 64 KiB.
    public func response(to request: HTTPRequest, body: [UInt8] = []) async -> TransportResponse? {
        guard let path = Self.path(of: request), let route = route(path) else { return nil }
        let query = Substring((request.path ?? "/").utf8.dropFirst(path.utf8.count + 1))
        guard route.methods.contains(request.method) else {
            var response = ServerResponse.plain(.methodNotAllowed)
            response.head.headerFields[.allow] = route.methods.map(\.rawValue).joined(separator: ", ")
            return response
        }
        guard body.count <= 64 * 1024 else { return ServerResponse.plain(.contentTooLarge) }
        let form = { String(decoding: body, as: UTF8.self) }
        switch route.kind {
        case .login: return await beginSignIn(String(query), request)
        case .callback(let provider):
            return await finishSignIn(request.method == .post ? form() : String(query), at: provider, request)
        case .logout: return await signOut(String(query), body, request)
        case .session: return await describeSession(request)
        case .backChannelLogout(let provider): return await endSessions(form(), at: provider)
        case .frontChannelLogout: return await endSessions(named: String(query), request)
        }
    }

    private enum Route {
        case login, callback(ProviderSessions), logout, session, backChannelLogout(ProviderSessions), frontChannelLogout
    }

    /// Whether a path is one of this server's endpoints.
    func isEndpoint(_ path: String) -> Bool { route(path) != nil }

    private func route(_ path: String) -> (kind: Route, methods: [HTTPRequest.Method])? {
        switch path {
        case options.loginPath: return (.login, [.get])
        case options.logoutPath: return (.logout, [.post])
        case options.sessionPath: return (.session, [.get])
        case options.frontChannelLogoutPath: return (.frontChannelLogout, [.get])
        default: break
        }
        for provider in providers {
            if path == provider.callbackPath { return (.callback(provider), [provider.postsResponses ? .post : .get]) }
            if path == provider.backChannelLogoutPath { return (.backChannelLogout(provider), [.post]) }
        }
        return nil
    }

    // MARK: Sessions

    /// Returns the session of a request, and extends its idle timeout; nil if there is no session, if it has ended, or if its record is unusable.
    /// While the store can be read but not written, the idle timeout is not extended, and events report it (`storage_failed`).
    ///
    /// A record is unusable if it is damaged, or is encrypted with a key that is not configured. An event reports it (`credential_unusable`) at most
    /// once a minute for each session. The record remains in the store until the user signs in again or it expires.
    ///
    /// If another process ended the session within the last ten seconds, this process may not have been notified yet.
    /// - Throws: ``/AuthFlow/AuthError`` with `storage_failed` if the session cannot be looked up.
    public func session(of request: HTTPRequest) async throws -> Session? {
        try await session(of: request, isUse: true)
    }

    /// - Parameter isUse: Whether the call extends the idle timeout.
    func session(of request: HTTPRequest, isUse: Bool) async throws -> Session? {
        guard let (identifier, provider) = sessionIdentifier(of: request) else { return nil }
        let key = provider.key(identifier)
        let credential: Credential
        do {
            credential = try await provider.credentials.lastCredential(for: key)
        } catch let error as AuthError where error.code == .loginRequired {
            return nil
        } catch let error as AuthError where error.code == .credentialUnusable {
            // The user can only sign in again, which an error on every page would prevent. Another process may have the key, so nothing is removed.
            let isDue = touched.withLock { touched in
                guard touched.isDue(identifier, after: .seconds(60)) else { return false }
                // The time is recorded under the same lock, because a page sends several requests concurrently.
                touched.note(identifier)
                return true
            }
            if isDue { report(.storing, error) }
            return nil
        }
        let session = Session(identifier, credential, of: provider)
        // The minimum interval between two extensions of the idle timeout in the store.
        let pause = min(options.idleTime / 10, .seconds(60))
        if isUse, touched.withLock({ $0.isDue(identifier, after: pause) }) {
            do {
                guard try await provider.credentials.touch(key) else { return nil }
            } catch let error as AuthError where error.code == .storageFailed {
                // The session was found, so a store whose disk or memory is full must not make every request fail. Active users will be signed out
                // at the end of the idle timeout, so the operator must learn the cause.
                report(.storing, error)
            }
            // A failed attempt counts, too, because the next one may also take several seconds.
            touched.withLock { $0.note(identifier) }
        }
        return session
    }

    /// Reports a failure whose cause the response to the request does not contain.
    func report(_ step: FlowEvent.Step, _ error: any Error) {
        FlowReporter(host: host, observer: observer).report(step, failedWith: error)
    }

    /// The identifier in the cookie, and the provider of its session; nil if the cookie is not well-formed.
    func sessionIdentifier(of request: HTTPRequest) -> (identifier: Secret, provider: ProviderSessions)? {
        guard let value = RequestCookies(request)[options.cookieName] else { return nil }
        // The value is an identifier of 43 characters, followed by a period and the provider's name, if any.
        let identifier = value.utf8.prefix { $0 != UInt8(ascii: ".") }
        guard identifier.count == 43, Base64URL.decode(Substring(identifier))?.count == 32,
            let provider = self.provider(Substring(value.utf8.dropFirst(44))),
            value.utf8.count == (provider.name.isEmpty ? 43 : 44 + provider.name.utf8.count)
        else { return nil }
        return (Secret(String(Substring(identifier))), provider)
    }

    /// Returns the provider with the given name.
    func provider(_ name: some StringProtocol) -> ProviderSessions? {
        providers.first { $0.name.utf8.elementsEqual(name.utf8) }
    }

    /// The provider to which a session belongs.
    func sessions(of session: Session) throws -> ProviderSessions {
        guard let provider = provider(session.provider) else {
            throw AuthError(
                .loginRequired,
                "The session belongs to a provider that is no longer configured. Sign in again."
            )
        }
        return provider
    }

    /// Whether a session belongs to a provider; nil means the only provider.
    func isSession(_ session: Session, of name: String?) throws -> Bool {
        let provider = try sessions(of: session)
        guard let name else { return providers.count == 1 }
        return provider === self.provider(name)
    }

    /// Returns the tokens of a session, with a fresh access token.
    /// - Throws: Any error thrown by ``/AuthFlow/CredentialManager/freshTokens(for:)-(CredentialKey)``.
    public func freshTokens(for session: Session, resource: String? = nil) async throws -> TokenSet {
        let provider = try sessions(of: session)
        let key = provider.key(session.identifier)
        guard let resource, resource != key.resource else {
            return try await provider.credentials.freshTokens(for: key)
        }
        return try await provider.credentials.freshTokens(of: key, for: resource)
    }

    /// The tokens of a session that replace an access token that an API has rejected; nil if the token cannot be replaced, or was obtained within the
    /// last minute.
    func tokens(for session: Session, resource: String?, replacing rejected: Secret) async throws -> TokenSet? {
        let provider = try sessions(of: session)
        let key = provider.key(session.identifier)
        return try await provider.credentials.tokens(
            of: key,
            for: resource == key.resource ? nil : resource,
            replacing: rejected,
            olderThan: .seconds(60)
        )
    }

    /// Whether a request comes from a page of the application, and may therefore change state or read data: pages on
    /// other sites can cause a browser to send requests with its cookies (RFC 10017 section 6.1.3.3).
    ///
    /// Such a request has the ``SessionServerOptions/headerName`` header field, and no `Origin` or `Sec-Fetch-Site`
    /// that indicates another site.
    public func isFromOwnPage(_ request: HTTPRequest) -> Bool {
        request.headerFields[headerName] != nil && !isFromOtherSite(request)
    }

    /// Whether a request comes from a form on a page of the application. A form cannot set a header field, but the
    /// browser sends `Origin` with every POST.
    public func isFromOwnForm(_ request: HTTPRequest) -> Bool {
        request.headerFields[.origin] != nil && !isFromOtherSite(request)
    }

    /// Whether the browser indicates that another site caused it to send the request.
    func isFromOtherSite(_ request: HTTPRequest) -> Bool {
        let site = site(of: request)
        // The browser sends the origin "null" for a page whose referrer policy is no-referrer.
        if let origin = field(.origin, of: request), origin != options.origin {
            guard origin == "null", site == "same-origin" else { return true }
        }
        return site != nil && site != "same-origin" && site != "none"
    }

    /// Whether a browser requests a page rather than an image, a frame or a script's data (Fetch Metadata section 2.1),
    /// all of which a page on another site can load without user interaction. Requests without `Sec-Fetch-Dest` are
    /// allowed.
    func isNavigation(_ request: HTTPRequest) -> Bool {
        let destination = HTTPField.Name("Sec-Fetch-Dest").flatMap { field($0, of: request) }
        return destination.map { $0 == "document" } ?? true
    }

    /// Whether a link or a redirect on another site, or on another host of this site, caused this navigation.
    func isCrossOriginNavigation(_ request: HTTPRequest) -> Bool {
        ["cross-site", "same-site"].contains(site(of: request))
    }

    private func site(of request: HTTPRequest) -> String? {
        HTTPField.Name("Sec-Fetch-Site").flatMap { field($0, of: request) }
    }

    /// The value of a header field, for comparison. Browsers send ASCII in these fields, and other text can take a long
    /// time to compare.
    func field(_ name: HTTPField.Name, of request: HTTPRequest) -> String? {
        request.headerFields[name].map { $0.utf8.allSatisfy { $0 < 0x80 } ? $0 : "not ASCII" }
    }

    /// Removes expired records from the store about once a minute until the task is cancelled. Running it in one
    /// process is sufficient; running it in several is harmless. A failure is reported as an event, and does not end the method.
    public func removeEndedSessions() async {
        while !Task.isCancelled {
            // The intervals are random, so that processes that started together do not sweep at the same time.
            let seconds = 45 + Int(host.randomBytes(1).first ?? 0) % 30
            try? await host.clock.sleep(for: .seconds(seconds))
            do {
                while !Task.isCancelled, try await store.removeEnded() > 0 {}
            } catch {
                // Otherwise, a store that cannot remove records, for example because a permission is missing, would grow unnoticed.
                if !Task.isCancelled { report(.storing, error) }
            }
        }
    }

    /// The credentials of the first provider, for tests.
    package var credentials: CredentialManager { providers[0].credentials }

    /// Whether a refresh or a write is in progress.
    package var isBusy: Bool { providers.contains { $0.credentials.unfinished.isBusy } }

    /// Waits for operations that must complete, such as refreshes. Call it before the process exits. Subsequent calls to ``readiness()``
    /// report that the process is not ready.
    /// - Returns: Whether all operations completed in time.
    public func drain(within waitTimeout: Duration = .seconds(10)) async -> Bool {
        isDraining.store(true, ordering: .relaxed)
        return await providers.concurrentMap { await $0.credentials.drain(within: waitTimeout) }.allSatisfy(\.self)
    }
}

/// The time at which each session was last touched, or reported as unusable.
private struct TouchTimes {
    private static let limit = 20_000
    private let elapsed: @Sendable () -> Duration
    private var times: [Secret: Duration] = [:]

    init(clock: any Clock<Duration>) { elapsed = clock.stopwatch() }

    func isDue(_ identifier: Secret, after pause: Duration) -> Bool {
        times[identifier].map { elapsed() - $0 >= pause } ?? true
    }

    mutating func note(_ identifier: Secret) {
        if times.count >= Self.limit { times.removeAll() }
        times[identifier] = elapsed()
    }
}
