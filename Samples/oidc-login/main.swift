// Signs in from a configuration file, shows the ID Token, and calls an API for each granted scope.

import AuthFlow
import AuthFlowDesktop
import AuthFlowHeadless
import AuthFlowLoopback
import AuthFlowOIDC
import AuthFlowTerminal
import Foundation

let configurationPath = CommandLine.arguments.dropFirst().first ?? "authflow.json"
let resourcesPath = CommandLine.arguments.dropFirst(2).first ?? "resources.json"

do {
    let file = try ConfigurationFile(path: configurationPath)
    // Accepts a redirect pasted at the terminal, for users whose browser is on another machine.
    let redirects = TerminalRedirects()
    let client = try AuthClient(
        profile: try file.profile(),
        providers: [.oidc],
        userAgents: [.loopback, .systemBrowser, .headless, .paste]
    ) { event in
        redirects.observer(event)
        if let url = event.url { print("Sign in at this URL:\n\n\(url)\n") }
    }
    let credential = try await redirects.accepting(for: client) { try await client.signIn() }.credential

    print("Hello, \(credential.displayName).\n")
    if let idToken = credential.tokens.verifiedIDToken {
        print("ID Token header:\n\(try text(idToken.header.json))\n")
        print("ID Token claims:\n\(try text(idToken.claims))\n")
    }
    for resource in try Resource.list(in: resourcesPath) {
        print("\(resource.title) (\(resource.scope)): \(try await resource.call(with: credential.tokens))")
    }
} catch {
    FileHandle.standardError.write(Data("oidc-login: \(error)\n".utf8))
    exit(1)
}
