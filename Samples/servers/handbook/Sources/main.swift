// The complete program from "A web application" in docs/servers.md. The other files contain the listings of the other
// sections.

import AuthFlow
import AuthFlowHummingbird
import AuthFlowOIDC
import AuthFlowSQLite
import AuthFlowServer
import Hummingbird

let secret = Environment().get("CLIENT_SECRET") ?? ""
let registration = try ClientRegistration(clientID: "my-client") {
    $0.redirectURIs = ["https://app.example.com/callback"]
    $0.scopes = ["openid", "offline_access"]
    $0.authentication = .clientSecretBasic(Secret(secret))  // or .privateKeyJWT(key)
}
let client = OAuthClient(server: AuthorizationServer(issuer: "https://id.example.com"), registration: registration)
let store = try SQLiteTokenStore(path: "/var/lib/app/sessions.sqlite")
let server = try SessionServer(client: client, store: store, options: .init(origin: "https://app.example.com"))

struct WebContext: SessionRequestContext {
    var coreContext: CoreRequestContextStorage
    var session: Session?
    init(source: Source) { coreContext = .init(source: source) }
}

let router = Router(context: WebContext.self)
router.add(middleware: SessionMiddleware(server: server))
router.get("/") { _, context in
    "Hello, \(context.session?.identity?.displayName ?? "stranger")"  // the session is nil when no user is signed in
}
router.get("/orders") { request, context in
    let token = try await server.freshTokens(for: context.requireSession()).accessToken
    return try await orders(with: token.exposed)  // your own call to an API
}
var application = Application(router: router)
application.addServices(SessionService(server: server))
try await application.runService()
