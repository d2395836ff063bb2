import AuthFlow
import AuthFlowLoopback
import AuthFlowOIDC

let file = try ConfigurationFile(path: "authflow.json")
let client = try AuthClient(profile: try file.profile(), providers: [.oidc], userAgents: [.loopback]) { event in
    if let url = event.url { print("Sign in at: \(url)") }
}
let user = try await client.signIn().identity
print("Hello, \(user?.displayName ?? "stranger")")
