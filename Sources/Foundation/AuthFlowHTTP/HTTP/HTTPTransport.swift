public import AuthFlowEssentials
public import HTTPTypes

/// A type that sends an HTTP request and returns the response.
///
/// It must not follow redirects, store cookies, or cache responses: the engine handles all three. It must enforce the
/// limits in the request, and send a `User-Agent` header field with each request, because some APIs reject requests without one.
/// A fake for tests needs only one method:
///
/// ```swift
/// struct OfflineTransport: HTTPTransport {
///     func send(_ call: TransportRequest) async throws -> TransportResponse {
///         throw AuthError(.networkFailed, "No network.")
///     }
/// }
/// ```
public protocol HTTPTransport: Sendable {
    /// Sends a request and returns the whole response.
    /// - Throws: ``AuthError`` with `network_failed` when no response arrived, `timed_out` when it took too long,
    ///   `invalid_response` when it is larger than the request allows; `CancellationError` when the task is cancelled.
    func send(_ call: TransportRequest) async throws -> TransportResponse

    /// Sends a request and returns the response as soon as its status and headers have arrived, for event streams.
    ///
    /// The request's timeout applies to the headers, and the maximum body size limits the unread bytes. The default implementation waits for the whole response.
    /// - Throws: The same errors as ``send(_:)``. Reading the body throws an error if the body ends early.
    func stream(_ call: TransportRequest) async throws -> ResponseStream

    /// Sends a request with a streamed body. Returns the response once its headers have arrived and the request body
    /// has been sent or is no longer accepted.
    ///
    /// The timeout applies to each part of the body, and to the headers after the last part. The request is sent only
    /// once, because the body cannot be read again.
    /// The default implementation collects the body and sends it as a whole.
    /// - Throws: The same errors as ``stream(_:)``; `network_failed` with the body's error as its `underlyingError`
    ///   when the body ends early.
    func stream(_ call: TransportRequest, body: UploadBody) async throws -> ResponseStream
}

extension HTTPTransport {
    public func stream(_ call: TransportRequest) async throws -> ResponseStream {
        let response = try await send(call)
        var stream = ResponseStream(head: response.head, body: ResponseBody(response.body))
        stream.reach = response.reach
        return stream
    }

    public func stream(_ call: TransportRequest, body: UploadBody) async throws -> ResponseStream {
        var call = call
        do {
            call.body = try await body.collected()
        } catch {
            throw AuthError.bodyEndedEarly(of: call, error)
        }
        return try await stream(call)
    }
}

extension AuthError {
    /// The error for a request whose body could not be read completely.
    package static func bodyEndedEarly(of call: TransportRequest, _ error: any Error) -> any Error {
        error is CancellationError
            ? error : AuthError(.networkFailed, "The body of \(call) ended early.", underlyingError: error)
    }
}

/// A request, with the limits for its response.
public struct TransportRequest: Sendable {
    /// The method, URL and header fields.
    public var head: HTTPRequest

    /// The body; empty for none.
    public var body: [UInt8]

    /// The timeout for a connection to become available, and again for the response after the request has been sent.
    public var timeout: Duration

    /// The maximum size of the response body, in bytes.
    public var maximumResponseSize: Int

    /// Whether a streamed response is paused while the reader is slower than the server (backpressure), instead of failing
    /// when ``maximumResponseSize`` bytes are waiting to be read. Linux only.
    package var appliesBackpressure = false

    /// Whether the connection is closed after the response. RFC 9112 section 9.3: "A server MUST read the entire
    /// request message body or close the connection after sending its response". A server that does neither could
    /// parse a body as the next request on the connection, with another user's token (request smuggling), so the
    /// connection is closed after a request whose body comes from a browser. Linux only.
    package var isLastOnConnection = false

    /// The connection pool that the request uses; default: the pool for authorization servers.
    public var pool = ConnectionPool.authorizationServers

