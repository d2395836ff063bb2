import AuthFlowOAuth

let server = AuthorizationServer(issuer: "https://id.example.com")

func user(presenting idToken: String) async throws -> String {
    try await server.verify(idToken, audience: "my-client").subject
}
