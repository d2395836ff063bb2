import AuthFlow
import AuthFlowLoopback
import AuthFlowOIDC

let client = try AuthClient(
    issuer: "https://id.example.com",
    clientID: "my-client",
    scopes: ["openid"],
    userAgents: [LoopbackUserAgent()]
)
print(client.server.issuer)
