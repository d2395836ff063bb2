import AuthFlow
import AuthFlowEssentials
import Synchronization

/// The single endpoint of a remote MCP server, including the authorization of requests to it.
final class MCPEndpoint: Sendable {
    let client: ResourceClient
    private let transport: any HTTPTransport
    private let clock: any Clock<Duration>
    /// The URL to which the server has redirected requests; initially the URL of the resource.
    private let address: Mutex<Endpoint>

    /// The maximum number of redirects per request. Only redirects within the same origin are followed.
    private static let maximumRedirects = 3

    /// The timeout for the headers of a response. It is long, because a tool may run for a long time before it
    /// responds.
    private let headTimeout: Duration

    /// The access tokens that the server has accepted and rejected.
    private struct Tokens {
        /// The last token that the server accepted in a request sent after the last rejection; directly after a rejection, the rejected token.
        var accepted: Secret?
        /// The token of the last rejected non-interactive request.
        var rejected: Secret?
        /// The number of rejections.
        var rejections = 0

        mutating func reject(_ token: Secret?) {
            (accepted, rejected) = (token, token)
            rejections += 1
        }
    }

    private let tokens = Mutex(Tokens())

    /// The tokens that a message from the server must not contain.
    private let redaction = Mutex(TokenRedaction())

    /// A message from the server with the tokens redacted that were sent to it.
    func redacted(_ bytes: [UInt8]) -> [UInt8] { redaction.withLock { $0 }.redacted(bytes) }

    /// Whether the server has accepted another token since the last rejection, so that the rejected request can be sent
    /// again. A late response to an earlier request does not count.
    var hasOtherToken: Bool { tokens.withLock { $0.accepted != $0.rejected } }

    /// Marks the current token as rejected, because a request failed and was not retried with another token.
    func rejectCurrentToken() { tokens.withLock { $0.reject($0.accepted) } }

    init(client: ResourceClient, transport: any HTTPTransport, clock: any Clock<Duration>, headTimeout: Duration) {
        self.client = client
        self.headTimeout = headTimeout
        self.transport = transport
        self.clock = clock
        self.address = Mutex(client.address)
    }

    /// Sends a request and returns the response as soon as its headers have arrived. If the server requires it, a
    /// sign-in, refresh or step-up is performed first.
    /// - Parameters:
    ///   - signsIn: Whether the user may be asked to sign in.
    ///   - replaceSession: Called when a new token was rejected, before the user is asked to sign in, because some servers
    ///     respond with 401 if they have lost the session. If it returns true, ``SessionReplaced`` is thrown.
    func send(
        _ method: HTTPRequest.Method,
        _ fields: HTTPFields,
        body: [UInt8] = [],
        signsIn: Bool = true,
        timeout: Duration? = nil,
        pool: ConnectionPool = .resources,
        replaceSession: (@Sendable () async -> Bool)? = nil
    ) async throws -> ResponseStream {
        var endpoint = address.withLock { $0 }
        var redirects = 0
        var attempt = try client.attempt(method, endpoint.url)
        while true {
            var request = TransportRequest(
                method,
                endpoint,
                headerFields: fields,
                body: body,
                timeout: timeout ?? headTimeout,
                maximumResponseSize: MCPMessage.maximumSize
            )
            request.pool = pool
            let rejections = tokens.withLock { $0.rejections }
            for field in try await client.authorize(&attempt) { request.head.headerFields[field.name] = field.value }
            redaction.withLock { $0.record(Self.token(of: request)) }
            let response = try await transport.stream(request)
            client.recordReach(response.reach)
            if [307, 308].contains(response.head.status.code), redirects < Self.maximumRedirects {
                redirects += 1
                endpoint = try redirect(response.head, from: endpoint)
                attempt = try client.attempt(method, endpoint.url)
                continue
            }
            guard !(300..<400).contains(response.head.status.code) else {
                throw Self.redirectError(of: request, response.head)
            }
            if [401, 403].contains(response.head.status.code) {
                let whole = ResponseStream(head: response.head, body: ResponseBody(await errorBody(of: response)))
                let challenge = ResourceChallenge(TransportResponse(head: response.head))
                let rejectsToken = response.head.status.code == 401 && challenge?.demand ?? .token == .token
                do {
                    if try await client.mustRetry(&attempt, after: response.head, mayAsk: false) { continue }
                } catch let error as AuthError where error.code == .accessTokenRejected && rejectsToken {
                    // Without a refresh token, only a sign-in obtains a new token.
                    guard let replaceSession, await replaceSession() else { throw error }
                    throw SessionReplaced()
                }
                if rejectsToken, attempt.hasNewToken, let replaceSession, await replaceSession() {
                    throw SessionReplaced()
                }
                guard signsIn else {
                    tokens.withLock { $0.reject(Self.token(of: request)) }
                    return whole
                }
                guard try await client.mustRetry(&attempt, after: response.head) else { return whole }
                continue
            }
            client.recordNonce(from: response.head, of: attempt)
            tokens.withLock { if $0.rejections == rejections { $0.accepted = Self.token(of: request) } }
            if redirects > 0 { address.withLock { [endpoint] in $0 = endpoint } }
            return response
        }
    }

