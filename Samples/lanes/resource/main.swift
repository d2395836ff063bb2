import AuthFlow
import AuthFlowLoopback
import Foundation

let client = try ResourceClient("https://api.example.com/mcp", userAgents: [.loopback]) { event in
    if let url = event.url { FileHandle.standardError.write(Data("Sign in at: \(url)\n".utf8)) }
}
let response = try await client.send(TransportRequest(.get, client.address))
print(response.status)
