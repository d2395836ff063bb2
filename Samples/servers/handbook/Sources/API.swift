import AuthFlowHummingbird
import AuthFlowResourceServer
import AuthFlowResourceServerConfiguration
import Hummingbird

struct APIContext: AuthorizedRequestContext {
    var coreContext: CoreRequestContextStorage
    var authorization: Authorization?
    init(source: Source) { coreContext = .init(source: source) }
}

func ordersAPI() throws -> Router<APIContext> {
    var rules = ResourceServerRules()
    rules.supportedScopes = ["orders:read", "orders:write"]
    let api = try ResourceServer(
        "https://api.example.com/orders",
        issuers: [TrustedIssuer(AuthorizationServer(issuer: "https://id.example.com"))],
        rules: rules
    )

    let router = Router(context: APIContext.self)
    router.add(middleware: ResourceMetadataMiddleware(api))  // RFC 9728: the URL is enough for clients
    router.group("/orders").authorize(by: api, requiring: ["orders:read"]).get { _, context in
        "Orders for \(try context.requireAuthorization().subject ?? "no user")"
    }
    router.group("/orders").authorize(by: api, requiring: ["orders:write"]).post { request, context in
        let order = try await request.body.collect(upTo: 4096)
        return "Ordered for \(try context.requireAuthorization().subject ?? "no user"): \(String(buffer: order))"
    }
    return router
}

func apiFromAFile() throws -> ResourceServer {
    let api = try ResourceServer(configuration: ConfigurationFile(path: "/etc/orders-api.json"))
    return api
}
