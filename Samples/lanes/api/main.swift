import AuthFlowResourceServer

let api = try ResourceServer(
    "https://api.example.com/orders",  // the audience of its tokens (aud)
    issuers: [TrustedIssuer(AuthorizationServer(issuer: "https://id.example.com"))]
)

func respond(to request: HTTPRequest) async -> TransportResponse {
    if let metadata = api.metadataResponse(to: request) { return metadata }  // its address is then enough for clients
    do throws(Rejection) {
        let authorization = try await api.authorize(request, requiring: ["orders:read"])
        return TransportResponse(head: HTTPResponse(status: .ok), body: Array("\(authorization.subject ?? "")".utf8))
    } catch {
        print(error.reason)  // for the log: the client is told no more than RFC 6750 has codes for
        return error.response
    }
}
