import AuthFlow
import AuthFlowLoopback

// The listings from the article "Calling a protected resource by its URL".

func callResource(_ store: any TokenStore) async throws -> Int {
    let client = try ResourceClient(
        "https://api.example.com/mcp",
        methods: [.userAgent(LoopbackUserAgent())],
        store: store
    )
    let response = try await client.send(TransportRequest(.get, client.address))
    return response.status
}

func callResource(
    _ client: ResourceClient,
    send: (HTTPFields) async throws -> HTTPResponse
) async throws -> HTTPResponse {
    var head = HTTPResponse(status: .ok)
    var attempt = try client.attempt(.post, "https://api.example.com/mcp")
    repeat {
        head = try await send(client.authorize(&attempt))
    } while try await client.mustRetry(&attempt, after: head)
    return head
}
