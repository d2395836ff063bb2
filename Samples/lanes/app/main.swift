import AuthFlow
import AuthFlowLoopback
import AuthFlowOIDC
import Foundation

do {
    let file = try ConfigurationFile(path: "authflow.json")  // from the working directory
    let client = try AuthClient(profile: try file.profile(), providers: [.oidc], userAgents: [.loopback]) { event in
        if let url = event.url { FileHandle.standardError.write(Data("Sign in at: \(url)\n".utf8)) }
    }
    let user = try await client.signIn().identity
    print("Hello, \(user?.displayName ?? "stranger")")
} catch {
    print("The sign-in failed: \(error)")
}
