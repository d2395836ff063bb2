// Signs in with GitHub from a configuration file, in a browser or on another device, and calls an API for each granted scope.

import AuthFlow
import AuthFlowGitHub
import AuthFlowHeadless
import AuthFlowLoopback
import AuthFlowTerminal
import Foundation

let arguments = CommandLine.arguments.dropFirst()
let flows: [SignInFlow]? = arguments.contains("--device") ? [.device] : nil
let operands = arguments.filter { !$0.hasPrefix("--") }
let configurationPath = operands.first ?? "authflow.json"

do {
    if arguments.contains("--emulator") {
        try await withEmulator(flow: flows?.first ?? .authorizationCode) { client, host in
            try await run(client, host: host)
        }
    } else {
        let profile = try ConfigurationFile(path: configurationPath).profile()
        let client = try AuthClient(
            profile: profile,
            providers: [.gitHub],
            userAgents: [.loopback, .headless],
            devicePresenter: TerminalDevicePresenter(),
            overrides: .init(flows: flows)
        ) { event in
            if let url = event.url { print("Sign in at this URL:\n\n\(url)\n") }
        }
        try await run(client, host: try GitHubHost(operands.dropFirst().first ?? "github.com"))
    }
} catch {
    FileHandle.standardError.write(Data("github-login: \(error)\n".utf8))
    exit(1)
}

/// Signs in, and shows the user, the granted scopes and the API's responses.
func run(_ client: AuthClient, host: GitHubHost) async throws {
    let credential = try await client.signIn().credential
    print("Signed in as \(credential.displayName), account \(credential.identity?.subject ?? "").")
    print(
        "Granted: \(credential.tokens.scopes.isEmpty ? "no scopes" : credential.tokens.scopes.joined(separator: ", "))"
    )
    for resource in Resource.all {
        print("\(resource.title) (\(resource.scope)): \(try await resource.call(client, host))")
    }
}
