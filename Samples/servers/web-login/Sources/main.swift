// A web application whose users sign in at a provider. Tokens stay on the server; the browser has a random identifier.
//
//     web-login CONFIGURATION [--profile NAME] [--port PORT]
//
// The profile names the provider, the client with its secret, and the store: "memory" here, "sqlite" for the processes of one machine,
// "postgresql" or "redis" for any number of them.

import AuthFlow
import AuthFlowHummingbird
import AuthFlowOIDC
import AuthFlowPostgreSQL
import AuthFlowRedis
import AuthFlowSQLite
import AuthFlowServer
import Foundation
import Hummingbird

struct WebContext: SessionRequestContext {
    var coreContext: CoreRequestContextStorage
    var session: Session?
    init(source: Source) { coreContext = .init(source: source) }
}

let arguments = CommandLine.arguments.dropFirst()
func option(_ name: String) -> String? {
    arguments.firstIndex(of: name).flatMap { arguments.indices.contains($0 + 1) ? arguments[$0 + 1] : nil }
}
guard let path = arguments.first else {
    print("web-login CONFIGURATION [--profile NAME] [--port PORT]")
    throw AuthError(.invalidConfiguration, "There is no configuration.")
}

let profile = try ConfigurationFile(path: path).profile(option("--profile"))
let stores: [TokenStoreFactory] = [.memory, .sqlite, .postgreSQL, .redis]
let client = try AuthClient(profile: profile, providers: [.oidc], userAgents: [], stores: stores).client
guard let store = try profile.makeStore(providers: [.oidc], userAgents: [], stores: stores) as? any SessionTokenStore
else {
    throw AuthError(.invalidConfiguration, "The store keeps no sessions.")
}
let origin = try Endpoint(client.registration.redirectURIs[0].uri).origin
var options = SessionServerOptions(origin: origin)
options.allowsPlainHTTPOnLoopback = true
let server = try SessionServer(client: client, store: store, options: options)

let router = Router(context: WebContext.self)
router.add(middleware: SessionMiddleware(server: server))
router.get("/") { request, context in
    guard let session = context.session else { return Page(session: nil, sessions: [], token: "") }
    let token: String
    do {
        let tokens = try await server.freshTokens(for: session)
        token =
            "The access token is good until \(tokens.expiresAt?.formatted(.iso8601) ?? "its end, which the provider does not say")."
    } catch {
        token = "\(error)"
    }
    return Page(session: session, sessions: try await server.sessions(ofUserOf: session), token: token)
}
router.post("/sessions/end") { request, context in
    guard server.isFromOwnForm(request.head) else { throw HTTPError(.forbidden) }
    let session = try context.requireSession()
    let name = request.uri.queryParameters["name"].map { String($0) } ?? ""
    try await server.endSessions(ofUserOf: session, named: [name])
    return Response.redirect(to: "/", type: .normal)
}

let port = option("--port").flatMap { Int($0) } ?? 8400
var application = Application(
    router: router,
    configuration: .init(address: .hostname("127.0.0.1", port: port))
)
application.addServices(SessionService(server: server))
try await application.runService()
