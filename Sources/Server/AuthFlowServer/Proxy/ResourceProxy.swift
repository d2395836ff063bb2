public import AuthFlow

/// Forwards requests from the application's pages to APIs, with the session's access token instead of the session
/// cookie.
///
/// RFC 10017 section 6.1.3.6: "the BFF MUST" send only to an explicit list of hosts, and "strictly validate" paths. The
/// request determines only the part of the URL after the prefix of its route.
public struct ResourceProxy: Sendable {
    let server: SessionServer
    private let routes: [Route]
    private let limit = RequestLimit()
    /// Streams have separate slots, so that other requests do not wait for them.
    private let streamLimit = RequestLimit()

    /// Creates a proxy.
    /// - Parameters:
    ///   - server: The sessions.
    ///   - routes: The routes. The longest matching prefix is used.
    public init(server: SessionServer, routes: [Route]) {
        self.server = server
        self.routes = routes.sorted { $0.prefix.utf8.count > $1.prefix.utf8.count }
    }

    /// Whether a request matches one of the routes. If so, read its body, unless ``streamsBody(of:)`` returns true.
    public func handles(_ request: HTTPRequest) -> Bool { route(of: request) != nil }

    /// The maximum size of a request body that is not streamed, in bytes; nil if no route matches. Do not read more
    /// than this.
    public func maximumRequestSize(of request: HTTPRequest) -> Int? {
        route(of: request).map { route in
            // The limit for streamed bodies can exceed the available memory.
            route.streamsRequests ? min(route.maximumRequestSize, Self.bufferedSize) : route.maximumRequestSize
        }
    }

    private static let bufferedSize = 1024 * 1024

    private func route(of request: HTTPRequest) -> Route? {
        let target = (request.path ?? "/").utf8
        return routes.first { target.starts(with: $0.prefix.utf8) }
    }

    /// Returns the response to a request that is rejected regardless of its body; nil for any other request. Call it
    /// before reading the body.
    public func refusal(of request: HTTPRequest) -> TransportResponse? {
        guard let route = route(of: request) else { return nil }
        do throws(Refusal) {
            _ = try endpoint(of: request, route)
            return nil
        } catch {
            report(error, route)
            return error.response(to: request.method)
        }
    }

    /// A request that is not forwarded, or a response that is not returned.
    private struct Refusal: Error {
        var response: TransportResponse
        /// The failure of the API or the session; nil if the request itself is invalid.
        let cause: (any Error)?

        init(_ status: HTTPResponse.Status, retryAfter: String? = nil, cause: (any Error)? = nil) {
            response = ServerResponse.plain(status)
            response.head.headerFields[.retryAfter] = retryAfter
            self.cause = cause
        }

        /// A rejection whose body states the reason, for the developer of the page.
        init(_ status: HTTPResponse.Status, _ reason: String) {
            response = ServerResponse.plain(status, Array("\(reason)\n".utf8), "text/plain; charset=utf-8")
            cause = nil
        }

        func response(to method: HTTPRequest.Method) -> TransportResponse {
            method == .head ? TransportResponse(head: response.head) : response
        }
    }

    /// Publishes an event for a request that was not forwarded. A failure of the API or of the session is reported as a failed step; an invalid request
    /// is reported only as a note, because any client can send such requests.
    private func report(_ refusal: Refusal, _ route: Route) {
        let details = ["route": route.prefix, "status": "\(refusal.response.status)"]
        let reporter = FlowReporter(host: server.host, observer: server.observer)
        guard let cause = refusal.cause else { return reporter.report(.forwarding, details: details) }
        reporter.report(.forwarding, failedWith: cause, details: details)
    }

