public import AuthFlow
import AuthFlowJSON
import HTTPTypes

/// Checks what every ``/AuthFlow/ProviderAdapter`` must do: sign in against an emulator of its provider with a strict
/// client, and leave the protections of the flow in place. Run it from a test of your own.
public struct ProviderConformance: Sendable {
    private let client: AuthClient
    private let adapter: any ProviderAdapter

    /// Creates a suite.
    /// - Parameters:
    ///   - adapter: The adapter under test.
    ///   - client: A client made with it, whose user agent can sign in, with a loopback redirect URI that names its port.
    public init(adapter: any ProviderAdapter, client: AuthClient) {
        self.adapter = adapter
        self.client = client
    }

    /// Runs every check. The client is signed out afterwards.
    /// - Throws: ``ConformanceFailure`` for the first rule that is broken, or what signing in throws.
    public func run() async throws {
        try require((try? Endpoint(adapter.issuer)) != nil, "The issuer is an https URL (RFC 8414 section 2).")
        try saysWhatTheProviderRefuses()
        let credential = try await client.signIn().credential
        try await namesTheUser(credential)
        try await protectsTheRequest()
        try await revokes()
    }

    private func namesTheUser(_ credential: Credential) async throws {
        let issuer = try await client.metadata().issuer
        try require(issuer.isIdentical(to: adapter.issuer), "The metadata names the adapter's issuer.")
        guard let identity = credential.identity else { return }
        try require(!identity.subject.isEmpty, "A user who is known has a subject.")
        try require(identity.issuer.isIdentical(to: issuer), "The issuer of the identity is that of the metadata.")
        if let adapter = adapter as? any UserInfoProviding {
            let again = try await adapter.identity(for: credential.tokens, in: client.providerContext)
            try require(
                again?.subject.isIdentical(to: identity.subject) == true,
                "The same tokens belong to the same user."
            )
        }
        do {
            let subject = try await client.userInfo()["sub"]
            try require(
                subject == nil || subject == .string(identity.subject),
                "Userinfo is about the user who signed in."
            )
        } catch let error as AuthError where error.code == .unsupported {
            // The provider has no userinfo endpoint.
        }
    }

    private func protectsTheRequest() async throws {
        let pending = try await client.beginSignIn()
        let query = FormURLEncoding.decode(String(pending.url.drop { $0 != "?" }.dropFirst())) ?? [:]
        for name in ["state", "code_challenge", "client_id", "redirect_uri"] {
            try require(query.values(for: name).count == 1, "\(name) is sent once.")
        }
        try require(query["code_challenge_method"] == "S256", "PKCE is S256.")
        let isOpenID = (query["scope"] ?? "").split(separator: " ").contains("openid")
        try require(!isOpenID || query["nonce"]?.isEmpty == false, "An OpenID request has a nonce.")
    }

    /// RFC 6749 section 5.2: `invalid_grant` ends a session, so an adapter must pass it on.
    private func saysWhatTheProviderRefuses() throws {
        let endpoint: Endpoint = "https://id.example.com/token"
        let response = ProviderResponse(
            purpose: .refresh,
            endpoint: endpoint,
            http: TransportResponse(
                head: HTTPResponse(status: .badRequest, headerFields: [.contentType: "application/json"]),
                body: Array(#"{"error": "invalid_grant"}"#.utf8)
            )
        )
        let own = adapter as? any ResponseParsing
        let parameters = try? own?.parameters(of: response) ?? response.parameters()
        let name = parameters.flatMap { ProviderError($0, status: 400) }.map {
            adapter.standardErrorNames[$0.error] ?? $0.error
        }
        try require(name == "invalid_grant", "The provider's errors are passed on.")
    }

    private func revokes() async throws {
        switch try await client.signOut().revocation {
        case .done, .unsupported, .nothingToDo: break
        case .failed(let error): try require(false, "Tokens are revoked, or revocation is unsupported: \(error)")
        }
    }

    private func require(_ condition: Bool, _ rule: String) throws(ConformanceFailure) {
        try ConformanceFailure.require(condition, rule)
    }
}
