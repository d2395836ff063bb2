public import AuthFlow
public import HTTPTypes

/// Forwards requests of the application's pages to APIs, with the session's access token in place of its cookie.
///
/// RFC 10017 section 6.1.3.6: "the BFF MUST" send only to an explicit list of hosts, and "strictly validate" paths. Of the URL, the request
/// provides only the path after the prefix of its route.
public struct ResourceProxy: Sendable {
    /// A path prefix of the application, and the API that its requests are forwarded to.
    public struct Route: Sendable {
        let prefix: String
        let target: Endpoint
        let methods: Set<HTTPRequest.Method>
        let resource: String?
        let provider: String?
        let forwardedFields: Set<String>
        let returnedFields: Set<String>
        let maximumRequestSize: Int
        let maximumResponseSize: Int
        let streamsResponses: Bool
        let maximumStreamDuration: Duration

        /// The fields that belong to one connection, to the session, or to the proxy itself.
        private static let ownFields: Set<String> = [
            "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host", "content-length",
            "content-encoding", "authorization", "cookie", "set-cookie", "dpop", "forwarded", "via",
        ]
        private static let ownPrefixes = ["sec-", "proxy-", "x-forwarded-", "access-control-"]

        /// Creates a route.
        /// - Parameters:
        ///   - prefix: The path prefix of the requests. It starts and ends with a slash.
        ///   - target: The API's URL, which replaces the prefix. It ends with a slash.
        ///   - methods: The methods to forward; default: GET and HEAD.
        ///   - resource: The resource that the access token is for (RFC 8707); default: the session's own.
        ///   - provider: The name of the provider whose access tokens the API is for. A session of another gets 403. Where there are several
        ///     providers, a route has to name one; default: the only one.
        ///   - maximumRequestSize: The maximum size of a request body, in bytes; default: 1 MiB. Larger ones get a 413.
        ///   - maximumResponseSize: The maximum size of a response body, in bytes; default: 1 MiB. With `streamsResponses`, the buffer for a
        ///     slow browser: when it is full, Linux applies backpressure to the API; elsewhere the response fails.
        ///   - streamsResponses: Whether responses are passed on as they arrive, such as event streams and large downloads, by
        ///     ``ResourceProxy/streamedResponse(to:body:)``; default: no.
        ///   - maximumStreamDuration: The maximum duration of a streamed response, after which it is aborted; default: 15 minutes. A stream outlives
        ///     its session and its access token by no more than that.
        ///   - forwardedFields: Header fields to forward in addition to those that every API may need, such as `X-Request-ID`;
        ///     default: none.
        ///   - returnedFields: Header fields to return in addition to those that every page may need; default: none.
        /// - Throws: ``/AuthFlow/AuthError`` with `invalid_configuration`.
        public init(
            _ prefix: String,
            to target: Endpoint,
            methods: Set<HTTPRequest.Method> = [.get, .head],
            resource: String? = nil,
            provider: String? = nil,
            maximumRequestSize: Int = 1024 * 1024,
            maximumResponseSize: Int = 1024 * 1024,
            streamsResponses: Bool = false,
            maximumStreamDuration: Duration = .seconds(900),
            forwardedFields: Set<HTTPField.Name> = [],
            returnedFields: Set<HTTPField.Name> = []
        ) throws(AuthError) {
            guard prefix.hasPrefix("/"), prefix.hasSuffix("/"), target.path.hasSuffix("/"), target.query == nil else {
                throw AuthError(
                    .invalidConfiguration,
                    "A route's prefix must start and end with a slash; the API's URL must end with one and have no query."
                )
            }
            self.prefix = prefix
            self.target = target
            self.methods = methods
            let names = forwardedFields.union(returnedFields).map(\.canonicalName)
            let own = names.first { name in
                Self.ownFields.contains(name) || Self.ownPrefixes.contains(where: name.hasPrefix)
            }
            if let own {
                throw AuthError(
                    .invalidConfiguration,
                    "The proxy sets \(own) itself, or it is a hop-by-hop field."
                )
            }
            self.resource = resource
            self.provider = provider
            self.maximumRequestSize = maximumRequestSize
            self.maximumResponseSize = maximumResponseSize
            self.streamsResponses = streamsResponses
            self.maximumStreamDuration = maximumStreamDuration
            self.forwardedFields = Set(forwardedFields.map(\.canonicalName))
            self.returnedFields = Set(returnedFields.map(\.canonicalName))
        }
    }

