public import AuthFlow

extension OIDCEmulator {
    /// A user who can sign in.
    public struct User: Sendable {
        /// The user name for signing in.
        public var username: String
        /// The password.
        public var password: String
        /// The claims, including `sub`.
        public var claims: [String: JSON]

        /// Creates a user.
        public init(username: String, password: String, claims: [String: JSON]) {
            self.username = username
            self.password = password
            self.claims = claims
        }

        /// `alice`, with the password `wonderland`.
        public static let alice = User(
            username: "alice",
            password: "wonderland",
            claims: [
                "sub": "248289761001", "name": "Alice Example", "preferred_username": "alice",
                "email": "alice@example.com", "email_verified": true,
            ]
        )

        /// `bob`, with the password `builder`.
        public static let bob = User(
            username: "bob",
            password: "builder",
            claims: ["sub": "248289761002", "name": "Bob Example", "preferred_username": "bob"]
        )
    }

    /// A registered client.
    public struct Client: Sendable {
        /// `client_id`.
        public var id: String
        /// The secret; nil for a public client.
        public var secret: String?
        /// The only authentication method that the client may use.
        public var authenticationMethod: String
        /// The redirect URIs, compared exactly except for the port of a loopback URI (RFC 8252 section 7.3).
        public var redirectURIs: [String]
        /// The signature algorithm of userinfo responses to the client; nil for plain JSON.
        public var userInfoSigningAlgorithm: SignatureAlgorithm?
        /// The public keys that verify the client's assertions and request objects (RFC 7517); nil for none.
        public var jwks: JSON?
        /// The audiences that the client's assertions may have.
        public var assertionAudiences: Set<ClientAuthentication.Audience> = [.issuer, .tokenEndpoint, .endpoint]
        /// Whether the client's request objects may be unsigned (`request_object_signing_alg` `none`).
        public var allowsUnsignedRequests = false
        /// The encryption of responses to the client; nil for none.
        public var encryption: EmulatedEncryption?
        /// `x5t#S256` of the client certificate for authentication (RFC 8705); nil for none. The certificate's subject is ignored.
        public var certificateThumbprint: String?
        /// The platform whose JWTs authenticate the client, instead of its own key; nil for none.
        public var workload: Workload?
        /// Whether the client must push its authorization requests.
        public var mustPushRequests = false
        /// Whether the client must sign its authorization requests.
        public var mustSignRequests = false
        /// Whether the client must also encrypt its authorization requests.
        public var mustEncryptRequests = false

        /// Creates a client.
        public init(
            id: String,
            secret: String? = nil,
            authenticationMethod: String = "none",
            redirectURIs: [String] = ["http://127.0.0.1/callback"],
            userInfoSigningAlgorithm: SignatureAlgorithm? = nil
        ) {
            self.id = id
            self.secret = secret
            self.authenticationMethod = authenticationMethod
            self.redirectURIs = redirectURIs
            self.userInfoSigningAlgorithm = userInfoSigningAlgorithm
        }

        /// `authflow-demo`, a public client with every kind of loopback redirect URI and a private-use URI.
        public static let demo = Client(
            id: "authflow-demo",
            redirectURIs: [
                "http://127.0.0.1/callback", "http://localhost/callback", "http://[::1]/callback",
                "com.example.authflow:/callback",
            ]
        )
    }
}
