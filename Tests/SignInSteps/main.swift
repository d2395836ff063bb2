// Runs a step of a sign-in. Each step runs in a separate process, like the requests of a sign-in at a web server:
//
//     sign-in-steps begin ISSUER DIRECTORY              stores the request in DIRECTORY, and prints its URL
//     sign-in-steps finish ISSUER DIRECTORY CALLBACK    exchanges the code, stores the credential, and prints the user
//     sign-in-steps token ISSUER DIRECTORY              prints the scopes of fresh tokens
//     sign-in-steps seal ISSUER KEY                     prints the URL, and the sealed request for a cookie
//     sign-in-steps open ISSUER KEY SEALED CALLBACK     completes the sign-in with the request from the cookie

import AuthFlow
import AuthFlowOIDC

let arguments = Array(CommandLine.arguments.dropFirst())

do {
    guard arguments.count >= 3 else {
        throw AuthError(.invalidConfiguration, "The command must be begin, finish, token, seal or open.")
    }
    let (issuer, place) = (arguments[1], arguments[2])
    let client = OAuthClient(
        server: AuthorizationServer(issuer: issuer),
        registration: try ClientRegistration(clientID: "authflow-demo") {
            $0.redirectURIs = ["http://127.0.0.1:8400/callback"]
            $0.scopes = ["openid", "profile", "offline_access"]
        }
    )
    let browser = Secret("a cookie of the browser")
    switch arguments[0] {
    case "begin":
        let request = try await client.authorizationRequest(.init(loginHint: "alice"))
        try await PendingAuthorizations(store: FileTokenStore(directory: place)).save(request, for: browser)
        print(request.url)
    case "finish":
        let store = FileTokenStore(directory: place)
        let request = try await PendingAuthorizations(store: store).take(for: arguments[3], in: browser, of: client)
        let credential = try await client.exchange(arguments[3], for: request)
        try await CredentialManager(client: client, store: store).save(credential, for: "session-1")
        print(credential.displayName)
    case "token":
        let credentials = CredentialManager(client: client, store: FileTokenStore(directory: place))
        print(try await credentials.freshTokens(for: "session-1").scopes.joined(separator: " "))
    case "seal":
        let request = try await client.authorizationRequest()
        print(request.url)
        print(try request.sealed(by: Secret(place)))
    default:
        let request = try AuthorizationRequest(sealed: arguments[3], by: Secret(place))
        print(try await client.exchange(arguments[4], for: request).displayName)
    }
} catch {
    print("error: \(error)")
}