    private let server: SessionServer
    private let routes: [Route]
    private let limit = RequestLimit()
    /// Streams have separate slots, so that no other request waits for them.
    private let streamLimit = RequestLimit()

    /// Creates a proxy.
    /// - Parameters:
    ///   - server: The sessions.
    ///   - routes: The routes. The longest matching prefix is used.
    public init(server: SessionServer, routes: [Route]) {
        self.server = server
        self.routes = routes.sorted { $0.prefix.utf8.count > $1.prefix.utf8.count }
    }

    /// Whether a request matches one of these routes. If so, read its body.
    public func handles(_ request: HTTPRequest) -> Bool { route(of: request) != nil }

    /// The maximum size of a request's body, in bytes; nil when no route matches. Do not read more than that.
    public func maximumRequestSize(of request: HTTPRequest) -> Int? { route(of: request)?.maximumRequestSize }

    private func route(of request: HTTPRequest) -> Route? {
        let target = (request.path ?? "/").utf8
        return routes.first { target.starts(with: $0.prefix.utf8) }
    }

    /// Returns the response to a request that is rejected whatever its body: call it before reading the body. Nil for any other.
    public func refusal(of request: HTTPRequest) -> TransportResponse? {
        guard let route = route(of: request) else { return nil }
        if case .refused(let response) = admission(of: request, to: route) { return response }
        return nil
    }

    private enum Admission {
        case admitted(Endpoint)
        case refused(TransportResponse)
    }

