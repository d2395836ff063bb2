// A web application whose users sign in with a provider. Tokens stay on the server; the browser stores only a random
// session identifier.
//
//     web-login CONFIGURATION [--port PORT] [--api URL]
//
// In the configuration file, the section "server" describes the application, and each profile specifies a provider, the
// client with its secret, and the store. The store is "memory" here; use "sqlite" for several processes on one machine,
// and "postgresql" or "redis" for any number of machines. With several providers, users choose one.

import AuthFlow
import AuthFlowHummingbird
import AuthFlowLog
import AuthFlowOIDC
import AuthFlowPostgreSQL
import AuthFlowRedis
import AuthFlowSQLite
import AuthFlowServerConfiguration
import Foundation
import HTTPTypes
import Hummingbird
import Logging
import SampleStart

struct WebContext: SessionRequestContext {
    var coreContext: CoreRequestContextStorage
    var session: Session?
    init(source: Source) { coreContext = .init(source: source) }
}

/// The application's data in a session.
struct Notebook: SessionData {
    var notes: [String] = []
}

let arguments = Array(CommandLine.arguments.dropFirst())
guard let path = arguments.first else { end(usage: "web-login CONFIGURATION [--port PORT] [--api URL]") }
func option(_ name: String) -> String? { zip(arguments, arguments.dropFirst()).first { $0.0 == name }?.1 }
let port = option("--port").flatMap { Int($0) } ?? 8400

// The subjects of blocked users. E-mail addresses are not used, because users of some providers can change them.
let blocked: Set = ["248289761002"]

var hooks = SessionHooks()
hooks.onSignIn = { signIn in
    // A real application looks up its user here, or creates a user record.
    let isBlocked = blocked.contains(signIn.identity?.subject ?? "")
    return isBlocked ? .refuse("This account is blocked. Ask the administrator.") : .accept
}
hooks.onEnd = { print("The session \($0.session.name.prefix(8)) has ended: \($0.reason.rawValue).") }
let stores: [TokenStoreFactory] = [.memory, .sqlite, .postgreSQL, .redis]
let server = configured {
    // Failed sign-ins are logged as warnings, most with the action to take.
    let observer = FlowEvent.logger(Logger(label: "auth"))
    return try SessionServer(
        configuration: ConfigurationFile(path: path),
        providers: [.oidc],
        stores: stores,
        { options in options.hooks = hooks },
        observer: observer
    )
}

let router = Router(context: WebContext.self)
router.get("/ready") { _, _ in
    let readiness = await server.readiness()
    return EditedResponse(
        status: readiness.isReady ? .ok : .serviceUnavailable,
        response: readiness.problems.joined(separator: "\n")
    )
}
router.get("/gauges") { _, _ in server.gauges.map { "\($0)\n" }.joined() }
let userField = HTTPField.Name("X-User")
let forwardAuth = ForwardAuth(server: server, fields: userField.map { [$0: .subject] } ?? [:])
router.get("/forward-auth") { request, _ in
    Response(await forwardAuth.response(to: request.head) ?? TransportResponse(head: HTTPResponse(status: .notFound)))
}
// Scripts on the page call the API through the application, which adds the access token.
let api = try option("--api").map { address in
    try ResourceProxy.Route(
        "/api/",
        to: Endpoint(address),
        methods: [.get, .put],
        maximumRequestSize: 1 << 30,
        streamsRequests: true,
        streamsResponses: true
    )
}
let proxy = ResourceProxy(server: server, routes: [api].compactMap(\.self))
router.add(middleware: SessionMiddleware(server: server, proxy: proxy))
router.get("/") { request, context in
    guard let session = context.session else { return Page(session: nil, sessions: [], token: "", notes: []) }
    let expiry = try await server.freshTokens(for: session).expiresAt
    return Page(
        session: session,
        sessions: try await server.sessions(ofUserOf: session),
        token: "The access token is valid until \(expiry?.formatted(.iso8601) ?? "an unknown time").",
        notes: try await server.data(Notebook.self, of: session)?.notes ?? []
    )
}
router.get("/silent") { request, _ in
    var signIn = SessionSignInOptions(returnPath: "/")
    signIn.authorization.prompt = AuthorizationOptions.Prompt.none
    return Response(await server.signIn(request.head, signIn))
}
router.post("/notes") { request, context in
    guard server.isFromOwnForm(request.head) else { throw HTTPError(.forbidden) }
    let form = FormURLEncoding.decode(String(buffer: try await request.body.collect(upTo: 4096)))
    let note = form?["note"] ?? ""
    guard note.utf8.count <= 500 else { throw HTTPError(.contentTooLarge) }
    try await server.updateData(of: try context.requireSession()) { (notebook: inout Notebook?) in
        notebook = Notebook(notes: ((notebook?.notes ?? []) + [note]).suffix(10))
    }
    return Response.redirect(to: "/", type: .normal)
}
router.post("/sessions/end") { request, context in
    guard server.isFromOwnForm(request.head) else { throw HTTPError(.forbidden) }
    let name = request.uri.queryParameters["name"].map { String($0) } ?? ""
    try await server.endSessions(ofUserOf: try context.requireSession(), named: [name])
    return Response.redirect(to: "/", type: .normal)
}
router.group("/payments")
    .requireAuthentication(AuthenticationRequirement(acrValues: ["mfa"], maximumAge: .seconds(300)), by: server)
    .get { _, context in Page.payments(try context.requireSession()) }

let application = Application(router: router, configuration: .init(address: .hostname("127.0.0.1", port: port)))
await serving { try await application.runService(sessions: server, shutdownTimeout: .seconds(2)) }