    private static func token(of request: TransportRequest) -> Secret? {
        request.head.headerFields[.authorization].map { Secret($0) }
    }

    /// Thrown when the session of a request was replaced. The caller must create the request again.
    struct SessionReplaced: Error {}

    /// Returns the target of a redirect within the origin, such as a redirect that adds a trailing slash. A token is
    /// never sent to another origin.
    private func redirect(_ head: HTTPResponse, from endpoint: Endpoint) throws(AuthError) -> Endpoint {
        // RFC 9110 section 10.2.2: a relative reference is resolved against the target URI of the request.
        let location = head.headerFields[.location] ?? ""
        let resolved =
            URL(
                string: URLReference.percentEncoded(location),
                relativeTo: URL(string: URLReference.percentEncoded(endpoint.url))
            )?
            .absoluteString ?? location
        let target = try Endpoint(Self.withTLS(resolved, at: endpoint), name: "redirect")
        guard target.origin == endpoint.origin else {
            throw AuthError(
                .invalidResponse,
                "\(endpoint) redirects to \(target.origin), which must not receive the token. If that is the correct server, configure its URL instead.",
                status: head.status.code
            )
        }
        return target
    }

    /// A server behind a proxy that terminates TLS may redirect to an `http` URL, because it does not know the scheme of the request. The same URL
    /// with `https` is used if it is within the origin, so that nothing is sent without TLS.
    private static func withTLS(_ target: String, at endpoint: Endpoint) -> String {
        let scheme = "http://"
        guard endpoint.scheme == "https", target.lowercased().hasPrefix(scheme) else { return target }
        let secure = "https://\(target.dropFirst(scheme.count))"
        return (try? Endpoint(secure, name: "redirect"))?.origin == endpoint.origin ? secure : target
    }

    /// Reads the body of an error response completely, because the connection can then be reused, and the body is needed twice.
    /// - Returns: The body; empty when it is too large, or did not arrive in time.
    func errorBody(of response: ResponseStream) async -> [UInt8] {
        let body = try? await withDeadline(.seconds(10), clock: clock) {
            AuthError(.timedOut, "The server did not complete its error response in time.")
        } _: {
            try await response.body.collect(upTo: 64 * 1024)
        }
        return body ?? []
    }

    private static func redirectError(of request: TransportRequest, _ head: HTTPResponse) -> AuthError {
        let target = head.headerFields[.location].flatMap { try? Endpoint($0, name: "redirect") }
        return AuthError(
            .invalidResponse,
            "The response to \(request) is a redirect (\(head.status.code)), which is not followed.\(target.map { " If \($0) is the correct address, configure it instead." } ?? "")",
            status: head.status.code
        )
    }
}
