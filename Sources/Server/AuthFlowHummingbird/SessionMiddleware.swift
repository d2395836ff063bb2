#if Hummingbird
import AuthFlow
public import AuthFlowServer
public import Hummingbird
import Logging
import ServiceLifecycle

/// Serves the routes of a session server and a proxy, and provides subsequent handlers with the session of the request.
///
/// Add it to the router before the routes that need a session:
///
/// ```swift
/// let router = Router(context: WebContext.self)
/// router.add(middleware: SessionMiddleware(server: server))
/// router.get("/") { _, context in
///     "Hello, \(try context.requireSession().identity?.displayName ?? "you")"
/// }
/// ```
public struct SessionMiddleware<Context: SessionRequestContext>: RouterMiddleware {
    private let server: SessionServer
    private let proxy: ResourceProxy?

    /// Creates the middleware.
    /// - Parameters:
    ///   - server: The session server.
    ///   - proxy: Forwards requests to APIs; default: none.
    public init(server: SessionServer, proxy: ResourceProxy? = nil) {
        self.server = server
        self.proxy = proxy
    }

    /// Responds to the request, or forwards it with its session. An ``/AuthFlow/AuthError`` that a handler throws is
    /// converted to a response if possible: for an ended session or an access token that cannot be refreshed, a redirect to the sign-in and back
    /// for a navigation, and 401 for a script; 503 for an outage. These errors are logged, except those for ended sessions.
    @concurrent public func handle(
        _ request: Request,
        context: Context,
        next: @concurrent (Request, Context) async throws -> Response
    ) async throws -> Response {
        // The body is read only for these routes, because an upload to the application can be of any size.
        if server.handles(request.head) {
            let body = try await request.body.collect(upTo: 64 * 1024)
            if let response = await server.response(to: request.head, body: Array(body.readableBytesView)) {
                return Response(response)
            }
        }
        if let proxy, proxy.handles(request.head) {
            if let refusal = proxy.refusal(of: request.head) { return Response(refusal) }
            if proxy.streamsBody(of: request.head) { return try await proxy.upload(request) }
            let limit = proxy.maximumRequestSize(of: request.head) ?? 0
            let body = Array(try await request.body.collect(upTo: limit).readableBytesView)
            if proxy.streams(request.head) {
                if let response = await proxy.streamedResponse(to: request.head, body: body) {
                    return Response(response)
                }
            } else if let response = await proxy.response(to: request.head, body: body) {
                return Response(response)
            }
        }
        var session: Session?
        do {
            session = try await server.session(of: request.head)
            var context = context
            context.session = session
            return try await next(request, context)
        } catch let error as AuthError {
            // Log the error, because Hummingbird responds to a thrown error with an empty 500 and logs nothing.
            if error.code != .loginRequired {
                let message = error.code.hasPublicMessage ? error.message : "omitted, because it may identify the user"
                context.logger.error("AuthFlow: \(error.code.rawValue)", metadata: ["message": "\(message)"])
            }
            guard let response = await server.response(for: error, to: request.head, session) else { throw error }
            return Response(response)
        }
    }
}

extension ResourceProxy {
    /// Streams a request to the API. A graceful shutdown aborts the stream instead of waiting for it to end.
    fileprivate func upload(_ request: Request) async throws -> Response {
        let length = request.headers[.contentLength].flatMap { Int($0) }
        let parts = request.body.map { Array($0.readableBytesView) }
        let response = await cancelWhenGracefulShutdown {
            await streamedResponse(to: request.head, upload: UploadBody(parts, length: length))
        }
        return response.map { Response($0) } ?? Response(status: .notFound)
    }
}
#endif
