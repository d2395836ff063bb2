import AuthFlowResourceServer

// A program with only an API, which receives a request without a token.

let api = try ResourceServer(
    "https://api.example.com/orders",
    issuers: [TrustedIssuer(AuthorizationServer(issuer: "https://id.example.com"))]
)
do throws(Rejection) {
    _ = try await api.authorize(
        HTTPRequest(method: .get, scheme: "https", authority: "api.example.com", path: "/orders")
    )
} catch {
    print("Rejected: \(error.response.status)")
}
