package import AuthFlow
package import AuthFlowServer
package import AuthFlowTesting
package import HTTPTypes
import Synchronization

/// A web application with any number of processes, and the browsers that use it.
package struct WebEnvironment: Sendable {
    package static let origin = "https://app.example.com"

    package static let client = OIDCEmulator.Client(
        id: "web",
        secret: "the secret of the web application",
        authenticationMethod: "client_secret_basic",
        redirectURIs: ["\(origin)/callback", "\(origin)/"]
    )

    package let environment: EmulatorEnvironment
    package let store: any SessionTokenStore

    /// The store for the environments created within its scope; default: a separate in-memory store for each environment.
    @TaskLocal package static var store: (any SessionTokenStore)?

    package init(_ environment: EmulatorEnvironment, store: (any SessionTokenStore)? = nil) {
        environment.emulator.hasSessionIDs = true
        self.environment = environment
        self.store = store ?? Self.store ?? MemoryTokenStore()
    }

    /// Runs a body with a web application whose users sign in at an emulator in this process.
    package static func run(_ body: @Sendable (WebEnvironment) async throws -> Void) async throws {
        try await EmulatorEnvironment.with(.inProcess, clients: [client]) { try await body(WebEnvironment($0)) }
    }

    /// A process of the application.
    package func process(
        _ adapter: (any ProviderAdapter)? = nil,
        transport: (any HTTPTransport)? = nil,
        host: HostServices = .system,
        options change: (inout SessionServerOptions) -> Void = { _ in },
        registration: (inout ClientRegistration.Values) -> Void = { _ in },
        observer: (@Sendable (FlowEvent) -> Void)? = nil
    ) throws -> SessionServer {
        var values = ClientRegistration.Values(clientID: Self.client.id)
        values.authentication = .clientSecretBasic(Secret(Self.client.secret ?? ""))
        values.redirectURIs = [try RedirectURI("\(Self.origin)/callback")]
        values.postLogoutRedirectURI = try RedirectURI("\(Self.origin)/")
        values.scopes = ["openid", "profile", "offline_access"]
        registration(&values)
        var options = SessionServerOptions(origin: Self.origin)
        change(&options)
        return try SessionServer(
            client: OAuthClient(
                server: environment.server(adapter, transport: transport, host: host),
                registration: try ClientRegistration(values)
            ),
            store: store,
            options: options,
            observer: observer
        )
    }

    /// Sends the provider's back-channel logout request to a process of the application.
    package func logOut(_ token: String, at server: SessionServer) async throws -> TransportResponse {
        try await WebBrowser().send(.post, "/backchannel-logout", to: server, body: Array("logout_token=\(token)".utf8))
    }
}

/// Sends requests for `https://api.example.com` to a function, and forwards all others.
package struct APITransport: HTTPTransport {
    private let base: any HTTPTransport
    private let api: InProcessTransport

    package init(
        _ base: any HTTPTransport,
        _ api: @escaping @Sendable (HTTPRequest, [UInt8]) async throws -> TransportResponse
    ) {
        (self.base, self.api) = (base, InProcessTransport(origin: "https://api.example.com", handler: api))
    }

    package func send(_ call: TransportRequest) async throws -> TransportResponse {
        call.url.hasPrefix("https://api.example.com/") ? try await api.send(call) : try await base.send(call)
    }
}

/// A browser with its cookies.
package final class WebBrowser: Sendable {
    private let jar = Mutex<[String: String]>([:])

    package init() {}

    package var cookies: [String: String] {
        get { jar.withLock { $0 } }
        set { jar.withLock { $0 = newValue } }
    }

    /// The session cookie.
    package var session: String? { cookies["__Host-Http-authflow"] }

    /// The header fields of a request from a script on the application's own page.
    package static let ownPage: HTTPFields = {
        var fields: HTTPFields = [.origin: WebEnvironment.origin]
        for (name, value) in [("X-AuthFlow", "1"), ("Sec-Fetch-Site", "same-origin")] {
            if let name = HTTPField.Name(name) { fields[name] = value }
        }
        return fields
    }()

    package func request(_ method: HTTPRequest.Method, _ target: String, _ fields: HTTPFields = [:]) -> HTTPRequest {
        var request = HTTPRequest(method: method, scheme: "https", authority: "app.example.com", path: target)
        request.headerFields = fields
        // A browser does not send SameSite=Strict cookies with the provider's redirect.
        let isFromProvider = target.hasPrefix("/callback")
        let cookies = cookies.filter { !isFromProvider || $0.key.contains("-login-") }.map { "\($0.key)=\($0.value)" }
            .sorted().joined(separator: "; ")
        if !cookies.isEmpty { request.headerFields[.cookie] = cookies }
        return request
    }

    /// Sends a request, and stores the cookies of the response.
    package func send(
        _ method: HTTPRequest.Method,
        _ target: String,
        to server: SessionServer,
        _ fields: HTTPFields = [:],
        body: [UInt8] = []
    ) async throws -> TransportResponse {
        guard let response = await server.response(to: request(method, target, fields), body: body) else {
            throw ConformanceRow.Failure(description: "The server has no route for \(target).")
        }
        keep(response)
        return response
    }

    /// Stores the cookies of a response.
    package func keep(_ response: TransportResponse) {
        for field in response.head.headerFields[fields: .setCookie].map(\.value) {
            let parts = field.split(separator: ";")[0].split(
                separator: "=",
                maxSplits: 1,
                omittingEmptySubsequences: false
            )
            jar.withLock { $0[String(parts[0])] = field.contains("Max-Age=0") ? nil : String(parts[1]) }
        }
    }

    /// Starts a sign-in, and performs the user's actions at the provider.
    /// - Returns: The path and query of the provider's redirect.
    package func visitProvider(
        _ web: WebEnvironment,
        at server: SessionServer,
        user: OIDCEmulator.User = .alice,
        returnTo page: String? = nil
    ) async throws -> String {
        var query = FormParameters()
        if let page { query.append("return_to", page) }
        let target = "/login" + (page == nil ? "" : "?\(FormURLEncoding.encodeQuery(query))")
        let response = try await send(.get, target, to: server)
        let url = response.head.headerFields[.location] ?? ""
        try ConformanceRow.require(response.status == 303 && !url.isEmpty, "The browser must be redirected.")
        return String(try await web.environment.visit(url, user: user).dropFirst(WebEnvironment.origin.count))
    }

    /// Signs a user in.
    /// - Returns: The response to the callback.
    @discardableResult
    package func signIn(
        _ web: WebEnvironment,
        at server: SessionServer,
        user: OIDCEmulator.User = .alice,
        returnTo page: String? = nil
    ) async throws -> TransportResponse {
        let target = try await visitProvider(web, at: server, user: user, returnTo: page)
        return try await send(.get, target, to: server)
    }

    /// The session that the server finds.
    package func session(at server: SessionServer) async throws -> Session? {
        try await server.session(of: request(.get, "/"))
    }

    /// The application's data in the session; nil if there is no data or no session.
    package func data<Value: SessionData>(_ type: Value.Type, at server: SessionServer) async throws -> Value? {
        guard let session = try await session(at: server) else { return nil }
        return try await server.data(type, of: session)
    }
}
