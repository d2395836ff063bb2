// Signs in through an authentication tree, with prompts at the terminal, or with an SSO cookie shared by another app.
//
//     forgerock-login authflow.json [PROFILE]

import AuthFlow
import AuthFlowForgeRock
import AuthFlowLoopback
import AuthFlowTerminal
import Foundation

let arguments = CommandLine.arguments.dropFirst()

do {
    let file = try ConfigurationFile(path: arguments.first ?? "authflow.json")
    let profile = try file.profile(arguments.dropFirst().first)
    let client = try AuthClient(
        profile: profile,
        providers: [.forgeRock],
        userAgents: [
            .tree { question, isSecret in
                print("\(profile.name): asked \"\(question)\"")
                return try await TerminalPrompt.ask(question, isSecret: isSecret)
            },
            .loopback,
        ]
    ) { event in
        if let count = event.details["shared_cookies"] { print("\(profile.name): \(count) shared cookies") }
    }
    let credential = try await client.signIn().credential
    let acr = credential.authentication?.contextClass ?? "none"
    print("\(profile.name): signed in as \(credential.displayName) (acr: \(acr))")
} catch {
    print("\((error as? AuthError)?.code.rawValue ?? "error"): \(error)")
    exit(1)
}
