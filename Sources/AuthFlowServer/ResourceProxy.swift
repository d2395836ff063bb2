public import AuthFlow
public import HTTPTypes

/// Hands requests of the application's pages on to APIs, with the access token of the session in place of its cookie.
///
/// RFC 10017 section 6.1.3.6: "the BFF MUST" send only to an explicit list of hosts, and "strictly validate" paths. Nothing of the address comes
/// from the request but what stands behind the prefix of its route.
public struct ResourceProxy: Sendable {
    /// A part of the application's addresses, and where its requests go.
    public struct Route: Sendable {
        let prefix: String
        let target: Endpoint
        let methods: Set<HTTPRequest.Method>
        let resource: String?

        /// Creates a route.
        /// - Parameters:
        ///   - prefix: The path that requests begin with. It begins and ends with a slash.
        ///   - target: What takes its place: the API's address, which ends with a slash.
        ///   - methods: The methods that are handed on; default: GET and HEAD.
        ///   - resource: The resource that the access token is for (RFC 8707); default: the session's own.
        /// - Throws: ``/AuthFlow/AuthError`` with `invalid_configuration`.
        public init(
            _ prefix: String,
            to target: Endpoint,
            methods: Set<HTTPRequest.Method> = [.get, .head],
            resource: String? = nil
        ) throws(AuthError) {
            guard prefix.hasPrefix("/"), prefix.hasSuffix("/"), target.path.hasSuffix("/"), target.query == nil else {
                throw AuthError(
                    .invalidConfiguration,
                    "A route's prefix begins and ends with a slash, and the API's address ends with one and has no query."
                )
            }
            self.prefix = prefix
            self.target = target
            self.methods = methods
            self.resource = resource
        }
    }

    private let server: SessionServer
    private let routes: [Route]

    /// Creates a proxy.
    /// - Parameters:
    ///   - server: The sessions.
    ///   - routes: The routes. The longest prefix counts.
    public init(server: SessionServer, routes: [Route]) {
        self.server = server
        self.routes = routes.sorted { $0.prefix.utf8.count > $1.prefix.utf8.count }
    }

    /// Whether a request is for one of the routes here. Its body has to be read then.
    public func handles(_ request: HTTPRequest) -> Bool { route(of: request) != nil }

    private func route(of request: HTTPRequest) -> Route? {
        let path = (request.path ?? "/").prefix { $0 != "?" }
        return routes.first { path.hasPrefix($0.prefix) }
    }

    /// Returns the API's response to a request; nil when it is for no route here.
    ///
    /// 403: it does not come from a page of the application. 401: there is no session. 405 and 400: the method or the path is not
    /// handed on. 502: the API does not respond, or redirects, which is not followed.
    /// - Parameters:
    ///   - request: The request, its path as it was sent.
    ///   - body: The body, bounded by the caller. The response is bounded to 1 MiB.
    public func response(to request: HTTPRequest, body: [UInt8] = []) async -> TransportResponse? {
        let target = request.path ?? "/"
        let path = String(target.prefix { $0 != "?" })
        guard let route = route(of: request) else { return nil }
        guard server.isFromOwnPage(request) else { return ServerResponse.plain(.forbidden) }
        guard route.methods.contains(request.method) else { return ServerResponse.plain(.methodNotAllowed) }
        let rest = path.dropFirst(route.prefix.count)
        guard Self.isPlain(rest), target.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "#") }),
            let endpoint = try? Endpoint("\(route.target.url)\(rest)\(target.dropFirst(path.count))"),
            endpoint.origin == route.target.origin, endpoint.path.hasPrefix(route.target.path)
        else { return ServerResponse.plain(.badRequest) }
        do {
            guard let session = try await server.session(of: request) else {
                return ServerResponse.plain(.unauthorized)
            }
            let tokens = try await server.freshTokens(for: session, resource: route.resource)
            var forwarded = TransportRequest(
                request.method,
                endpoint,
                headerFields: forwardedFields(request.headerFields),
                body: body
            )
            // A slow API must not keep token requests waiting.
            forwarded.pool = .resources
            let response = try await server.client.send(forwarded, with: tokens)
            // A redirect would take the request, and the browser, somewhere that is not in the list.
            guard !(300..<400).contains(response.status) || response.status == 304 else {
                return ServerResponse.plain(.badGateway)
            }
            return returned(response)
        } catch let error as AuthError where error.code == .loginRequired {
            return ServerResponse.plain(.unauthorized)
        } catch let error as AuthError where [.storageFailed, .leaseBusy].contains(error.code) {
            return ServerResponse.plain(.serviceUnavailable)
        } catch {
            return ServerResponse.plain(.badGateway)
        }
    }

    /// Whether a path means the same to every server: no dot segments, also before parameters (`..;`) or encoded twice, no empty ones, no
    /// slash or backslash that is written otherwise.
    private static func isPlain(_ path: Substring) -> Bool {
        let lowercased = path.lowercased()
        guard !path.contains("\\"), !lowercased.contains("%2f"), !lowercased.contains("%5c"),
            !lowercased.contains("%00"),
            let decoded = FormURLEncoding.percentDecoded(String(path)).map({ Array($0.utf8) }),
            // As bytes: to Swift's characters a mark would hide a slash or a semicolon. A percent sign is of a second encoding.
            !decoded.contains(UInt8(ascii: "%"))
        else { return false }
        let segments = decoded.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        let names = segments.map { $0.prefix { $0 != UInt8(ascii: ";") } }
        return !segments.dropLast().contains { $0.isEmpty }
            && !names.contains { $0.elementsEqual(".".utf8) || $0.elementsEqual("..".utf8) }
    }

    /// RFC 9110 section 7.6.1: these are about one connection.
    private static let connectionFields: Set<String> = [
        "connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
        "proxy-authenticate", "proxy-authorization",
    ]

    /// What an API is not told: who the browser is to this application.
    private static let ownFields: Set<String> = [
        "cookie", "authorization", "host", "content-length", "origin", "referer", "accept-encoding", "forwarded",
        "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "dpop",
    ]

    private func forwardedFields(_ fields: HTTPFields) -> HTTPFields {
        // "Connection" names more of them.
        let named = fields[fields: .connection].flatMap { field in
            field.value.lowercased().split(separator: ",").map { part in String(part.filter { $0 != " " }) }
        }
        let dropped = Self.connectionFields.union(Self.ownFields).union(named)
        var forwarded = HTTPFields()
        for field in fields {
            let name = field.name.canonicalName
            guard !dropped.contains(name), !name.hasPrefix("sec-"), field.name != server.headerName else { continue }
            forwarded.append(field)
        }
        return forwarded
    }

    private func returned(_ response: TransportResponse) -> TransportResponse {
        var head = HTTPResponse(status: response.head.status)
        let dropped = Self.connectionFields.union([
            "set-cookie", "content-length", "content-encoding", "strict-transport-security",
        ])
        for field in response.head.headerFields
        where !dropped.contains(field.name.canonicalName) && !field.name.canonicalName.hasPrefix("access-control-") {
            head.headerFields.append(field)
        }
        head.headerFields[.xContentTypeOptions] = "nosniff"
        return TransportResponse(head: head, body: response.body)
    }
}
