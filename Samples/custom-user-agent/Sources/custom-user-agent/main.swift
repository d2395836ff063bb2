// Signs in with this package's user agent, which the configuration file selects like any other:
//
//     custom-user-agent authflow.json

import AuthFlow
import AuthFlowOIDC
import Foundation

do {
    let file = try ConfigurationFile(path: CommandLine.arguments.dropFirst().first ?? "authflow.json")
    let client = try AuthClient(profile: try file.profile(), providers: [.oidc], userAgents: [.command]) { event in
        if event.step == .userAgentChoice { print("\(event.details["name"] ?? "") was chosen") }
    }
    print("Hello, \(try await client.signIn().credential.displayName)")
} catch {
    print("Not signed in: \(error)")
    exit(1)
}
