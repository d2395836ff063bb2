import AuthFlow
import AuthFlowLoopback

let client = try ResourceClient("https://api.example.com/mcp", userAgents: [.loopback]) { event in
    if let url = event.url { print("Sign in at: \(url)") }
}
let response = try await client.send(TransportRequest(.get, client.address))
print(response.status)