    /// The most local scope of addresses that the connection may use; default: the endpoint's `allowedReach`. A transport rejects
    /// a more local address before it connects, and does not reuse an existing connection to such an address.
    package var allowedReach: NetworkReach

    /// The checks that run immediately before the request is sent.
    private var checks: [@Sendable () throws(AuthError) -> Void] = []

    /// Creates a request.
    /// - Parameters:
    ///   - method: The HTTP method.
    ///   - endpoint: The endpoint that receives the request.
    ///   - headerFields: The header fields.
    ///   - body: The body; empty for none.
    ///   - timeout: The timeout for sending, and again for the response; default: 30 seconds.
    ///   - maximumResponseSize: The maximum size of the response body, in bytes; default: 1 MiB.
    public init(
        _ method: HTTPRequest.Method,
        _ endpoint: Endpoint,
        headerFields: HTTPFields = [:],
        body: [UInt8] = [],
        timeout: Duration = .seconds(30),
        maximumResponseSize: Int = 1024 * 1024
    ) {
        self.head = HTTPRequest(
            method: method,
            scheme: endpoint.scheme,
            authority: endpoint.authority,
            path: endpoint.requestTarget,
            headerFields: headerFields
        )
        self.body = body
        self.allowedReach = endpoint.allowedReach
        self.timeout = timeout
        self.maximumResponseSize = maximumResponseSize
    }

    /// The URL of the request.
    public var url: String { "\(head.scheme ?? "https")://\(head.authority ?? "")\(head.path ?? "/")" }

    /// Adds a check that runs immediately before the request is sent, on the transport's thread. If it throws, the
    /// request is not sent.
    package mutating func addCheckBeforeSending(_ check: @escaping @Sendable () throws(AuthError) -> Void) {
        checks.append(check)
    }

    /// Runs the checks. A transport must call this method immediately before it sends the request, also before a retry, and must not
    /// send the request if the method throws. If it has been called when the timeout expires, the same timeout applies again, for the
    /// response; if a transport never calls this method, a single timeout applies to the whole request.
    /// - Throws: ``AuthError`` with the reason for not sending the request.
    public func willSend() throws(AuthError) {
        for check in checks { try check() }
    }
}

/// A group of connections that requests share. Requests in one pool never wait for requests in another.
public struct ConnectionPool: RawRepresentable, Sendable, Hashable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// Connections to authorization servers: discovery, token requests, keys and UserInfo.
    public static let authorizationServers = Self(rawValue: "authorization_servers")
    /// Connections to APIs that are called with an access token.
    public static let resources = Self(rawValue: "resources")
    /// Connections to APIs with streamed responses, which may be long-lived.
    public static let streams = Self(rawValue: "streams")
}

extension TransportRequest: CustomStringConvertible, NonReflectable {
    /// The method and the redacted URL, because header fields and bodies may contain secrets.
    public var description: String { "\(head.method) \(Redaction.url(url))" }
}

/// A response: status, header fields and the whole body.
public struct TransportResponse: Sendable {
    /// The status and header fields.
    public var head: HTTPResponse

    /// The body.
    public var body: [UInt8]

    /// The scope of the peer's address; nil when the transport does not report it, or a proxy is used.
    package var reach: NetworkReach?

    /// The request, whose secrets the response may repeat; nil when the response was not received with ``ExchangeLimits``.
    package var request: TransportRequest?

    /// Creates a response.
    public init(head: HTTPResponse, body: [UInt8] = []) {
        self.head = head
        self.body = body
    }

    /// The status code.
    public var status: Int { head.status.code }

    /// The media type of the body in lower case, without parameters; empty when the response does not specify one.
    public var mediaType: String {
        let value = head.headerFields[.contentType] ?? ""
        return String(value.unicodeScalars.prefix { $0 != ";" }).trimmingSpaces().lowercased()
    }

