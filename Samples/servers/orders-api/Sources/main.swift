// An API that accepts access tokens, with a public route, a route that requires a scope, and a step-up route (recent MFA sign-in).
//
//     orders-api CONFIGURATION PORT
//
// The file contains its issuers and rules: {"resource_server": {"resource": "https://api.example.com", "issuers": [...]}}.

import AuthFlowHummingbird
import AuthFlowResourceServerConfiguration
import Hummingbird
import SampleStart

struct APIContext: AuthorizedRequestContext {
    var coreContext: CoreRequestContextStorage
    var authorization: Authorization?
    init(source: Source) { coreContext = .init(source: source) }
}

let (path, port) = arguments("orders-api CONFIGURATION PORT")
let api = configured { try ResourceServer(configuration: ConfigurationFile(path: path)) }

let router = Router(context: APIContext.self)
router.add(middleware: ResourceMetadataMiddleware(api))
router.get("/health") { _, _ in "The API is up.\n" }
router.group("/api/orders").authorize(by: api, requiring: ["orders:read"]).get { _, context in
    let authorization = try context.requireAuthorization()
    return
        "Orders for \(authorization.subject ?? "no user"), by the client \(authorization.clientID ?? "(unknown)").\n"
}
router.group("/api/payments")
    .authorize(by: api, requiring: Requirement(scopes: ["orders:read"], acrValues: ["mfa"], maximumAge: .seconds(300)))
    .get { _, context in "Paid by \(try context.requireAuthorization().subject ?? "no user").\n" }

let application = Application(router: router, configuration: .init(address: .hostname("127.0.0.1", port: port)))
await serving { try await application.runService() }
