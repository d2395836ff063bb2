// The complete program from "A web application" in docs/servers.md. The other files contain the listings from the other
// sections.

import AuthFlow
import AuthFlowHummingbird
import AuthFlowLog
import AuthFlowOIDC
import AuthFlowSQLite
import AuthFlowServer
import AuthFlowServerConfiguration
import Foundation
import Hummingbird
import Logging

struct WebContext: SessionRequestContext {
    var coreContext: CoreRequestContextStorage
    var session: Session?  // nil when no user is signed in
    init(source: Source) { coreContext = .init(source: source) }
}

struct HTML: ResponseGenerator {
    let content: String

    func response(from request: Request, context: some RequestContext) -> Response {
        let page = "<!DOCTYPE html><meta charset=\"utf-8\"><title>Orders</title>\(content)"
        return Response(
            status: .ok,
            headers: [.contentType: "text/html; charset=utf-8", .cacheControl: "no-store"],
            body: .init(byteBuffer: ByteBuffer(string: page))
        )
    }
}

let file = try ConfigurationFile(path: "authflow.json")
let server = try SessionServer(
    configuration: file,
    providers: [.oidc],
    stores: [.sqlite],
    observer: FlowEvent.logger(Logger(label: "auth"))  // logs failures as warnings, most with the action to take
)

// GET /api/orders/17 from a script becomes GET https://api.example.com/orders/17, with the session's access token.
let orders = try ResourceProxy.Route("/api/orders/", to: "https://api.example.com/orders/", methods: [.get, .post])
let proxy = ResourceProxy(server: server, routes: [orders])

let router = Router(context: WebContext.self)
// Responds to /login, /callback, /logout, /session, /backchannel-logout and /api/orders/...; sets the session for other routes.
router.add(middleware: SessionMiddleware(server: server, proxy: proxy))
router.get("/") { _, context in
    guard let session = context.session else { return HTML(content: "<a href=\"/login?return_to=/\">Sign in</a>") }
    let name = DisplayText.escapedForHTML(session.identity?.displayName ?? "an unknown user")
    return HTML(content: "Hello, \(name)<form method=\"post\" action=\"/logout\"><button>Sign out</button></form>")
}
router.get("/expiry") { _, context in
    let tokens = try await server.freshTokens(for: context.requireSession())  // status 401 without a session
    return "The access token expires at \(tokens.expiresAt?.formatted(.iso8601) ?? "an unknown time").\n"
}
router.group("/account")  // redirects to the sign-in and back if no user is signed in; status 401 for a script
    .requireAuthentication(by: server)
    .get { _, context in
        let email = try context.requireSession().identity?.email ?? "an unknown address"
        return HTML(content: "Invoices are sent to \(DisplayText.escapedForHTML(email)).")
    }
router.group("/payments")  // the same, with a second factor within the last five minutes
    .requireAuthentication(.init(acrValues: ["mfa"], maximumAge: .seconds(300)), by: server)
    .get { _, _ in HTML(content: "Payments") }

let application = Application(router: router, configuration: .init(address: .hostname("127.0.0.1", port: 8400)))
try await application.runService(sessions: server)  // removes ended sessions; waits for refreshes at shutdown
