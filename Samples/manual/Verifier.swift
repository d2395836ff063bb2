import AuthFlowIssuer

// The code from the article "Verifying ID Tokens".

let idServer = AuthorizationServer(issuer: "https://id.example.com")  // one per process

func user(of idToken: String) async throws -> String {
    let verified = try await idServer.verify(idToken, audience: "my-client")
    return verified.subject
}
