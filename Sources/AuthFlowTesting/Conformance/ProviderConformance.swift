public import AuthFlow

/// What every ``AuthFlow/ProviderAdapter`` must do: sign in against an emulator of its provider with a strict client, and
/// leave what protects the flow alone. Run it from a test of your own.
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

    /// Runs every check.
    /// - Throws: ``ConformanceFailure`` for the first rule that is broken, or what signing in throws.
    public func run() async throws {
        try ConformanceFailure.require(!adapter.id.rawValue.isEmpty, "An adapter has a name.")
        let signIn = try await client.signIn()
        try ConformanceFailure.require(!signIn.credential.identity.subject.isEmpty, "It is known who signed in.")
        try ConformanceFailure.require(!signIn.credential.identity.issuer.isEmpty, "It is known where.")

        let pending = try await client.beginSignIn()
        let query = FormURLEncoding.decode(pending.url.drop { $0 != "?" }.dropFirst()) ?? [:]
        for name in ["state", "code_challenge", "client_id", "redirect_uri"] {
            try ConformanceFailure.require(query.values(for: name).count == 1, "\(name) is sent once.")
        }
        try ConformanceFailure.require(query["code_challenge_method"] == "S256", "PKCE is S256.")
    }
}
