// One of several apps from one vendor that share a sign-in: signs in, shows the signed-in user, signs out.
//
//     okta-native-sso login|status|logout mail.json

import AuthFlow
import AuthFlowHeadless
import AuthFlowLoopback
import AuthFlowOkta
import Foundation

let arguments = Array(CommandLine.arguments.dropFirst())
let isVerbose = arguments.contains("--verbose")

do {
    guard arguments.count >= 2 else {
        throw AuthError(.invalidConfiguration, "Usage: okta-native-sso login|status|logout FILE")
    }
    let file = try ConfigurationFile(path: arguments[1])
    let profile = try file.profile()
    let client = try AuthClient(profile: profile, providers: [.okta], userAgents: [.headless, .loopback]) { event in
        report(event, of: profile.name)
    }
    switch arguments[0] {
    case "login":
        let credential = try await client.signIn().credential
        print("\(profile.name): signed in as \(credential.displayName)")
    case "status":
        // Queries the provider, because another app may have signed the user out.
        let credential = try await client.refresh()
        print("\(profile.name): \(credential.displayName) is signed in")
    case "logout":
        let signOut = try await client.signOut()
        guard case .done = signOut.revocation else { throw AuthError(.providerRejected, "\(signOut.revocation)") }
        print("\(profile.name): signed out, together with every app in the group")
    default:
        throw AuthError(.invalidConfiguration, "The command must be login, status or logout.")
    }
} catch {
    print("\((arguments.dropFirst().first ?? "").split(separator: "/").last ?? ""): \(error)")
    exit(1)
}

/// Prints how the user was signed in.
func report(_ event: FlowEvent, of app: String) {
    if isVerbose { print("\(event)") }
    switch (event.step, event.progress) {
    case (.tokenExchange, .succeeded): print("\(app): another app's sign-in was reused, without a prompt")
    case (.userAgentVisit, .succeeded): print("\(app): a page was shown, and a password was entered")
    default: break
    }
}
