import AuthFlow

// The listings from the article "Machine-to-machine clients, and FAPI 2.0".

func robot() throws -> ClientRegistration {
    let key = SigningKeySource.file(path: "robot.pem")  // PEM, JWK or JWK Set; reloaded after it has been replaced
    let registration = try ClientRegistration(clientID: "robot") {
        $0.authentication = .privateKeyJWT(key)
        $0.scopes = ["reports"]
    }
    return registration
}

func reports(_ client: OAuthClient, _ store: any TokenStore) async throws -> Secret {
    let credentials = CredentialManager(
        client: client,
        store: store,
        renewal: { client, resource in
            try await client.clientCredentials(resources: resource.map { [$0] })
        }
    )
    let tokens = try await credentials.freshTokens(for: "reports")
    return tokens.accessToken
}

func workload(_ oauthClient: OAuthClient) async throws -> Secret {
    let source = AssertionSource.file(path: "/var/run/secrets/tokens/id.example.com")
    let client = AuthClient(client: oauthClient, methods: [.jwtBearer(source)])
    let tokens = try await client.freshTokens()
    return tokens.accessToken
}
