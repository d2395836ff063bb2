// CHECK_APPLE is defined when these files are type-checked on Linux, against Foundation's URLSession for Linux.
#if canImport(Darwin) || CHECK_APPLE
public import AuthFlowHTTP
import AuthFlowJSON
import Foundation
import HTTPTypes
import Synchronization

#if CHECK_APPLE
import FoundationNetworking
#endif

/// Foundation's `URLSession`, with automatic features disabled: cookies, caches, stored credentials and redirects.
public struct URLSessionTransport: HTTPTransport {
    private let sessions = Sessions()

    /// Creates a transport with separate sessions.
    public init() {}

    public func send(_ call: TransportRequest) async throws -> TransportResponse {
        try await exchange(call, timeout: call.timeout, body: nil)
    }

    public func stream(_ call: TransportRequest) async throws -> ResponseStream {
        let body = ResponseBody(limit: call.maximumResponseSize)
        // The session's timeout is an idle timeout, which must not apply to a stream once its headers have arrived.
        let response = try await withDeadline(call.timeout, clock: ContinuousClock()) {
            AuthError(.timedOut, "\(call) received no response within \(call.timeout.formattedSeconds).")
        } _: {
            try await exchange(call, timeout: .seconds(86_400), body: body)
        }
        return ResponseStream(head: response.head, body: body)
    }

    /// - Parameter body: The receiver of the body as it arrives; nil when the body is returned as a whole.
    private func exchange(_ call: TransportRequest, timeout: Duration, body: ResponseBody?) async throws
        -> TransportResponse
    {
        guard let url = URL(string: call.url) else {
            throw AuthError(.invalidConfiguration, "\"\(Redaction.url(call.url))\" is not a URL.")
        }
        var request = URLRequest(url: url, timeoutInterval: timeout.seconds)
        request.httpMethod = call.head.method.rawValue
        for field in call.head.headerFields where field.name != .cookie {
            request.addValue(field.value, forHTTPHeaderField: field.name.rawName)
        }
        // HTTP/2 permits separate cookie fields; HTTP/1.1 requires a single field, without commas (RFC 6265 section 5.4).
        let cookies = call.head.headerFields[values: .cookie]
        if !cookies.isEmpty { request.setValue(cookies.joined(separator: "; "), forHTTPHeaderField: "Cookie") }
        if !call.body.isEmpty { request.httpBody = Data(call.body) }

        let owner = sessions.owner(for: call.head.method, in: call.pool)
        let exchanges = owner.exchanges
        let task = owner.session.dataTask(with: request)
        body?.onCancel { exchanges.cancel(task) }
        // Another request may replace this session, which must not be invalidated before its task has started.
        defer { withExtendedLifetime(owner) { exchanges.remove(task) } }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                exchanges.begin(Exchange(continuation: continuation, call: call, body: body), as: task)
            }
        } onCancel: {
            exchanges.cancel(task)
        }
    }
}

/// The sessions of a transport and its copies. Each session has separate connections.
private final class Sessions: Sendable {
    /// The time for which requests that are not safe use one session, and therefore the maximum idle time of the connections that they use, as in
    /// `CurlTransport`.
    ///
    /// Several servers close a connection that has been idle for 5 s, and iOS closes the connections of a suspended app. URLSession retries only
    /// safe requests on a new connection; a code or a refresh token would be lost with the request ("The network connection was lost").
    private static let maximumIdleTime = Duration.seconds(3)

    /// The sessions for safe requests. A session opens only a few connections to each host, so event streams could otherwise occupy all of them.
    private let safe = Mutex<[ConnectionPool: SessionOwner]>([:])
    private let others = Mutex<[ConnectionPool: ShortLivedValue<SessionOwner>]>([:])

    /// The session for a request.
    func owner(for method: HTTPRequest.Method, in pool: ConnectionPool) -> SessionOwner {
        // RFC 9110 section 9.2.1
        guard method != .get, method != .head else {
            return safe.withLock { safe in
                let owner = safe[pool] ?? SessionOwner()
                safe[pool] = owner
                return owner
            }
        }
        // This clock also advances while the system is suspended.
        return others.withLock { others in
            others[pool, default: ShortLivedValue(maximumAge: Self.maximumIdleTime)].value(at: .now) { SessionOwner() }
        }
    }
}

/// A session, its delegate and its connections, which the session retains until it is invalidated.
private final class SessionOwner: Sendable {
    let session: URLSession
    let exchanges: Exchanges

