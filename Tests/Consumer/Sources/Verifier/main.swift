import AuthFlowOAuth

// A program that only verifies ID Tokens: the README's, with a token that is not one.

let server = AuthorizationServer(issuer: "https://id.example.com")

func user(presenting idToken: String) async throws -> String {
    try await server.verify(idToken, audience: "my-client").subject
}

do {
    print(try await user(presenting: "not a token"))
} catch {
    print("Refused: \((error as? AuthError)?.code.rawValue ?? "\(error)")")
}
