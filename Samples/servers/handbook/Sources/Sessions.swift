import AuthFlow
import AuthFlowHummingbird
import AuthFlowOIDC
import AuthFlowPostgreSQL
import AuthFlowSQLite
import AuthFlowServer
import AuthFlowServerConfiguration
import Foundation
import HTTPTypes
import Hummingbird
import Logging

func orders(with token: String) async throws -> String { "" }
private let log = Logger(label: "handbook")

struct User { let isNew: Bool }
struct Users: Sendable { func findOrCreate(_ identity: Identity?) async throws -> User? { nil } }
private let users = Users()

func respond(to request: HTTPRequest, _ body: [UInt8], by server: SessionServer) async throws -> TransportResponse {
    let unauthorized = TransportResponse(head: HTTPResponse(status: .unauthorized))
    // In the middleware of a framework:
    if let response = await server.response(to: request, body: body) { return response }  // /login, ...
    guard let session = try await server.session(of: request) else { return unauthorized }  // your own response

    // In a handler:
    let token = try await server.freshTokens(for: session).accessToken
    return TransportResponse(head: HTTPResponse(status: .ok), body: Array(try await orders(with: token.exposed).utf8))
}

struct Cart: SessionData { var items: [String] = [] }

func hooks(in options: inout SessionServerOptions) {
    options.hooks.onSignIn = { signIn in
        guard let user = try await users.findOrCreate(signIn.identity) else {
            return .refuse("Ask the administrator for an account.")
        }
        return try user.isNew ? .accept(Cart(), returningTo: "/welcome") : .accept
    }
    options.hooks.onEnd = { end in log.info("\(end.session.name): \(end.reason.rawValue)") }
}

func addTea(to session: Session, of server: SessionServer) async throws -> Cart? {
    try await server.updateData(of: session) { (cart: inout Cart?) in cart = Cart(items: (cart?.items ?? []) + ["tea"])
    }
    let cart = try await server.data(Cart.self, of: session)
    return cart
}

func payments(on router: Router<WebContext>, by server: SessionServer) {
    // A page that requires authentication with a second factor within the last five minutes.
    router.group("/payments")
        .requireAuthentication(.init(acrValues: ["mfa"], maximumAge: .seconds(300)), by: server)
        .get { _, _ in "Payments" }
}

func stepUp(_ request: HTTPRequest, _ session: Session, by server: SessionServer) async throws -> TransportResponse? {
    // The same check in any framework.
    let requirement = AuthenticationRequirement(acrValues: ["mfa"], maximumAge: .seconds(300))
    if let response = await server.stepUp(request, session, to: requirement) { return response }
    return nil
}

func silentSignIn(_ request: HTTPRequest, by server: SessionServer) async -> TransportResponse {
    // A sign-in with custom parameters: with prompt=none, the provider shows no page.
    var options = SessionSignInOptions(returnPath: "/inbox")
    options.authorization.prompt = AuthorizationOptions.Prompt.none
    return await server.signIn(request, options)
}

func severalProviders(
    _ staffClient: OAuthClient,
    _ guestClient: OAuthClient,
    _ store: any SessionTokenStore,
    _ options: SessionServerOptions
) throws -> SessionServer {
    let server = try SessionServer(
        providers: [
            SessionProvider("staff", client: staffClient, displayName: "Staff"),
            SessionProvider("guests", client: guestClient),
        ],
        store: store,
        options: options
    )
    return server
}

func answer(_ request: HTTPRequest, by server: SessionServer) async -> TransportResponse? {
    let userField = HTTPField.Name("X-User")
    let forwardAuth = ForwardAuth(server: server, fields: userField.map { [$0: .subject] } ?? [:])
    if let response = await forwardAuth.response(to: request) { return response }
    return nil
}

func callAPI(_ request: HTTPRequest, _ body: [UInt8], by server: SessionServer) async throws -> TransportResponse? {
    let ordersAPI: Endpoint = "https://api.example.com/orders/"
    let proxy = ResourceProxy(
        server: server,
        routes: [try .init("/api/orders/", to: ordersAPI, methods: [.get, .post])]
    )
    if let response = await proxy.response(to: request, body: body) { return response }
    return nil
}

func serverFromValues() throws -> SessionServer {
    let secret = ProcessInfo.processInfo.environment["CLIENT_SECRET"] ?? ""  // an empty secret is an error
    let registration = try ClientRegistration(clientID: "my-client") {
        $0.redirectURIs = ["https://app.example.com/callback"]
        $0.postLogoutRedirectURI = "https://app.example.com/"
        $0.scopes = ["openid", "profile", "email", "offline_access"]
        $0.resources = ["https://api.example.com/orders"]
        $0.authentication = .clientSecretBasic(Secret(secret))  // or .privateKeyJWT(key)
    }
    let client = OAuthClient(server: AuthorizationServer(issuer: "https://id.example.com"), registration: registration)
    let store = try SQLiteTokenStore(path: "/var/lib/app/sessions.sqlite")
    let server = try SessionServer(client: client, store: store, options: .init(origin: "https://app.example.com"))
    return server
}

func serverFromAFile() throws -> SessionServer {
    let file = try ConfigurationFile(path: "/etc/my-app/authflow.json")
    let server = try SessionServer(configuration: file, providers: [.oidc], stores: [.memory, .postgreSQL]) { options in
        options.hooks.onSignIn = { signIn in .accept }
    }
    return server
}
