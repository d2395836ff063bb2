import AuthFlow

/// A code forge like GitLab: discovery at its host, user information from its own API, revocation without a token type
/// hint.
struct ForgeProvider: ProviderAdapter {
    let issuer: String

    func metadata(in context: ServerContext) async throws -> ProviderMetadata {
        var metadata = try await context.discover()
        metadata.signOutAdvice = "Sign out at \(issuer)/-/profile."
        return metadata
    }

    func prepare(_ request: inout ProviderRequest, in context: ProviderContext) {
        // The forge shows its own sign-in form, regardless of the company account that the browser is signed in to.
        if request.purpose == .authorization { request.parameters["prefer"] = "password" }
    }
}

extension ForgeProvider: UserInfoProviding {
    func identity(for tokens: TokenSet, in context: ProviderContext) async throws -> Identity? {
        let user = try await userInfo(for: tokens, in: context)
        guard let subject = user["sub"]?.string else {
            throw AuthError(.invalidUserInfo, "The forge's user information has no \"sub\".")
        }
        return Identity(issuer: issuer, subject: subject, claims: user)
    }

    func userInfo(for tokens: TokenSet, in context: ProviderContext) async throws -> JSON {
        let address = try Endpoint("\(issuer)/api/v4/user")
        return try await context.resource(TransportRequest(.get, address), with: tokens).json(from: "the forge")
    }
}

extension ForgeProvider: TokenRevoking {
    func revoke(_ credential: Credential, in context: ProviderContext) async throws {
        let tokens = credential.tokens
        try await context.revoke([tokens.refreshToken ?? tokens.accessToken].map { RevocableToken($0) })
    }
}

extension ProviderFactory {
    /// `forge`: a self-hosted code forge.
    static var forge: ProviderFactory {
        let issuer = ConfigurationKey("issuer", required: .issuer, "The URL of the forge.")
        return ProviderFactory("forge", keys: [issuer], defaultScopes: ["profile", "offline_access"]) {
            ForgeProvider(issuer: try $0[issuer])
        }
    }
}
