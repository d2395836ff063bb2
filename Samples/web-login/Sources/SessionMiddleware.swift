import AuthFlow
import AuthFlowServer
import HTTPTypes
import Hummingbird

/// What is known about a request: the session of its browser among it.
protocol SessionContext: RequestContext {
    var session: Session? { get set }
}

/// Answers the routes of a `SessionServer`, and gives the handlers behind it the session of the request.
///
/// This is all of the adaptation to Hummingbird: every rule of sign-in and sign-out is in AuthFlowServer.
struct SessionMiddleware<Context: SessionContext>: RouterMiddleware {
    let server: SessionServer

    func handle(
        _ request: Request,
        context: Context,
        next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        var request = request
        // Nothing that a browser sends here is larger.
        let body = request.method == .post ? try await request.collectBody(upTo: 64 * 1024) : ByteBuffer()
        if let response = await server.response(to: request.head, body: Array(body.readableBytesView)) {
            return Response(
                status: response.head.status,
                headers: response.head.headerFields,
                body: ResponseBody(byteBuffer: ByteBuffer(bytes: response.body))
            )
        }
        var context = context
        context.session = try await server.session(of: request.head)
        return try await next(request, context)
    }
}
