import AuthFlow
import AuthFlowOIDC

/// A provider adapter and a user agent from outside the package: public API is all they have.
struct TenantProvider: ProviderAdapter {
    let id: ProviderID = "tenant"

    func metadata(in context: ProviderContext) async throws -> ProviderMetadata {
        try await discoveredMetadata(issuer: "https://id.example.com", in: context)
    }

    func prepare(_ request: inout ProviderRequest, in context: ProviderContext) {
        if request.purpose == .authorization { request.parameters["tenant"] = "blue" }
    }
}

struct PasteUserAgent: UserAgent {
    func withRedirectSession<Return: Sendable>(
        _ options: RedirectOptions,
        _ body: (RedirectSession) async throws -> Return
    ) async throws -> Return {
        try await body(
            RedirectSession(redirectURI: options.redirectURI.uri) { url in
                print("Open \(url) and paste the address you end at:")
                return readLine() ?? ""
            }
        )
    }
}

let client = AuthClient(
    settings: try ClientSettings(clientID: "app", redirectURI: RedirectURI("com.example.app:/callback")),
    provider: TenantProvider(),
    userAgent: PasteUserAgent()
)
print(try await client.credential() == nil ? "Nobody is signed in." : "Signed in.")