    init() {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.httpCookieStorage = nil
        configuration.httpShouldSetCookies = false
        configuration.httpCookieAcceptPolicy = .never
        configuration.urlCache = nil
        configuration.urlCredentialStorage = nil
        configuration.requestCachePolicy = .reloadIgnoringLocalCacheData
        let exchanges = Exchanges()
        self.exchanges = exchanges
        self.session = URLSession(configuration: configuration, delegate: exchanges, delegateQueue: nil)
    }

    /// A stream may outlive its transport, so requests in progress continue.
    deinit { session.finishTasksAndInvalidate() }
}

/// One HTTP request in progress.
private struct Exchange {
    /// The continuation that waits for the response or, for a stream, its headers; nil once a stream's headers have arrived.
    var continuation: CheckedContinuation<TransportResponse, any Error>?
    let call: TransportRequest
    /// The receiver of the body as it arrives. Weak, because releasing the body ends the request.
    weak var body: ResponseBody?
    let isStream: Bool
    var response: TransportResponse?

    init(
        continuation: CheckedContinuation<TransportResponse, any Error>,
        call: TransportRequest,
        body: ResponseBody?
    ) {
        self.continuation = continuation
        self.call = call
        self.body = body
        self.isStream = body != nil
    }

    func fail(_ error: any Error) {
        continuation?.resume(throwing: error)
        body?.finish(throwing: error)
    }
}

/// The requests of one session that are in progress, by task; also the delegate of the `URLSession`.
private final class Exchanges: NSObject, URLSessionDataDelegate, Sendable {
    private struct State {
        var running: [Int: Exchange] = [:]
        /// The requests that were cancelled before they had started.
        var cancelled: Set<Int> = []
    }

    private let state = Mutex(State())

    func begin(_ exchange: Exchange, as task: URLSessionTask) {
        let mayBegin = state.withLock { state in
            if state.cancelled.contains(task.taskIdentifier) { return false }
            state.running[task.taskIdentifier] = exchange
            return true
        }
        guard mayBegin else { return exchange.fail(CancellationError()) }
        do throws(AuthError) {
            try exchange.call.willSend()
        } catch {
            // A concurrent cancellation may have ended the exchange already.
            end(task)?.fail(error)
            return task.cancel()
        }
        task.resume()
    }

    /// Cancels a request immediately, even if it has not started.
    ///
    /// `URLSession`'s completion callback for a cancelled task is not sufficient: it may be called before the request
    /// has started, when no caller is waiting yet, and it is not called again.
    func cancel(_ task: URLSessionTask) {
        let exchange = state.withLock { state in
            let exchange = state.running.removeValue(forKey: task.taskIdentifier)
            if exchange == nil { state.cancelled.insert(task.taskIdentifier) }
            return exchange
        }
        exchange?.fail(CancellationError())
        task.cancel()
    }

    /// Removes the record of a cancelled request, because the cancellation may have occurred just as the request
    /// completed.
    func remove(_ task: URLSessionTask) {
        state.withLock { _ = $0.cancelled.remove(task.taskIdentifier) }
    }

    private func end(_ task: URLSessionTask) -> Exchange? {
        state.withLock { $0.running.removeValue(forKey: task.taskIdentifier) }
    }

    func urlSession(
        _ session: URLSession,
        task: URLSessionTask,
        willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest,
        completionHandler: @escaping (URLRequest?) -> Void
    ) {
        // The redirect response is returned to the engine. Following the redirect of a token request would send a code
        // or a secret to another server.
        completionHandler(nil)
    }

