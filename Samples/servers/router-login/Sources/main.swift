// Like web-login, but without AuthFlow's package trait "Hummingbird": router-login CONFIGURATION PORT

import AuthFlow
import AuthFlowOIDC
import AuthFlowServerConfiguration
import HTTPTypes
import Hummingbird
import SampleStart
import ServiceLifecycle
import UnixSignals

let (path, port) = arguments("router-login CONFIGURATION PORT")
let server = configured {
    try SessionServer(configuration: ConfigurationFile(path: path), providers: [.oidc], stores: [.memory])
}

extension Response {
    init(_ response: TransportResponse) {
        self.init(
            status: response.head.status,
            headers: response.head.headerFields,
            body: .init(byteBuffer: ByteBuffer(bytes: response.body))
        )
    }
}

struct SignIns: RouterMiddleware {
    func handle(
        _ request: Request,
        context: BasicRequestContext,
        next: (Request, BasicRequestContext) async throws -> Response
    ) async throws -> Response {
        if server.handles(request.head) {
            let body = try await request.body.collect(upTo: 64 * 1024)
            if let response = await server.response(to: request.head, body: Array(buffer: body)) {
                return Response(response)
            }
        }
        do {
            return try await next(request, context)
        } catch let error as AuthError {
            guard let response = SessionServer.response(for: error) else { throw error }
            return Response(response)
        }
    }
}

let router = Router()
router.add(middleware: SignIns())
router.get("/") { request, _ in
    let session = try await server.session(of: request.head)
    let name = session.map { DisplayText.escapedForHTML($0.identity?.displayName ?? "an unknown user") }
    let page = name.map { "Signed in as \($0) <form method=post action=/logout><button>Sign out</button></form>" }
    let fields: HTTPFields = [.contentType: "text/html; charset=utf-8", .cacheControl: "no-store"]
    let html = ByteBuffer(string: page ?? "<a href='/login?return_to=/'>Sign in</a>")
    return Response(status: .ok, headers: fields, body: .init(byteBuffer: html))
}
let application = Application(router: router, configuration: .init(address: .hostname("127.0.0.1", port: port)))
var services = ServiceGroupConfiguration(
    services: [application],
    gracefulShutdownSignals: [.sigterm, .sigint],
    logger: application.logger
)
// A client that does not read its response must not prevent the process from exiting.
services.maximumGracefulShutdownDuration = .seconds(5)
try await ServiceGroup(configuration: services).run()
_ = await server.drain()  // refreshed tokens are stored before the process ends
