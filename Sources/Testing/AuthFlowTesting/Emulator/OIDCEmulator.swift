public import AuthFlow
public import AuthFlowEssentials
public import AuthFlowJSON
import Crypto
public import HTTPTypes
import Synchronization

/// An OpenID provider for testing and development: discovery, sign-in and consent pages, tokens, keys, userinfo and sign-out.
///
/// It is stricter than some real providers: it rejects a wrong redirect URI, code verifier or client authentication,
/// and a reused code. The same handler works in process (``InProcessTransport``) and over a socket
/// (``EmulatorServer``). Never expose it to untrusted clients: its passwords are in its source code.
public final class OIDCEmulator: ProviderEmulator {
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
        /// The only client authentication method it may use.
        public var authenticationMethod: String
        /// The redirect URIs, compared exactly except for the port of a loopback URI (RFC 8252 section 7.3).
        public var redirectURIs: [String]
        /// The signature algorithm of its userinfo responses; nil for plain JSON.
        public var userInfoSigningAlgorithm: SignatureAlgorithm?
        /// The public keys that verify its assertions and request objects (RFC 7517); nil for none.
        public var jwks: JSON?
        /// The audiences that its assertions may have.
        public var assertionAudiences: Set<ClientAuthentication.Audience> = [.issuer, .tokenEndpoint, .endpoint]
        /// Whether its request objects need no signature (`request_object_signing_alg` `none`).
        public var sendsUnsignedRequests = false
        /// The encryption of responses to it; nil for none.
        public var encryption: EmulatedEncryption?
        /// `x5t#S256` of the certificate that authenticates it (RFC 8705); nil for none. Its subject is ignored.
        public var certificateThumbprint: String?
        /// The platform whose JWTs authenticate the client, instead of its own key; nil for none.
        public var workload: Workload?
        /// Whether it must push its authorization requests.
        public var mustPushRequests = false
        /// Whether it must sign its authorization requests.
        public var mustSignRequests = false
        /// Whether it must also encrypt its authorization requests.
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

