import AuthFlowIssuer

// A program that only verifies ID Tokens: the README example with a string that is not a token, for a provider
// whose documents are embedded here.

struct Documents: HTTPTransport {
    func send(_ request: TransportRequest) async throws -> TransportResponse {
        let document = """
            {"issuer": "https://id.example.com", "jwks_uri": "https://id.example.com/jwks",
             "authorization_endpoint": "https://id.example.com/authorize", "token_endpoint": "https://id.example.com/token"}
            """
        return TransportResponse(
            head: HTTPResponse(status: .ok, headerFields: [.contentType: "application/json"]),
            body: Array(document.utf8)
        )
    }
}

let server = AuthorizationServer(issuer: "https://id.example.com", transport: Documents())

func user(presenting idToken: String) async throws -> String {
    try await server.verify(idToken, audience: "my-client").subject
}

do {
    print(try await user(presenting: "not a token"))
} catch {
    print("Rejected: \((error as? AuthError)?.code.rawValue ?? "\(error)")")
}
