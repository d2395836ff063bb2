import AuthFlow
import Foundation

let secret = ProcessInfo.processInfo.environment["CLIENT_SECRET"] ?? ""  // never in the source
let registration = try ClientRegistration(clientID: "robot") {
    $0.authentication = .clientSecretBasic(Secret(secret))
    $0.scopes = ["reports"]
    $0.resources = ["https://api.example.com/reports"]  // the API that the token is for (RFC 8707)
}
var options = AuthClient.Options()
options.apiOrigins = ["https://api.example.com"]  // send() sends the token to these origins only
let client = AuthClient(
    client: OAuthClient(server: AuthorizationServer(issuer: "https://id.example.com"), registration: registration),
    methods: [.clientCredentials],
    store: FileTokenStore(application: "robot"),
    options: options
)

// The token is requested once for all tasks and processes, and again when it expires or other scopes are configured.
let response = try await client.send(TransportRequest(.get, "https://api.example.com/reports/today"))
print(response.status, String(decoding: response.body, as: UTF8.self))
