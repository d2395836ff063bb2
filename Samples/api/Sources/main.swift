// An API that receives access tokens, with a public route, one that demands a scope, and one that requires a recent multi-factor sign-in.
//
//     orders-api ISSUER [--port PORT]

import AuthFlowHummingbird
import AuthFlowResourceServer
import Hummingbird

struct APIContext: AuthorizedRequestContext {
    var coreContext: CoreRequestContextStorage
    var authorization: Authorization?
    init(source: Source) { coreContext = .init(source: source) }
}

let arguments = CommandLine.arguments.dropFirst()
func option(_ name: String) -> String? {
    arguments.firstIndex(of: name).flatMap { arguments.indices.contains($0 + 1) ? arguments[$0 + 1] : nil }
}
guard let issuer = arguments.first else {
    print("orders-api ISSUER [--port PORT]")
    throw AuthError(.invalidConfiguration, "The issuer is missing.")
}
let port = option("--port").flatMap { Int($0) } ?? 8401

var rules = ResourceServerRules()
rules.supportedScopes = ["orders:read"]
let api = try ResourceServer(
    "http://127.0.0.1:\(port)/api",
    issuers: [TrustedIssuer(AuthorizationServer(issuer: issuer))],
    rules: rules
)

let router = Router(context: APIContext.self)
router.add(middleware: ResourceMetadataMiddleware(api))
router.get("/health") { _, _ in "The API is up.\n" }
router.group("/api/orders").authorize(by: api, requiring: ["orders:read"]).get { _, context in
    let authorization = try context.requireAuthorization()
    return
        "Orders of \(authorization.subject ?? "no user"), by the client \(authorization.clientID ?? "(unknown)").\n"
}
router.group("/api/payments")
    .authorize(by: api, requiring: Requirement(scopes: ["orders:read"], acrValues: ["mfa"], maximumAge: .seconds(300)))
    .get { _, context in "Paid by \(try context.requireAuthorization().subject ?? "no user").\n" }

let application = Application(router: router, configuration: .init(address: .hostname("127.0.0.1", port: port)))
try await application.runService()