        /// `authflow-demo`, a public client with every kind of loopback redirect URI and a private-use one.
        public static let demo = Client(
            id: "authflow-demo",
            redirectURIs: [
                "http://127.0.0.1/callback", "http://localhost/callback", "http://[::1]/callback",
                "com.example.authflow:/callback",
            ]
        )
    }

    /// The issuer.
    public let issuer: String

    /// The fault to inject; nil for none.
    public var fault: EmulatorFault? {
        get { state.withLock { $0.fault } }
        set { state.withLock { $0.fault = newValue } }
    }

    /// The key that request objects may be encrypted to; nil for none.
    public var requestDecryptionKey: DecryptionKey? {
        get { state.withLock { $0.requestDecryptionKey } }
        set { state.withLock { $0.requestDecryptionKey = newValue } }
    }

    /// The signature algorithm of ID Tokens. HMAC algorithms use the client's secret.
    public var signingAlgorithm: SignatureAlgorithm {
        get { state.withLock { $0.signingAlgorithm } }
        set { state.withLock { $0.signingAlgorithm = newValue } }
    }

    /// The lifetime of access tokens, in seconds.
    public var accessTokenLifetime: Int64 {
        get { state.withLock { $0.accessTokenLifetime } }
        set { state.withLock { $0.accessTokenLifetime = newValue } }
    }

    /// How refresh tokens are rotated.
    public enum RefreshPolicy: Sendable, Hashable {
        /// Each refresh token can be used once. Reuse ends the session, because the token may have been stolen (RFC 9700 section 4.14.2);
        /// within the leeway, in seconds, reuse is treated as a retry after a lost response instead.
        case rotating(leeway: Double)
        /// Refresh tokens are not rotated: they stay valid, and refresh responses do not contain one.
        case lasting
    }

    /// How refresh tokens are rotated.
    public var refreshPolicy: RefreshPolicy {
        get { state.withLock { $0.refreshPolicy } }
        set { state.withLock { $0.refreshPolicy = newValue } }
    }

    /// Fetches request objects from their URLs (`request_uri`); nil if they are not fetched.
    public var fetchesRequestObjects: (@Sendable (_ url: String) async throws -> String)? {
        get { state.withLock { $0.fetchesRequestObjects } }
        set { state.withLock { $0.fetchesRequestObjects = newValue } }
    }

    /// Revokes every access token. Refresh tokens stay valid.
    public func endAccessTokens() { state.withLock { $0.accessTokens = [:] } }

    /// Ends every session, as an administrator would: no refresh token stays valid.
    public func endSessions() { state.withLock { $0.refreshTokens = [:] } }

    /// Whether tokens are bound to keys (DPoP).
    public var dpop: DPoPPolicy {
        get { state.withLock { $0.dpop } }
        set { state.withLock { $0.dpop = newValue } }
    }

    /// Whether the userinfo endpoint requires a nonce in DPoP proofs.
    public var resourceWantsNonce: Bool {
        get { state.withLock { $0.resourceWantsNonce } }
        set { state.withLock { $0.resourceWantsNonce = newValue } }
    }

    /// The native single sign-on settings; nil to disable it.
    public var nativeSSO: NativeSSOSettings? {
        get { state.withLock { $0.nativeSSO } }
        set { state.withLock { $0.nativeSSO = newValue } }
    }

    /// Whether clients without a secret may introspect tokens.
    public var answersPublicClients: Bool {
        get { state.withLock { $0.answersPublicClients } }
        set { state.withLock { $0.answersPublicClients = newValue } }
    }

    /// Responses to polls of a device code, sent before the regular ones, in order; each is used once.
    public var devicePollResponses: [DevicePollResponse] {
        get { state.withLock { $0.devicePollResponses } }
        set { state.withLock { $0.devicePollResponses = newValue } }
    }

    /// The minimum interval between polls of a device code, in seconds.
    public var devicePollInterval: Double {
        get { state.withLock { $0.devicePollInterval } }
        set { state.withLock { $0.devicePollInterval = newValue } }
    }

    /// Whether authorization requests can be pushed (RFC 9126): never (the default), optionally, or always.
    public var pushedRequests: PushedRequests {
        get { state.withLock { $0.pushPolicy } }
        set { state.withLock { $0.pushPolicy = newValue } }
    }

    /// The requests it has received, oldest first.
    public var receivedRequests: [ReceivedRequest] { state.withLock { $0.requests } }

    /// The requests it has received, as `METHOD /path`, oldest first.
    public var requests: [String] { receivedRequests.map { "\($0.request.method) \($0.path)" } }

    let users: [User]
    let userIndexes: [String: Int]
    let now: @Sendable () -> Date
    let state: Mutex<State>

    /// Creates a provider.
    /// - Parameters:
    ///   - issuer: The issuer, which is also its URL.
    ///   - users: The users who can sign in.
    ///   - clients: The registered clients.
    ///   - now: The clock for issue and expiry times.
    public init(
        issuer: String,
        users: [User] = [.alice, .bob],
        clients: [Client] = [.demo],
        now: @escaping @Sendable () -> Date = { Date() }
    ) throws {
        self.issuer = issuer
        self.users = users
        self.userIndexes = Dictionary(users.enumerated().map { ($0.element.username, $0.offset) }) { first, _ in first }
        self.now = now
        self.state = Mutex(State(keys: try EmulatorKeys(), clients: clients))
    }

    /// Replaces the signing keys with new ones.
    public func rotateKeys() throws {
        let keys = try EmulatorKeys()
        state.withLock { $0.keys = keys }
    }

    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public var origins: [String] { [(try? Endpoint(issuer))?.origin ?? issuer] }

    /// Whether this authorization request is waiting for the user on one of this provider's pages.
    func isWaiting(for request: String?) -> Bool { state.withLock { $0.pending[request ?? ""] != nil } }

    /// The prefix of the endpoint URLs: the issuer without a trailing slash.
    var base: String { issuer.hasSuffix("/") ? String(issuer.dropLast()) : issuer }

    /// The path of the issuer, which is the prefix of the endpoint paths.
    private var pathPrefix: String {
        let path = (try? Endpoint(issuer))?.path ?? ""
        return path.hasSuffix("/") ? String(path.dropLast()) : path
    }

    var clients: [Client] { state.withLock { $0.clients } }

    /// Handles a request.
    public func handle(_ request: HTTPRequest, body: [UInt8]) async -> TransportResponse {
        var response = await handle(request, body: body, calledAt: "\(origins.first ?? "")\(request.path ?? "")")
        // RFC 9110 section 6.6.1: "An origin server with a clock ... MUST generate a Date header field".
        if response.head.headerFields[.date] == nil { response.head.headerFields[.date] = HTTPDate.text(now()) }
        return response
    }

    /// Handles a request.
    /// - Parameter address: The URL that the client requested, which DPoP proofs contain.
    func handle(_ request: HTTPRequest, body: [UInt8], calledAt address: String) async -> TransportResponse {
        let received = ReceivedRequest(request, body: body, time: now())
        let prefix = received.path.hasPrefix(pathPrefix) ? pathPrefix : ""
        state.withLock { $0.requests.append(received) }
        let (query, form) = (received.query, received.form)
        var path = received.path.dropFirst(prefix.count)
        if path == "/authorize", let uri = query["request_uri"], uri.hasPrefix("http"),
            let fetch = state.withLock({ $0.fetchesRequestObjects }), let object = try? await fetch(uri)
        {
            state.withLock { $0.fetchedObjects[uri] = object }
        }
        let asksForCertificate = path.hasPrefix("\(Self.certificatePrefix)/")
        if asksForCertificate {
            guard Self.thumbprint(of: request) != nil else {
                return .json(["error": "invalid_client"], status: .unauthorized)
            }
            path = path.dropFirst(Self.certificatePrefix.count)
        }
        switch (request.method, String(path)) {
        case (.get, "/.well-known/openid-configuration"): return metadata()
        case (.get, "/.well-known/webfinger"): return webFinger(query)
        case (.get, "/jwks"): return keySet()
        case (.get, "/authorize"): return authorizationRequest(query, request)
        case (.post, "/login"): return signIn(form)
        case (.post, "/consent"): return consent(form)
        case (.post, "/device_authorization"): return deviceAuthorization(form, request)
        case (.get, "/device"): return devicePage(query, request)
        case (.post, "/token"): return token(form, request, address)
        case (.post, "/par") where pushedRequests != .never: return pushedAuthorization(form, request, address)
        case (.post, "/revoke"): return revoke(form, request)
        case (.post, "/introspect"): return introspect(form, request)
        case (.post, "/register"): return register(request, body)
        case (.get, "/userinfo"), (.post, "/userinfo"): return userInfo(request, address)
        case (.get, "/end_session"): return endSession(query, request)
        case (.get, "/"):
            return .page(
                "AuthFlow test provider",
                "<p>This provider is for testing. Its issuer is \(DisplayText.escapedForHTML(issuer)).</p>"
            )
        default: return .page("Not found", "<p>There is nothing at this URL.</p>", status: .notFound)
        }
    }

    private func metadata() -> TransportResponse {
        let algorithms = SignatureAlgorithm.asymmetric + SignatureAlgorithm.symmetric
        var document: [String: JSON] = [
            "issuer": .string(tenancy?.template ?? issuer),
            "authorization_endpoint": .string("\(base)/authorize"),
            "token_endpoint": .string("\(base)/token"),
            "jwks_uri": .string("\(base)/jwks"),
            "userinfo_endpoint": .string("\(base)/userinfo"),
            "end_session_endpoint": .string("\(base)/end_session"),
            "registration_endpoint": .string("\(base)/register"),
            "revocation_endpoint": .string("\(base)/revoke"),
            "introspection_endpoint": .string("\(base)/introspect"),
            "device_authorization_endpoint": .string("\(base)/device_authorization"),
            "response_types_supported": ["code"],
            "response_modes_supported": .array(ResponseMode.allCases.map { .string($0.rawValue) }),
            "grant_types_supported": [
                "authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code",
                "client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer",
            ],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": .array(algorithms.map { .string($0.rawValue) }),
            "scopes_supported": ["openid", "profile", "email", "address", "phone", "offline_access"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": [
                "none", "client_secret_basic", "client_secret_post", "client_secret_jwt", "private_key_jwt",
            ],
            "token_endpoint_auth_signing_alg_values_supported": .array(algorithms.map { .string($0.rawValue) }),
            "request_object_signing_alg_values_supported": .array(
                SignatureAlgorithm.asymmetric.map { .string($0.rawValue) }
            ),
            "request_parameter_supported": true,
            "authorization_signing_alg_values_supported": .array(
                SignatureAlgorithm.asymmetric.map { .string($0.rawValue) }
            ),
            "authorization_details_types_supported": ["payment", "account"],
            "dpop_signing_alg_values_supported": ["ES256"],
            "authorization_response_iss_parameter_supported": true,
        ]
        if clients.contains(where: { $0.certificateThumbprint != nil }) {
            document["mtls_endpoint_aliases"] = certificateEndpoints
            document["tls_client_certificate_bound_access_tokens"] = true
        }
        if let key = requestDecryptionKey {
            document["request_object_encryption_alg_values_supported"] = .array(
                key.algorithms.map { .string($0.rawValue) }
            )
            document["request_object_encryption_enc_values_supported"] = .array(
                ContentEncryption.allCases.map { .string($0.rawValue) }
            )
        }
        if pushedRequests != .never { document["pushed_authorization_request_endpoint"] = .string("\(base)/par") }
        if pushedRequests == .always { document["require_pushed_authorization_requests"] = true }
        return (fault?.metadata ?? MetadataFault()).applied(to: document)
    }

    private func keySet() -> TransportResponse {
        let (keys, fault) = state.withLock { ($0.keys, $0.fault?.keySet ?? KeySetFault()) }
        guard let published = try? keys.jwks()["keys"]?.array else { return .failure }
        var members = published
        for copy in 1..<max(fault.copies, 1) {
            guard let decoys = try? keys.decoys().jwks()["keys"]?.array else { return .failure }
            // The valid keys are placed between the decoys.
            members = copy == 1 ? decoys + members : members + decoys
        }
        if let key = requestDecryptionKey { members.append(key.publicJWK) }
        var document: [String: JSON] = ["keys": .array(members)]
        fault.document.members(&document)
        var response = TransportResponse.json(.object(document))
        fault.document.response(&response)
        return response
    }

    private func endSession(_ query: FormParameters, _ request: HTTPRequest) -> TransportResponse {
        if let secret = query["device_secret"] { _ = endSession(ofSecret: secret) }
        if let session = request.sessionCookie { state.withLock { $0.sessions[session] = nil } }
        guard let target = query["post_logout_redirect_uri"], let endpoint = try? Endpoint(target, name: "redirect"),
            let hint = query["id_token_hint"].flatMap({ Self.audience(of: $0) }) ?? query["client_id"],
            query["client_id"] == nil || query["client_id"] == hint,
            let client = clients.first(where: { $0.id == hint }), client.accepts(target)
        else { return .page("Signed out", "<p>You are signed out.</p>") }
        var parameters = FormParameters()
        if let state = query["state"] { parameters.append("state", state) }
        fault?.callback.change(&parameters)
        return .redirect(to: endpoint.url(adding: parameters))
    }

    private static func audience(of idToken: String) -> String? {
        let parts = idToken.split(separator: ".")
        guard parts.count == 3, let payload = Base64URL.decode(parts[1]) else { return nil }
        return (try? JSON(parsing: payload))?["aud"]?.string
    }
}

extension OIDCEmulator.Client {
    /// Whether a redirect URI is registered: compared exactly, except for the port of a loopback URI.
    func accepts(_ uri: String) -> Bool {
        if redirectURIs.contains(uri) { return true }
        guard let endpoint = try? Endpoint(uri, name: "redirect URI"), Endpoint.isLoopback(host: endpoint.host),
            endpoint.scheme == "http", endpoint.query == nil
        else { return false }
        return redirectURIs.contains("http://\(endpoint.host)\(endpoint.path)")
    }
}
