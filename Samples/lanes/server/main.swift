import AuthFlow
import AuthFlowOIDC

let registration = try ClientRegistration(clientID: "my-client") {
    $0.redirectURIs = ["https://app.example.com/callback"]
    $0.scopes = ["openid", "offline_access"]
}
let client = OAuthClient(server: AuthorizationServer(issuer: "https://id.example.com"), registration: registration)
let credentials = CredentialManager(client: client, store: MemoryTokenStore())

func login(hint: String) async throws -> AuthorizationRequest {
    try await client.authorizationRequest(.init(prompt: .login, loginHint: hint))  // Codable: keep it with the session
}

func callback(_ url: String, _ request: AuthorizationRequest, sessionID: String) async throws {
    let credential = try await client.exchange(url, for: request)
    try await credentials.save(credential, for: sessionID)
}

func accessToken(sessionID: String) async throws -> Secret {
    try await credentials.freshTokens(for: sessionID).accessToken  // any task, any process with the same store
}
