import AuthFlow
import AuthFlowLoopback
import AuthFlowOIDC
import AuthFlowTerminal
import AuthFlowTesting

// The listings in the documentation comments, except those for servers (in servers/handbook) and tests (in
// servers/web-login/Tests).

func emulatedResource() -> ProtectedResourceEmulator {
    let emulator = ProtectedResourceEmulator(origin: "https://api.example.com")
    emulator.settings.toolScopes = ["mcp:write"]
    return emulator
}

func faults(_ emulator: OIDCEmulator) {
    emulator.fault = .idToken(.wrongIssuer)
    emulator.fault = .jwks(.rotateBeforeSigning)
    emulator.fault = .callback(.missingIss)
    emulator.fault = .idToken(.claims { $0["acr"] = "weak" })
}

func askToSignIn() {}

func makeClient(observer: @escaping @Sendable (FlowEvent) -> Void) throws -> AuthClient {
    let profile = try ConfigurationFile(path: "authflow.json").profile()
    return try AuthClient(profile: profile, providers: [.oidc], userAgents: [.loopback], observer: observer)
}

func askWhenTheSessionEnds() async throws {
    let events = FlowEventStream()
    let client = try makeClient(observer: events.observer)
    for await event in events.stream() where event.step == .sessionEnd { askToSignIn() }
    _ = client
}

func signInWithPastedRedirects() async throws -> SignIn {
    let redirects = TerminalRedirects()
    let client = try makeClient(observer: redirects.observer)
    let signIn = try await redirects.accepting(for: client) { try await client.signIn() }
    return signIn
}

struct OfflineTransport: HTTPTransport {
    func send(_ call: TransportRequest) async throws -> TransportResponse {
        throw AuthError(.networkFailed, "No network.")
    }
}

struct ExampleProvider: ProviderAdapter {
    let issuer = "https://example.com"

    func metadata(in context: ServerContext) async throws -> ProviderMetadata {
        try await context.discover()
    }

    func prepare(_ request: inout ProviderRequest, in context: ProviderContext) {
        if request.purpose == .authorization { request.parameters["audience"] = "https://api.example.com" }
    }
}

func verified(_ text: String) async throws -> IDToken {
    let server = AuthorizationServer(issuer: "https://id.example.com")
    let idToken = try await server.verify(text, audience: "my-client")
    return idToken
}

func codeFlow(_ client: OAuthClient, hint: String, visit: (String) async throws -> String) async throws -> Credential {
    let request = try await client.authorizationRequest(.init(loginHint: hint))
    let callbackURL = try await visit(request.url)
    let credential = try await client.exchange(callbackURL, for: request)
    return credential
}

func registered() throws -> ClientRegistration {
    let registration = try ClientRegistration(clientID: "my-client") {
        $0.scopes = ["openid", "profile"]
        $0.redirectURIs = ["http://127.0.0.1/callback"]
    }
    return registration
}

func managed(
    _ client: OAuthClient,
    _ store: any TokenStore,
    _ credential: Credential,
    sessionID: String
) async throws -> TokenSet {
    let credentials = CredentialManager(client: client, store: store)
    try await credentials.save(credential, for: sessionID)
    let tokens = try await credentials.freshTokens(for: sessionID)  // any process, any machine
    return tokens
}

func readKeys(_ profile: ConfigurationObject) throws -> String {
    let tenant = ConfigurationKey("tenant", required: .text, "The tenant's name.")
    let level = ConfigurationKey("level", .number(0...10), default: 1, "The minimum level of a sign-in.")
    let audience = ConfigurationKey("audience", .text, "The audience, if the provider has several.")

    let name: String = try profile[tenant]
    let minimum: Int = try profile[level]
    let optional: String? = try profile[audience]
    return "\(name) \(minimum) \(optional ?? "")"
}

func resource(_ userAgent: any UserAgent, _ store: any TokenStore) async throws -> TransportResponse {
    let client = try ResourceClient("https://api.example.com/mcp", methods: [.userAgent(userAgent)], store: store)
    let response = try await client.send(TransportRequest(.get, client.address))
    return response
}

func userOfAFile() async throws -> Identity? {
    let file = try ConfigurationFile(path: "authflow.json")
    let client = try AuthClient(profile: try file.profile(), providers: [.oidc], userAgents: [.loopback])
    let user = try await client.signIn().identity
    return user
}

typealias MyProvider = ExampleProvider

func clientOfAnAdapter() throws -> AuthClient {
    let client = try AuthClient(
        MyProvider(),
        clientID: "my-client",
        scopes: ["profile"],
        userAgents: [LoopbackUserAgent()],
        store: FileTokenStore(application: "my-app")
    )
    return client
}

func clientOfAnIssuer() throws -> AuthClient {
    let client = try AuthClient(
        issuer: "https://id.example.com",
        clientID: "my-client",
        scopes: ["openid", "profile", "offline_access"],
        userAgents: [LoopbackUserAgent()],
        store: FileTokenStore(application: "my-app")
    )
    return client
}

struct PlainDevicePresenter: DevicePresenter {
    nonisolated(nonsending) func present<Return: Sendable>(
        _ authorization: DeviceAuthorization,
        while body: nonisolated(nonsending) () async throws -> Return
    ) async throws -> Return {
        print("Go to \(authorization.verificationURI.url) and enter \(authorization.userCode)")
        return try await body()
    }
}

/// Sends URLs, and waits for redirects.
struct PostOffice: Sendable {
    let country: String
    func send(_ url: String) async throws {}
    func response() async throws -> String { "" }
}

struct PostcardUserAgent: UserAgent {
    let postOffice: PostOffice

    nonisolated(nonsending) func withRedirectSession<Return: Sendable>(
        _ options: RedirectOptions,
        _ body: nonisolated(nonsending) (RedirectSession) async throws -> Return
    ) async throws -> Return {
        try await body(
            RedirectSession(redirectURI: options.redirectURI.uri) { url in
                try await postOffice.send(url)
                return try await postOffice.response()
            }
        )
    }
}

extension UserAgentFactory {
    static var postcard: UserAgentFactory {
        let country = ConfigurationKey("country", .text, default: "IS", "The destination country.")
        return UserAgentFactory("postcard", keys: [country]) { options, _ in
            PostcardUserAgent(postOffice: PostOffice(country: try options[country]))
        }
    }
}

struct TenantProvider: ProviderAdapter {
    let tenant: String
    var issuer: String { "https://\(tenant).example.com" }

    func metadata(in context: ServerContext) async throws -> ProviderMetadata { try await context.discover() }
}

extension ProviderFactory {
    static var example: ProviderFactory {
        let tenant = ConfigurationKey("tenant", required: .text, "The tenant's name.")
        return ProviderFactory("example", keys: [tenant]) { profile in
            TenantProvider(tenant: try profile[tenant])
        }
    }
}

func save(_ client: OAuthClient, _ store: any TokenStore, for cookie: Secret) async throws -> String {
    let pending = PendingAuthorizations(store: store)
    let request = try await client.authorizationRequest()
    try await pending.save(request, for: cookie)
    return request.url
}

func take(
    _ callbackURL: String,
    _ cookie: Secret,
    _ client: OAuthClient,
    _ pending: PendingAuthorizations
) async throws -> AuthorizationRequest {
    // In this process or any other:
    let request = try await pending.take(for: callbackURL, in: cookie, of: client)
    return request
}
