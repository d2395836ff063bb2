import AuthFlow
import AuthFlowOIDC
import Foundation

let secret = ProcessInfo.processInfo.environment["CLIENT_SECRET"] ?? ""  // never in the source
let registration = try ClientRegistration(clientID: "my-client") {
    $0.redirectURIs = ["https://app.example.com/callback"]
    $0.scopes = ["openid", "offline_access"]
    $0.authentication = .clientSecretBasic(Secret(secret))
}
let client = OAuthClient(server: AuthorizationServer(issuer: "https://id.example.com"), registration: registration)
let credentials = CredentialManager(client: client, store: MemoryTokenStore())  // for one process; see docs/servers.md

func login(hint: String) async throws -> AuthorizationRequest {
    try await client.authorizationRequest(.init(prompt: .login, loginHint: hint))  // Codable: store it with the session
}

// url: the absolute URL: "https://app.example.com/callback?code=..."
func callback(_ url: String, _ request: AuthorizationRequest, sessionID: String) async throws {
    let credential = try await client.exchange(url, for: request)
    try await credentials.save(credential, for: sessionID)
}

func accessToken(sessionID: String) async throws -> Secret {
    try await credentials.freshTokens(for: sessionID).accessToken  // any task, any process with the same store
}
