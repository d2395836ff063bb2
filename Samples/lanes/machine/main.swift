import AuthFlow
import Foundation

let secret = ProcessInfo.processInfo.environment["CLIENT_SECRET"] ?? ""  // never in the source
let registration = try ClientRegistration(clientID: "robot") {
    $0.authentication = .clientSecretBasic(Secret(secret))
    $0.scopes = ["reports"]
    $0.resources = ["https://api.example.com/reports"]  // the API that the token is for (RFC 8707)
}
let client = AuthClient(
    client: OAuthClient(server: AuthorizationServer(issuer: "https://id.example.com"), registration: registration),
    methods: [.clientCredentials],
    store: FileTokenStore(application: "robot")
)

let tokens = try await client.freshTokens()  // stored until it expires; one request for all tasks and processes
print("The access token expires at \(tokens.expiresAt?.formatted(.iso8601) ?? "an unknown time").")