    /// The endpoint of the API to which a request is forwarded.
    private func endpoint(of request: HTTPRequest, _ route: Route) throws(Refusal) -> Endpoint {
        let target = request.path ?? "/"
        guard let path = SessionServer.path(of: request) else { throw Refusal(.badRequest) }
        guard server.isFromOwnPage(request) else {
            throw Refusal(
                .forbidden,
                "A script on the application's own pages must send the header field \(server.headerName.rawName)."
            )
        }
        guard route.methods.contains(request.method) else {
            var refusal = Refusal(.methodNotAllowed, "The route does not forward \(request.method.rawValue) requests.")
            // RFC 9110 section 15.5.6: a server "MUST generate an Allow header field in a 405 response".
            let methods = route.methods.map(\.rawValue).sorted()
            refusal.response.head.headerFields[.allow] = methods.joined(separator: ", ")
            throw refusal
        }
        guard !Self.hasBody(request) || Self.allowsBody(request.method) else { throw Refusal(.badRequest) }
        let rest = path.dropFirst(route.prefix.count)
        guard let read = Self.reading(of: rest),
            // RFC 10017 section 6.1.3.6, RFC 3986 section 6.2.2: `%61dmin`, `admin;a=b`, `ADMIN` and `admin` must not
            // bypass the route of `admin/`.
            isRoute(route, of: "\(route.prefix)\(read)/".lowercased()),
            target.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "#") }),
            let endpoint = try? Endpoint("\(route.target.url)\(rest)\(target.dropFirst(path.count))"),
            endpoint.origin == route.target.origin, endpoint.path.hasPrefix(route.target.path)
        else { throw Refusal(.badRequest) }
        guard server.sessionIdentifier(of: request) != nil else { throw Refusal(.unauthorized) }
        return endpoint
    }

    /// Whether the body of a request is streamed. If so, do not read it: see ``streamedResponse(to:upload:)``.
    public func streamsBody(of request: HTTPRequest) -> Bool {
        route(of: request)?.streamsRequests == true && Self.allowsBody(request.method) && Self.hasBody(request)
    }

    /// RFC 9112 section 6.3: a request with neither Content-Length nor Transfer-Encoding has no body.
    private static func hasBody(_ request: HTTPRequest) -> Bool {
        if let length = request.headerFields[.contentLength] { return length != "0" }
        return request.headerFields[.transferEncoding] != nil
    }

    /// RFC 9110 section 9.3.1: content in a GET request "might lead some implementations to reject the request and close the connection because of
    /// its potential as a request smuggling attack". Many APIs ignore such content.
    private static func allowsBody(_ method: HTTPRequest.Method) -> Bool {
        ![.get, .head, .options, .trace].contains(method)
    }

    /// Whether the response to a request is streamed.
    public func streams(_ request: HTTPRequest) -> Bool {
        request.method != .head && route(of: request)?.streamsResponses == true
    }

    /// Returns the API's response to a request; nil if no route matches. If the API responds with 401, the access token is refreshed, at most once
    /// a minute, and the request is sent once more, unless its body is streamed.
    ///
    /// 403: the request does not come from a page of the application, or the session belongs to another provider. 401:
    /// the request has no session. 405: the method is not forwarded. 400: the path is invalid, or the method does not allow a body. 413: the
    /// body is too large. 429: too many requests from this user are in progress. 502: the API does not respond, or responds with a redirect;
    /// redirects are not followed. 503: the session or its tokens are unavailable.
    /// - Parameters:
    ///   - request: The request, with its path exactly as received.
    ///   - body: The body.
    public func response(to request: HTTPRequest, body: [UInt8] = []) async -> TransportResponse? {
        guard let route = route(of: request) else { return nil }
        switch await forward(request, .whole(body), route, isStreamed: false) {
        case .whole(let response): return response
        case .stream: return ServerResponse.plain(.badGateway)
        }
    }

    /// Like ``response(to:body:)``, but for routes with `streamsResponses` it returns once the response headers have arrived. A user's
    /// request counts as in progress until the last reference to the body is released.
    public func streamedResponse(to request: HTTPRequest, body: [UInt8] = []) async -> ResponseStream? {
        await streamedResponse(to: request, .whole(body))
    }

    /// Like ``streamedResponse(to:body:)``, but for routes with `streamsRequests`: the API receives the body as it arrives, and the function
    /// returns once the API has received the whole body or has stopped accepting it.
    ///
    /// 400: the upload ended early, or its length is negative. 408: the upload stalled, or exceeded its maximum duration. 503: the API requires a
    /// nonce (RFC 9449 section 9), which it provides only in a response, and the body cannot be read twice. The next request includes the nonce.
    public func streamedResponse(to request: HTTPRequest, upload: UploadBody) async -> ResponseStream? {
        await streamedResponse(to: request, .upload(upload))
    }

    private func streamedResponse(to request: HTTPRequest, _ body: Body) async -> ResponseStream? {
        guard let route = route(of: request) else { return nil }
        switch await forward(request, body, route, isStreamed: streams(request)) {
        case .whole(let response): return ResponseStream(head: response.head, body: ResponseBody(response.body))
        case .stream(let response): return response
        }
    }

    private enum Body {
        case whole([UInt8])
        case upload(UploadBody)

        /// The number of bytes; nil if unknown.
        var length: Int? {
            switch self {
            case .whole(let bytes): bytes.count
            case .upload(let body): body.length
            }
        }
    }

    private enum Answer {
        case whole(TransportResponse)
        case stream(ResponseStream)
    }

    private func forward(_ request: HTTPRequest, _ body: Body, _ route: Route, isStreamed: Bool) async -> Answer {
        do throws(Refusal) {
            let endpoint = try endpoint(of: request, route)
            // The application may pass on the value of Content-Length unchecked, which a client can choose.
            guard body.length ?? 0 >= 0 else { throw Refusal(.badRequest) }
            guard body.length ?? 0 <= route.maximumRequestSize else { throw Refusal(.contentTooLarge) }
            guard body.length == 0 || Self.allowsBody(request.method) else { throw Refusal(.badRequest) }
            let access = try await access(of: request, route)
            do {
                return try await exchange(request, body, route, endpoint, access, isStreamed: isStreamed)
            } catch {
                throw Self.refusal(after: error)
            }
        } catch {
            report(error, route)
            return .whole(error.response(to: request.method))
        }
    }

    /// The session of a request, and its provider.
    private struct Access {
        let session: Session
        let provider: ProviderSessions

        /// The user, who can have many sessions.
        var user: String { session.identity.map { "\($0.issuer)\n\($0.subject)" } ?? session.name }
    }

    private func access(of request: HTTPRequest, _ route: Route) async throws(Refusal) -> Access {
        do {
            guard let session = try await server.session(of: request) else { throw Refusal(.unauthorized) }
            let provider = try server.sessions(of: session)
            // Tokens from one provider must not be sent to another provider's APIs.
            guard try server.isSession(session, of: route.provider) else {
                throw Refusal(.forbidden, "The session and this route belong to different providers.")
            }
            _ = try await freshTokens(for: session, route)
            return Access(session: session, provider: provider)
        } catch {
            throw Self.refusal(withoutTokens: error)
        }
    }

    private func freshTokens(for session: Session, _ route: Route) async throws(Refusal) -> TokenSet {
        do {
            return try await server.freshTokens(for: session, resource: route.resource)
        } catch {
            throw Self.refusal(withoutTokens: error)
        }
    }

    /// The response to a request without a usable session or access token.
    private static func refusal(withoutTokens error: any Error) -> Refusal {
        if let refusal = error as? Refusal { return refusal }
        let isEnded = (error as? AuthError)?.code == .loginRequired
        var refusal = Refusal(.badGateway, cause: isEnded ? nil : error)
        if let response = (error as? AuthError).flatMap(SessionServer.response) { refusal.response = response }
        return refusal
    }

    /// Sends a request to the API, once the user has fewer requests in progress than the limit.
    private func exchange(
        _ request: HTTPRequest,
        _ body: Body,
        _ route: Route,
        _ endpoint: Endpoint,
        _ access: Access,
        isStreamed: Bool
    ) async throws -> Answer {
        var forwarded = TransportRequest(
            request.method,
            endpoint,
            headerFields: forwardedFields(request, route),
            maximumResponseSize: route.maximumResponseSize
        )
        var upload: UploadBody?
        switch body {
        case .whole(let bytes): forwarded.body = bytes
        case .upload(let body) where streamsBody(of: request): upload = bounded(body, route)
        case .upload(let body): forwarded.body = try await bounded(body, route).collected()
        }
        forwarded.isLastOnConnection = !forwarded.body.isEmpty
        // A slow API must not delay token requests, and a stream must not delay other calls to the API.
        let isLong = isStreamed || upload != nil
        forwarded.pool = isLong ? .streams : .resources
        forwarded.appliesBackpressure = isStreamed
        let clock = server.host.clock
        let slot = try await (isLong ? streamLimit : limit).slot(for: access.user, clock: clock)
        let client = access.provider.client
        // While the body arrived, the token may have expired, or the user may have signed out.
        let tokens = try await freshTokens(for: access.session, route)
        guard isLong else {
            var response = try await client.send(forwarded, with: tokens)
            if let newer = await replacement(for: tokens, rejectedBy: response.head, access, route) {
                response = try await client.send(forwarded, with: newer)
            }
            return .whole(withExtendedLifetime(slot) { returned(response, to: request.method, route) })
        }
        var response = try await client.stream(forwarded, body: upload, with: tokens)
        // A streamed body cannot be read twice, but the next request has the new token.
        if let newer = await replacement(for: tokens, rejectedBy: response.head, access, route), upload == nil {
            response.body.cancel()
            response = try await client.stream(forwarded, with: newer)
        }
        let duration = isStreamed ? route.maximumStreamDuration : forwarded.timeout
        response.body.attach(StreamEnd(of: response.body, slot, after: duration, clock: clock))
        guard isStreamed else {
            let body = try await response.body.collect(upTo: route.maximumResponseSize)
            let whole = TransportResponse(head: response.head, body: body)
            return .whole(returned(whole, to: request.method, route))
        }
        return .stream(ResponseStream(head: returned(response.head, to: request.method, route), body: response.body))
    }

    /// Other tokens, if the API has rejected the access token: the provider may have revoked it before its expiry.
    /// - Returns: nil if the API has not rejected the token, or it cannot be replaced. The page then receives the API's response.
    private func replacement(
        for tokens: TokenSet,
        rejectedBy head: HTTPResponse,
        _ access: Access,
        _ route: Route
    ) async -> TokenSet? {
        guard Self.rejectsToken(head) else { return nil }
        return try? await server.tokens(
            for: access.session,
            resource: route.resource,
            replacing: tokens.accessToken
        )
    }

    /// Whether the API has rejected the access token (RFC 6750 section 3.1), rather than the user's authentication or a DPoP proof.
    private static func rejectsToken(_ head: HTTPResponse) -> Bool {
        head.status.code == 401
            && AuthenticationChallenge.challenges(in: head.headerFields).allSatisfy {
                $0.parameters["error"] ?? "invalid_token" == "invalid_token"
            }
    }

    /// The response to a request that was not forwarded, or to which the API did not respond. A redirect is also an
    /// error, because it could send the request or the browser to a host that is not on the allowlist.
    private static func refusal(after error: any Error) -> Refusal {
        let known = error as? AuthError
        switch known?.underlyingError ?? error {
        case let refusal as Refusal: return refusal
        // RFC 6585 section 4: the response "MAY include a Retry-After header".
        case is RequestLimit.Exceeded: return Refusal(.tooManyRequests, retryAfter: "2")
        case is BoundedUpload.TooLarge: return Refusal(.contentTooLarge)
        // The API is not the cause: any client can delay or abort an upload.
        case is BoundedUpload.TooSlow, is UploadStalled: return Refusal(.requestTimeout)
        case is BoundedUpload.EndedEarly: return Refusal(.badRequest)
        case _ where known?.code == .temporarilyUnavailable:
            return Refusal(.serviceUnavailable, retryAfter: "1", cause: error)
        default: return Refusal(.badGateway, cause: error)
        }
    }

    private func bounded(_ body: UploadBody, _ route: Route) -> UploadBody {
        let parts = BoundedUpload(
            parts: body.parts,
            length: body.length,
            maximumSize: route.maximumRequestSize,
            maximumDuration: route.maximumStreamDuration,
            clock: server.host.clock
        )
        return UploadBody(parts, length: body.length)
    }

    /// Returns the path after a prefix as a lenient server would interpret it: percent-decoded, without parameters, in
    /// lower case; nil if servers may interpret it differently.
    private static func reading(of path: Substring) -> String? {
        let lowercased = path.lowercased()
        guard !path.contains("\\"), !lowercased.contains("%2f"), !lowercased.contains("%5c"),
            let decoded = FormURLEncoding.percentDecoded(String(path)).map({ Array($0.utf8) }),
            // A percent sign indicates double encoding; a control character could end a line or a string elsewhere.
            decoded.allSatisfy({ $0 >= 0x20 && $0 != 0x7F && $0 != UInt8(ascii: "%") })
        else { return nil }
        // The comparison is bytewise: in Swift, a slash or semicolon followed by a combining mark is one `Character`.
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
}

/// Aborts a stream after its maximum duration, and holds the slot of its request until the stream is released.
private final class StreamEnd: Sendable {
    private let slot: RequestLimit.Slot
    private let task: Task<Void, Never>

    init(of body: ResponseBody, _ slot: RequestLimit.Slot, after duration: Duration, clock: any Clock<Duration>) {
        self.slot = slot
        self.task = Task { [weak body] in
            guard (try? await clock.sleep(for: min(duration, .longestSleep))) != nil else { return }
            body?.cancel(throwing: AuthError(.timedOut, "The response exceeded its maximum duration."))
        }
    }

    deinit { task.cancel() }
}