    /// The number of seconds by which this machine's clock is ahead of the server's, according to `Date` (RFC 9110 section
    /// 6.6.1); nil when the response has no valid `Date`.
    /// - Parameter now: The time at which the response was received.
    package func clockOffset(at now: Date) -> TimeInterval? {
        guard let date = head.headerFields[.date].flatMap({ HTTPDate.date($0, now: now) }) else { return nil }
        // RFC 9111 section 5.1: a cache sends the original Date, and in Age the number of seconds since then. Some caches replace the Date.
        let age = head.headerFields[.age].flatMap { UInt32($0) } ?? 0
        let offset = now.timeIntervalSince(date)
        return [offset, offset - TimeInterval(age)].min { abs($0) < abs($1) }
    }

    /// The correction for this machine's clock, in seconds. The `Date` header has a resolution of one second, so small differences are ignored.
    /// A difference of more than a day is attributed to the server's clock.
    /// - Parameter offset: The number of seconds by which this machine's clock is ahead of the server's; nil when unknown.
    package static func clockCorrection(for offset: TimeInterval?) -> TimeInterval {
        guard let offset, 5...86_400 ~= abs(offset) else { return 0 }
        return offset
    }

    /// `Retry-After` (RFC 9110 section 10.2.3): the delay before a retry; nil when the response does not specify one.
    public func retryAfter(now: Date) -> Duration? {
        guard let value = head.headerFields[.retryAfter] else { return nil }
        if let seconds = UInt32(value) { return .seconds(Int(seconds)) }
        return HTTPDate.date(value, now: now).map {
            .seconds(max(0, Int($0.timeIntervalSince(serverTime(at: now)).rounded(.up))))
        }
    }

    /// The server's time, according to `Date`. Times in the response are compared with the server's time, because this machine's clock may be wrong.
    /// If the server's clock is wrong, the times in the response are, too, so this correction is not limited to a day.
    func serverTime(at now: Date) -> Date {
        guard let offset = clockOffset(at: now), abs(offset) >= 5 else { return now }
        return now - offset
    }
}

extension TransportResponse {
    /// The remaining freshness lifetime of the response (RFC 9111 section 4.2), within bounds, so that no server can cause
    /// constant refetching or prevent refetching.
    /// - Parameters:
    ///   - age: The default, in seconds.
    ///   - bounds: The bounds, in seconds.
    package func cacheAge(default age: TimeInterval, within bounds: ClosedRange<TimeInterval>) -> TimeInterval {
        let fields = head.headerFields[fields: .cacheControl].map { $0.value.lowercased() }
        let directives = fields.flatMap { $0.split(separator: ",") }.map { $0.trimmingSpaces() }
        if directives.contains(where: { $0 == "no-store" || $0 == "no-cache" }) { return bounds.lowerBound }
        // Section 5.2: recipients "ought to accept both forms" of an argument, token and quoted-string.
        let named = directives.first { $0.hasPrefix("max-age=") }.flatMap { Int($0.dropFirst(8).filter { $0 != "\"" }) }
        // Section 5.1: Age is the time since the origin server generated or validated the response.
        let elapsed = TimeInterval(head.headerFields[.age].flatMap { UInt32($0) } ?? 0)
        let lifetime = named.map { TimeInterval($0) - elapsed } ?? age
        return min(max(lifetime, bounds.lowerBound), bounds.upperBound)
    }
}

extension TransportResponse: CustomStringConvertible, NonReflectable {
    /// The status and the size only, because bodies may contain tokens.
    public var description: String { "\(status), \(body.count) bytes" }
}

extension StringProtocol {
    /// Removes spaces and tabs at both ends.
    package func trimmingSpaces() -> String { trimming { $0 == " " || $0 == "\t" } }

    /// Removes spaces, tabs and line breaks at both ends.
    package func trimmingWhitespace() -> String { trimming { [" ", "\t", "\r", "\n"].contains($0) } }

    private func trimming(_ isDropped: (Unicode.Scalar) -> Bool) -> String {
        var scalars = String(self).unicodeScalars[...]
        scalars = scalars.drop(while: isDropped)
        while let last = scalars.last, isDropped(last) { scalars.removeLast() }
        return String(scalars)
    }
}
