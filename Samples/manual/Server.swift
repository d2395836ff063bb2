import AuthFlow
import AuthFlowOIDC
import AuthFlowPostgreSQL
import AuthFlowServerConfiguration

// The listings from the article "Signing users in on a server".

func serverFromAFile() throws -> SessionServer {
    let file = try ConfigurationFile(path: "/etc/my-app/authflow.json")
    let server = try SessionServer(configuration: file, providers: [.oidc], stores: [.memory, .postgreSQL]) { options in
        options.hooks.onSignIn = { signIn in
            signIn.identity?.claims["email_verified"]?.bool == true
                ? .accept : .refuse("Verify your e-mail address first.")
        }
    }
    return server
}

func respond(to request: HTTPRequest, body: [UInt8], by server: SessionServer) async throws -> TransportResponse {
    if let response = await server.response(to: request, body: body) { return response }
    guard let session = try await server.session(of: request) else {
        return TransportResponse(head: HTTPResponse(status: .unauthorized))
    }
    let token = try await server.freshTokens(for: session).accessToken
    return try await orders(with: token)
}

func orders(with token: Secret) async throws -> TransportResponse {
    TransportResponse(head: HTTPResponse(status: .ok))
}

func beginSignIn(_ client: OAuthClient, _ pending: PendingAuthorizations, cookie: Secret) async throws -> String {
    let request = try await client.authorizationRequest()
    try await pending.save(request, for: cookie)
    return request.url
}

func finishSignIn(
    _ callback: String,
    _ client: OAuthClient,
    _ pending: PendingAuthorizations,
    cookie: Secret
) async throws -> Credential {
    let request = try await pending.take(for: callback, in: cookie, of: client)
    return try await client.exchange(callback, for: request)
}