    private func admission(of request: HTTPRequest, to route: Route) -> Admission {
        let target = request.path ?? "/"
        guard let path = SessionServer.path(of: request) else { return .refused(ServerResponse.plain(.badRequest)) }
        guard server.isFromOwnPage(request) else { return .refused(ServerResponse.plain(.forbidden)) }
        guard route.methods.contains(request.method) else { return .refused(ServerResponse.plain(.methodNotAllowed)) }
        let rest = path.dropFirst(route.prefix.count)
        guard let read = Self.reading(of: rest),
            // RFC 10017 section 6.1.3.6, RFC 3986 section 6.2.2: `%61dmin`, `admin;a=b`, `ADMIN` and `admin` must not get around the route of
            // `admin/`.
            isRoute(route, of: "\(route.prefix)\(read)/".lowercased()),
            target.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "#") }),
            let endpoint = try? Endpoint("\(route.target.url)\(rest)\(target.dropFirst(path.count))"),
            endpoint.origin == route.target.origin, endpoint.path.hasPrefix(route.target.path)
        else { return .refused(ServerResponse.plain(.badRequest)) }
        guard server.sessionIdentifier(of: request) != nil else { return .refused(ServerResponse.plain(.unauthorized)) }
        return .admitted(endpoint)
    }

    /// Whether the response to a request is streamed.
    public func streams(_ request: HTTPRequest) -> Bool {
        request.method != .head && route(of: request)?.streamsResponses == true
    }

    /// Returns the API's response to a request; nil when no route matches.
    ///
    /// 403: it does not come from a page of the application, or the session is of another provider. 401: there is no session. 405 and
    /// 400: the method or the path is not forwarded. 413: the body is too large. 429: too many requests of this user are in progress. 502: the API
    /// does not respond, or redirects, which is not followed. 503: the session or its tokens are unavailable.
    /// - Parameters:
    ///   - request: The request, its path as it was sent.
    ///   - body: The body.
    public func response(to request: HTTPRequest, body: [UInt8] = []) async -> TransportResponse? {
        guard let route = route(of: request) else { return nil }
        switch await forward(request, body, route, isStreamed: false) {
        case .whole(let response): return response
        case .stream: return ServerResponse.plain(.badGateway)
        }
    }

    /// As ``response(to:body:)``, and for routes with `streamsResponses` once the headers of the response have arrived. A user's request
    /// counts as in progress until the last reference to the body is released.
    public func streamedResponse(to request: HTTPRequest, body: [UInt8] = []) async -> ResponseStream? {
        guard let route = route(of: request) else { return nil }
        switch await forward(request, body, route, isStreamed: streams(request)) {
        case .whole(let response): return ResponseStream(head: response.head, body: ResponseBody(response.body))
        case .stream(let response): return response
        }
    }

    private enum Answer {
        case whole(TransportResponse)
        case stream(ResponseStream)
    }

    private func forward(_ request: HTTPRequest, _ body: [UInt8], _ route: Route, isStreamed: Bool) async -> Answer {
        let endpoint: Endpoint
        switch admission(of: request, to: route) {
        case .admitted(let admitted): endpoint = admitted
        case .refused(let response): return .whole(response)
        }
        guard body.count <= route.maximumRequestSize else { return .whole(ServerResponse.plain(.contentTooLarge)) }
        let session: Session
        let tokens: TokenSet
        let provider: ProviderSessions
        do {
            guard let found = try await server.session(of: request) else {
                return .whole(ServerResponse.plain(.unauthorized))
            }
            session = found
            provider = try server.sessions(of: found)
            // The tokens of one provider are not for the APIs of another.
            guard try server.isSession(found, of: route.provider) else {
                return .whole(ServerResponse.plain(.forbidden))
            }
            tokens = try await server.freshTokens(for: session, resource: route.resource)
        } catch {
            return .whole(
                (error as? AuthError).flatMap(SessionServer.response) ?? ServerResponse.plain(.badGateway)
            )
        }
        do {
            var forwarded = TransportRequest(
                request.method,
                endpoint,
                headerFields: forwardedFields(request, route),
                body: body,
                maximumResponseSize: route.maximumResponseSize
            )
            // A slow API must not keep token requests waiting, nor a stream other calls of the API.
            forwarded.pool = isStreamed ? .streams : .resources
            forwarded.holdsBack = isStreamed
            // One account can have many sessions.
            let user = session.identity.map { "\($0.issuer)\n\($0.subject)" } ?? session.name
            let place = try await (isStreamed ? streamLimit : limit).place(for: user, clock: server.host.clock)
            // A redirect would send the request, and the browser, to a host that is not in the list: an error here.
            guard isStreamed else {
                let response = try await provider.client.send(forwarded, with: tokens)
                return .whole(withExtendedLifetime(place) { returned(response, to: request.method, route) })
            }
            let response = try await provider.client.stream(forwarded, with: tokens)
            response.body.attach(
                StreamEnd(of: response.body, place, after: route.maximumStreamDuration, clock: server.host.clock)
            )
            return .stream(
                ResponseStream(head: returned(response.head, to: request.method, route), body: response.body)
            )
        } catch is RequestLimit.Exceeded {
            // RFC 6585 section 4: the response "MAY include a Retry-After header".
            var response = ServerResponse.plain(.tooManyRequests)
            response.head.headerFields[.retryAfter] = "2"
            return .whole(response)
        } catch {
            return .whole(ServerResponse.plain(.badGateway))
        }
    }

    /// The path behind a prefix as lenient servers read it: decoded, without parameters, in lower case; nil where servers disagree.
    private static func reading(of path: Substring) -> String? {
        let lowercased = path.lowercased()
        guard !path.contains("\\"), !lowercased.contains("%2f"), !lowercased.contains("%5c"),
            let decoded = FormURLEncoding.percentDecoded(String(path)).map({ Array($0.utf8) }),
            // A percent sign indicates double encoding; a control character could end a line or a string elsewhere.
            decoded.allSatisfy({ $0 >= 0x20 && $0 != 0x7F && $0 != UInt8(ascii: "%") })
        else { return nil }
        // As bytes: to Swift's characters a mark would hide a slash or a semicolon.
        let names = decoded.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
            .map { $0.prefix { !";?#".utf8.contains($0) } }
        guard !names.dropLast().contains(where: \.isEmpty),
            !names.contains(where: { $0.elementsEqual(".".utf8) || $0.elementsEqual("..".utf8) })
        else { return nil }
        return String(decoding: Array(names.joined(separator: [UInt8(ascii: "/")])), as: UTF8.self).lowercased()
    }

    private func isRoute(_ route: Route, of path: String) -> Bool {
        let found = routes.first { path.utf8.starts(with: $0.prefix.lowercased().utf8) }
        return found?.prefix.lowercased() == route.prefix.lowercased()
    }

    /// The fields that are forwarded to every API: none that identifies the browser to this application, and none that overrides the
    /// method, the path or the client's address.
    private static let forwarded: Set<String> = [
        "accept", "accept-language", "cache-control", "content-language", "content-type", "idempotency-key", "if-match",
        "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "prefer", "priority", "range",
        "user-agent",
    ]

    /// The fields that are returned to every page: none that sets a policy for the application's origin.
    private static let returned: Set<String> = [
        "accept-ranges", "age", "allow", "content-disposition", "content-language", "content-range", "content-type",
        "date", "etag", "expires", "last-modified", "preference-applied", "ratelimit", "ratelimit-limit",
        "ratelimit-policy", "ratelimit-remaining", "ratelimit-reset", "retry-after",
    ]

    /// RFC 9110 section 7.6.1: the fields that "Connection" names go no further.
    private static func passing(_ fields: HTTPFields, _ names: Set<String>) -> HTTPFields {
        let named = fields[values: .connection].filter { $0.utf8.allSatisfy { $0 < 0x80 } }.flatMap { value in
            value.lowercased().split(separator: ",").map { $0.trimmingSpaces() }
        }
        var passing = HTTPFields()
        for field in fields
        where names.contains(field.name.canonicalName) && !named.contains(field.name.canonicalName) {
            passing.append(field)
        }
        return passing
    }

    private func forwardedFields(_ request: HTTPRequest, _ route: Route) -> HTTPFields {
        var fields = Self.passing(request.headerFields, Self.forwarded.union(route.forwardedFields))
        fields[server.headerName] = nil
        // RFC 9110 section 7.6.3: a gateway "MUST send an appropriate Via header field in each inbound request message".
        fields[.via] = "1.1 authflow"
        // The transport decodes the body, so a length or a range would not match it.
        if request.method == .head || fields[.range] != nil || route.streamsResponses {
            fields[.acceptEncoding] = "identity"
        }
        return fields
    }

    private func returned(
        _ response: TransportResponse,
        to method: HTTPRequest.Method,
        _ route: Route
    ) -> TransportResponse {
        TransportResponse(head: returned(response.head, to: method, route), body: response.body)
    }

    private func returned(_ response: HTTPResponse, to method: HTTPRequest.Method, _ route: Route) -> HTTPResponse {
        let received = response.headerFields
        var head = HTTPResponse(status: response.status)
        head.headerFields = Self.passing(received, Self.returned.union(route.returnedFields))
        head.headerFields[.cacheControl] = Self.cacheControl(received)
        // Another user of the same browser has another cookie. What a script has fetched is not what a navigation to the same address gets,
        // which has no header field of the application's and is refused.
        head.headerFields[.vary] =
            (received[values: .vary] + [server.headerName.rawName, "Origin", "Sec-Fetch-Site", "Cookie"])
            .joined(separator: ", ")
        // Content of an API that a browser shows as a page of the application's origin runs no script there.
        head.headerFields[.contentSecurityPolicy] = "sandbox; default-src 'none'; frame-ancestors 'none'"
        head.headerFields[.xContentTypeOptions] = "nosniff"
        // RFC 9110 section 8.6: with HEAD, the length "if the same request had used the GET method".
        if method == .head, received[.contentEncoding] == nil {
            head.headerFields[.contentLength] = received[.contentLength]
        }
        return head
    }

    /// RFC 9111 section 3.5 keeps shared caches from responses to requests with Authorization. The page's request has none, so the response
    /// says it.
    private static func cacheControl(_ fields: HTTPFields) -> String {
        let directives = fields[values: .cacheControl].flatMap { value in
            value.lowercased().split(separator: ",").map { $0.trimmingSpaces() }
        }
        let kept = directives.compactMap { directive -> String? in
            if directive.hasPrefix("max-age=") { return Int(directive.dropFirst(8)).map { "max-age=\($0)" } }
            let name = String(directive.prefix { $0 != "=" })
            return ["immutable", "must-revalidate", "no-cache", "no-store"].contains(name) ? name : nil
        }
        return (["private"] + (kept.isEmpty ? ["no-cache"] : kept)).joined(separator: ", ")
    }
}

/// Aborts a stream after its maximum duration, and holds the slot of its request until then.
private final class StreamEnd: Sendable {
    private let place: RequestLimit.Place
    private let task: Task<Void, Never>

    init(of body: ResponseBody, _ place: RequestLimit.Place, after duration: Duration, clock: any Clock<Duration>) {
        self.place = place
        self.task = Task { [weak body] in
            guard (try? await clock.sleep(for: duration)) != nil else { return }
            body?.cancel(throwing: AuthError(.timedOut, "The response exceeded its maximum duration."))
        }
    }

    deinit { task.cancel() }
}
