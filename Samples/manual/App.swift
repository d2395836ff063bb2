import AuthFlow
import AuthFlowHeadless
import AuthFlowLoopback
import AuthFlowOIDC
import AuthFlowTerminal
import Foundation

// The listings from the article "Signing in from an app or a tool".

func signInFromAFile() async throws {
    let file = try ConfigurationFile(path: "authflow.json")  // from the working directory
    let client = try AuthClient(profile: try file.profile(), providers: [.oidc], userAgents: [.loopback]) { event in
        if let url = event.url { FileHandle.standardError.write(Data("Sign in at: \(url)\n".utf8)) }
    }
    print(try await client.signIn())
}

func clientFromValues() throws -> AuthClient {
    let client = try AuthClient(
        issuer: "https://id.example.com",
        clientID: "my-client",
        scopes: ["openid", "profile", "offline_access"],
        userAgents: [LoopbackUserAgent()],
        store: FileTokenStore(application: "my-app")
    ) { event in
        if let url = event.url { FileHandle.standardError.write(Data("Sign in at: \(url)\n".utf8)) }
    }
    return client
}

func clientWithMore() throws -> AuthClient {
    var options = AuthClient.Options()
    options.apiOrigins = ["https://api.example.com"]
    let client = try AuthClient(
        issuer: "https://id.example.com",
        clientID: "my-client",
        scopes: ["openid", "offline_access"],
        userAgents: [LoopbackUserAgent()],
        devicePresenter: TerminalDevicePresenter(),
        store: FileTokenStore(application: "my-app"),
        options: options,
        observer: { event in
            if let url = event.url { FileHandle.standardError.write(Data("Sign in at: \(url)\n".utf8)) }
        },
        registration: {
            $0.redirectURIs = ["http://127.0.0.1:8456/callback"]
            $0.usesDPoP = true
        }
    )
    return client
}

func clientOfARobot() throws -> AuthClient {
    let driver = HTMLFormDriver(
        username: "alice",
        password: Secret("wonderland"),
        origins: ["http://127.0.0.1:8455"]  // the password is entered at no other origin
    )
    let client = try AuthClient(
        issuer: "http://127.0.0.1:8455",
        clientID: "authflow-demo",
        scopes: ["openid", "profile", "offline_access"],
        userAgents: [HeadlessUserAgent(driver: driver)],
        registration: {
            $0.redirectURIs = ["http://127.0.0.1:8456/callback"]  // nothing listens there: the agent reads the redirect
            $0.resources = ["https://api.example.com/orders"]  // the API that the tokens are for (RFC 8707)
        }
    )
    return client
}

func accessToken(_ client: AuthClient) async throws -> Secret {
    do {
        return try await client.freshTokens().accessToken
    } catch let error as AuthError where error.code == .loginRequired {
        return try await client.signIn().credential.tokens.accessToken
    }
}

func useTokens(of client: AuthClient) async throws {
    let tokens = try await client.freshTokens()  // before each use: refreshed if necessary

    let orders: Endpoint = "https://api.example.com/orders"
    let response = try await client.send(TransportRequest(.get, orders))
    print(response.status, String(decoding: response.body, as: UTF8.self))
    _ = tokens
}

/// Requests the orders, after signing the user in on the first start or if the session has ended.
func orders(_ client: AuthClient) async throws -> TransportResponse {
    let request = TransportRequest(.get, "https://api.example.com/orders")
    do {
        return try await client.send(request)
    } catch let error as AuthError where error.code == .loginRequired {
        _ = try await client.signIn()
        return try await client.send(request)
    }
}

func followState(of client: AuthClient) async throws {
    for await state in try await client.states() {
        switch state {
        case .signedIn(let identity): print("Signed in as \(identity?.displayName ?? "an unknown user")")
        case .ended(let session): print("The provider has ended the session: \(session.reason)")
        case .signedOut, .refreshed, .expired: break
        }
    }
}

func signOut(of client: AuthClient) async throws {
    let signOut = try await client.signOut(endingSession: true)
    if signOut.revocation != .done || signOut.endSession != .done { print(signOut) }
    _ = await client.drain()
}
