import AuthFlow
import AuthFlowLoopback
import AuthFlowOIDC

do {
    let file = try ConfigurationFile(path: "authflow.json")  // from the working directory
    let client = try AuthClient(profile: try file.profile(), providers: [.oidc], userAgents: [.loopback]) { event in
        if let url = event.url { print("Sign in at: \(url)") }
    }
    let user = try await client.signIn().identity
    print("Hello, \(user?.displayName ?? "stranger")")
} catch {
    print("The sign-in failed: \(error)")
}
