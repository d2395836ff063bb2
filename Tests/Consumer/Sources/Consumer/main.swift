import AuthFlow
import AuthFlowOIDC

// One of each plug-in from outside the package, in a module without upcoming features: public API is all they have.

struct TenantProvider: ProviderAdapter {
    let id: ProviderID = "tenant"

    func metadata(in context: ServerContext) async throws -> ProviderMetadata {
        try await discoveredMetadata(issuer: "https://id.example.com", in: context)
    }

    func prepare(_ request: inout ProviderRequest, in context: ProviderContext) async throws {
        if request.purpose == .authorization { request.parameters["tenant"] = "blue" }
    }

    func tokens(from response: ProviderResponse, in context: ProviderContext) throws -> TokenSet {
        try standardTokens(from: response, in: context)
    }

    func identity(for tokens: TokenSet, in context: ProviderContext) async throws -> Identity {
        try await standardIdentity(for: tokens, in: context)
    }
}

struct LineUserAgent: UserAgent {
    nonisolated(nonsending) func withRedirectSession<Return: Sendable>(
        _ options: RedirectOptions,
        _ body: nonisolated(nonsending) (RedirectSession) async throws -> Return
    ) async throws -> Return {
        try await body(
            RedirectSession(redirectURI: options.redirectURI.uri) { url in
                print("Open \(url) and paste the address you end at:")
                return readLine() ?? ""
            }
        )
    }
}

actor VaultTokenStore: TokenStore {
    private var entries: [TokenKey: [UInt8]] = [:]

    func bytes(for key: TokenKey) async throws -> [UInt8]? { entries[key] }
    func set(_ bytes: [UInt8]?, for key: TokenKey) async throws { entries[key] = bytes }

    nonisolated(nonsending) func withExclusiveAccess<Return: Sendable>(
        to key: TokenKey,
        _ body: nonisolated(nonsending) () async throws -> Return
    ) async throws -> Return { try await body() }
}

struct OfflineTransport: HTTPTransport {
    func send(_ call: TransportRequest) async throws -> TransportResponse {
        throw AuthError(.networkFailed, "There is no network.")
    }
}

let client = AuthClient(
    client: OAuthClient(
        server: AuthorizationServer(TenantProvider(), transport: OfflineTransport()),
        registration: try ClientRegistration(clientID: "app") {
            $0.redirectURIs = [try RedirectURI("com.example.app:/callback")]
        }
    ),
    methods: [.userAgent(LineUserAgent())],
    store: VaultTokenStore()
)
do {
    _ = try await client.signIn()
} catch {
    print("Not signed in: \(error)")
}
