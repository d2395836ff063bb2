import AuthFlowResourceServer

let api = try ResourceServer(
    "https://api.example.com/orders",  // the audience of its tokens (aud)
    issuers: [TrustedIssuer(AuthorizationServer(issuer: "https://id.example.com"))]
)

func respond(to request: HTTPRequest) async -> TransportResponse {
    if let metadata = api.metadataResponse(to: request) { return metadata }  // clients discover the issuer from it
    do throws(Rejection) {
        let authorization = try await api.authorize(request, requiring: ["orders:read"])
        return TransportResponse(head: HTTPResponse(status: .ok), body: Array("\(authorization.subject ?? "")".utf8))
    } catch {
        print(error.reason)  // for the log only: the response has just an error code
        return error.response
    }
}
