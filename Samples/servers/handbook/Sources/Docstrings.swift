import AuthFlow
import AuthFlowHummingbird
import AuthFlowLog
import AuthFlowLoopback
import AuthFlowMCP
import AuthFlowOIDC
import AuthFlowObservability
import AuthFlowResourceServer
import AuthFlowServer
import AuthFlowTrace
import Foundation
import HTTPTypes
import Hummingbird
import Logging

// The listings in the documentation comments for servers.

func measuredAPI(_ resource: String, _ issuers: [TrustedIssuer]) throws -> ResourceServer {
    let api = try ResourceServer(resource, issuers: issuers, observer: AuthorizationDecision.metrics())
    return api
}

func recordGauges(of server: SessionServer) {
    FlowGauge.record(server.gauges)
}

func tracedServer(
    _ client: OAuthClient,
    _ store: any SessionTokenStore,
    _ options: SessionServerOptions
) throws -> SessionServer {
    let server = try SessionServer(client: client, store: store, options: options, observer: FlowEvent.spans())
    return server
}

func measuredServer(
    _ client: OAuthClient,
    _ store: any SessionTokenStore,
    _ options: SessionServerOptions
) throws -> SessionServer {
    let server = try SessionServer(client: client, store: store, options: options, observer: FlowEvent.metrics())
    return server
}

func routes(of server: SessionServer) -> Router<WebContext> {
    let router = Router(context: WebContext.self)
    router.add(middleware: SessionMiddleware(server: server))
    router.get("/") { _, context in
        "Hello, \(try context.requireSession().identity?.displayName ?? "you")"
    }
    return router
}

func routes(of api: ResourceServer) -> Router<APIContext> {
    let router = Router(context: APIContext.self)
    router.add(middleware: ResourceMetadataMiddleware(api))
    router.group("orders").authorize(by: api, requiring: ["orders:read"]).get { _, context in
        "Hello, \(try context.requireAuthorization().subject ?? "client")"
    }
    return router
}

func bridge(_ client: ResourceClient, from input: AsyncStream<[UInt8]>, to output: FileHandle) async {
    let bridge = MCPBridge(client: client) { line in output.write(Data(line)) }
    for await line in input { bridge.receive(line) }
    await bridge.close()
}

func authorized(_ request: HTTPRequest) async throws -> Authorization {
    let api = try ResourceServer(
        "https://api.example.com/orders",
        issuers: [TrustedIssuer(AuthorizationServer(issuer: "https://id.example.com"))]
    )
    let authorization = try await api.authorize(request, requiring: ["orders:read"])
    return authorization
}

func loggedClient(_ profile: Profile) throws -> AuthClient {
    let log = Logger(label: "auth")
    let client = try AuthClient(
        profile: profile,
        providers: [.oidc],
        userAgents: [.loopback],
        observer: FlowEvent.logger(log)
    )
    return client
}

func tracedSignIn(_ profile: Profile, _ file: URL) async throws {
    let trace = FlowTrace()
    let client = try AuthClient(
        profile: profile,
        providers: [.oidc],
        userAgents: [.loopback],
        transport: trace.transport(SystemTransport()),
        observer: trace.observer
    )
    _ = try await client.signIn()
    try Data(trace.html().utf8).write(to: file)
}

func addTea(to session: Session, at server: SessionServer) async throws {
    try await server.updateData(of: session) { (cart: inout Cart?) in
        cart = Cart(items: (cart?.items ?? []) + ["tea"])
    }
}

func token(
    of request: HTTPRequest,
    _ body: [UInt8],
    _ client: OAuthClient,
    _ store: any SessionTokenStore
) async throws -> TransportResponse {
    let unauthorized = TransportResponse(head: HTTPResponse(status: .unauthorized))
    let server = try SessionServer(client: client, store: store, options: .init(origin: "https://app.example.com"))
    if let response = await server.response(to: request, body: body) { return response }
    guard let session = try await server.session(of: request) else { return unauthorized }
    let token = try await server.freshTokens(for: session).accessToken
    return TransportResponse(head: HTTPResponse(status: .ok), body: Array(try await orders(with: token.exposed).utf8))
}

func application(_ router: Router<WebContext>, _ server: SessionServer) async throws {
    let application = Application(router: router)
    try await application.runService(sessions: server)
}
