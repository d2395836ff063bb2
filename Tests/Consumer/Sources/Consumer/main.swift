import AuthFlow
import AuthFlowOIDC

// One plug-in of each kind, outside the package and without upcoming features. They can use only the public API.

struct TenantProvider: ProviderAdapter {
    let issuer = "https://id.example.com"

    func metadata(in context: ServerContext) async throws -> ProviderMetadata { try await context.discover() }

    func prepare(_ request: inout ProviderRequest, in context: ProviderContext) async throws {
        if request.purpose == .authorization { request.parameters["tenant"] = "blue" }
    }
}

struct LineUserAgent: UserAgent {
    nonisolated(nonsending) func withRedirectSession<Return: Sendable>(
        _ options: RedirectOptions,
        _ body: nonisolated(nonsending) (RedirectSession) async throws -> Return
    ) async throws -> Return {
        try await body(
            RedirectSession(redirectURI: options.redirectURI.uri) { url in
                print("Open \(url) and paste the URL of the final page:")
                return readLine() ?? ""
            }
        )
    }
}

actor VaultTokenStore: TokenStore {
    private var entries: [RecordKey: [UInt8]] = [:]
    private var lastFence: UInt64 = 0

    func bytes(for key: RecordKey) async throws -> [UInt8]? { entries[key] }

    func write(_ bytes: [UInt8]?, under lease: Lease) async throws {
        guard lease.fence == lastFence else { throw Lease.lost }
        entries[lease.key] = bytes
    }

    private func nextFence() -> UInt64 {
        lastFence += 1
        return lastFence
    }

    nonisolated(nonsending) func withLease<Return: Sendable>(
        on key: RecordKey,
        _ body: nonisolated(nonsending) (Lease) async throws -> Return
    ) async throws -> Return { try await body(Lease(key: key, fence: await nextFence())) }
}

struct OfflineTransport: HTTPTransport {
    func send(_ request: TransportRequest) async throws -> TransportResponse {
        throw AuthError(.networkFailed, "There is no network.")
    }
}

let client = AuthClient(
    client: OAuthClient(
        server: AuthorizationServer(TenantProvider(), transport: OfflineTransport()),
        registration: try ClientRegistration(clientID: "app") { $0.redirectURIs = ["com.example.app:/callback"] }
    ),
    methods: [.userAgent(LineUserAgent())],
    store: VaultTokenStore()
)
do {
    _ = try await client.signIn()
} catch {
    print("Not signed in: \(error)")
}
