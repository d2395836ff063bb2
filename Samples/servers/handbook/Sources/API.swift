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
    rules.supportedScopes = ["orders:read"]
    let api = try ResourceServer(
        "https://api.example.com/orders",
        issuers: [TrustedIssuer(AuthorizationServer(issuer: "https://id.example.com"))],
        rules: rules
    )

    let router = Router(context: APIContext.self)  // AuthorizedRequestContext
    router.add(middleware: ResourceMetadataMiddleware(api))  // RFC 9728: the address is enough for clients
    router.group("/orders").authorize(by: api, requiring: ["orders:read"]).get { _, context in
        "Orders of \(try context.requireAuthorization().subject ?? "no user")"
    }
    return router
}

func apiFromAFile() throws -> ResourceServer {
    let api = try ResourceServer(configuration: ConfigurationFile(path: "/etc/orders-api.json"))
    return api
}