    func urlSession(
        _ session: URLSession,
        dataTask: URLSessionDataTask,
        didReceive response: URLResponse,
        completionHandler: @escaping (URLSession.ResponseDisposition) -> Void
    ) {
        guard let http = response as? HTTPURLResponse else { return completionHandler(.cancel) }
        guard var head = HTTPResponse(http) else {
            fail(dataTask) {
                AuthError(.invalidResponse, "The header section of the response to \($0) is malformed or too large.")
            }
            return completionHandler(.cancel)
        }
        // URLSession decodes the body, even for a caller that sends Accept-Encoding.
        let isDecoded = ["gzip", "deflate", "br"].contains(head.headerFields[.contentEncoding]?.lowercased() ?? "")
        // In a response to HEAD, the fields describe the response to GET.
        let hasBody = dataTask.originalRequest?.httpMethod != "HEAD"
        if isDecoded, hasBody {
            head.headerFields[.contentEncoding] = nil
            head.headerFields[.contentLength] = nil
        }
        let received = TransportResponse(head: head)
        let announced = http.expectedContentLength
        let identifier = dataTask.taskIdentifier
        let exchange = state.withLock { state -> Exchange? in
            let exchange = state.running[identifier]
            state.running[identifier]?.response = received
            // The caller of a streaming request waits only for the response headers.
            if exchange?.isStream == true { state.running[identifier]?.continuation = nil }
            return exchange
        }
        let isStream = exchange?.isStream == true
        let isTooLarge = !isStream && hasBody && announced > Int64(exchange?.call.maximumResponseSize ?? .max)
        if isStream { exchange?.continuation?.resume(returning: received) }
        if isTooLarge { failOversized(dataTask) }
        completionHandler(isTooLarge ? .cancel : .allow)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        // Parts are appended outside the lock, because a body that is no longer being read ends its request, which
        // acquires the lock.
        let exchange = state.withLock { $0.running[dataTask.taskIdentifier] }
        if let exchange, exchange.isStream {
            if exchange.body?.append(Array(data)) != true { failOversized(dataTask) }
            return
        }
        let isTooLarge = state.withLock { state in
            let identifier = dataTask.taskIdentifier
            guard let exchange = state.running[identifier] else { return false }
            let size = (exchange.response?.body.count ?? 0) + data.count
            guard size <= exchange.call.maximumResponseSize else { return true }
            state.running[identifier]?.response?.body.append(contentsOf: data)
            return false
        }
        if isTooLarge { failOversized(dataTask) }
    }

    /// Aborts a request whose response is too large.
    private func failOversized(_ task: URLSessionTask) {
        fail(task) {
            AuthError(.invalidResponse, "The response to \($0) is larger than \($0.maximumResponseSize) bytes.")
        }
    }

    private func fail(_ task: URLSessionTask, with error: (TransportRequest) -> AuthError) {
        guard let exchange = end(task) else { return }
        exchange.fail(error(exchange.call))
        task.cancel()
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        guard let exchange = end(task) else { return }
        if let error {
            exchange.fail(Self.failure(of: exchange.call, error))
        } else if let response = exchange.response {
            exchange.continuation?.resume(returning: response)
            exchange.body?.finish()
        } else {
            exchange.fail(AuthError(.networkFailed, "\(exchange.call) received no HTTP response."))
        }
    }

    private static func failure(of call: TransportRequest, _ error: any Error) -> any Error {
        let code = (error as? URLError)?.code
        // Foundation's message may quote the entire URL, including its query.
        let place = call.head.authority ?? "the server"
        switch code {
        case .cancelled:
            return CancellationError()
        case .timedOut:
            return AuthError(.timedOut, "\(place) did not respond within \(call.timeout.formattedSeconds).")
        case .cannotFindHost, .dnsLookupFailed:
            return AuthError(
                .networkFailed,
                "The host name \(place) cannot be resolved. Is it spelled correctly, and is the network available?"
            )
        case .cannotConnectToHost:
            return AuthError(
                .networkFailed,
                "Could not connect to \(place). Is the address correct, and is the server running?"
            )
        case .secureConnectionFailed, .serverCertificateUntrusted, .serverCertificateHasBadDate,
            .serverCertificateHasUnknownRoot, .serverCertificateNotYetValid:
            return AuthError(
                .networkFailed,
                "No TLS connection to \(place) was established: the handshake or the certificate verification failed."
            )
        default:
            let number = code.map { " (URL loading error \($0.rawValue))" } ?? ""
            return AuthError(.networkFailed, "The request to \(place) failed\(number). Try again.")
        }
    }
}

extension HTTPResponse {
    /// - Returns: nil for a response that ``ResponseHead`` would reject as well. `HTTPTypes` terminates the process for a status code above
    /// 999, and for more than 65,534 fields.
    fileprivate init?(_ response: HTTPURLResponse) {
        guard (100...999).contains(response.statusCode) else { return nil }
        var fields = HTTPFields()
        var size = 0
        for case (let name, let value) as (String, String) in response.allHeaderFields {
            size += name.utf8.count + value.utf8.count
            guard size <= ResponseHead.maximumSize, !value.hasTooManyCombiningMarks else { return nil }
            guard let name = HTTPField.Name(name) else { continue }
            if name == .setCookie {
                // Foundation joins repeated fields with commas, but a comma can also be part of a cookie.
                for cookie in FoldedCookies.split(value) { fields.append(HTTPField(name: name, value: cookie)) }
            } else {
                fields.append(HTTPField(name: name, value: value))
            }
        }
        self.init(status: Status(code: response.statusCode), headerFields: fields)
    }
}
#endif
