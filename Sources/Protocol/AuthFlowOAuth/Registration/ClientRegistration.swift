public import AuthFlowHTTP
public import AuthFlowJOSE
public import AuthFlowJSON

/// The registration of this client with an authorization server: its identifier, its authentication, and the defaults for its requests.
///
/// ```swift
/// let registration = try ClientRegistration(clientID: "my-client") {
///     $0.scopes = ["openid", "profile"]
///     $0.redirectURIs = ["http://127.0.0.1/callback"]
/// }
/// ```
///
/// The values were validated together and are immutable; to create another registration, change a copy of ``values``.
@dynamicMemberLookup public struct ClientRegistration: Sendable {
    /// All values, as the basis for another registration.
    public let values: Values

    /// Creates a registration from values.
    /// - Throws: ``AuthError`` with `invalid_configuration` when a value cannot be sent or is not secure.
    public init(_ values: Values) throws(AuthError) {
        var values = values
        try values.applyProfile()
        try values.check()
        self.values = values
    }

    /// Creates a registration.
    /// - Parameters:
    ///   - clientID: `client_id`, as registered.
    ///   - change: Sets the values that differ from the defaults.
    /// - Throws: ``AuthError`` with `invalid_configuration` when a value cannot be sent or is not secure; any error thrown by
    ///   `change`.
    public init(clientID: String, _ change: (inout Values) throws -> Void = { _ in }) throws {
        var values = Values(clientID: clientID)
        try change(&values)
        try self.init(values)
    }

    /// Accesses a property of ``Values``.
    public subscript<Value>(dynamicMember member: KeyPath<Values, Value>) -> Value { values[keyPath: member] }

    /// Returns a validated copy of the registration with some values changed.
    /// - Throws: ``AuthError`` with `invalid_configuration`; any error thrown by `change`.
    package func changing(_ change: (inout Values) throws -> Void) throws -> ClientRegistration {
        var values = values
        try change(&values)
        return try ClientRegistration(values)
    }

    /// The values of a registration, before they are checked.
    public struct Values: Sendable {
        /// `client_id`, as registered with the provider.
        public var clientID: String

        /// The client authentication at the token endpoint; default: none, for public clients such as apps and command-line
        /// tools.
        public var authentication = ClientAuthentication.none

        /// The redirect URIs, as registered, in order of preference; default: a loopback redirect URI with an ephemeral
        /// port. A user agent uses the first URI at which it can receive the response.
        public var redirectURIs = [RedirectURI.loopback]

        /// `scope`: the scopes to request. With `openid` the provider must send an ID Token; without it this is plain
        /// OAuth 2.0. Default: `openid`.
        public var scopes = ["openid"]

        /// `resource`: the URIs of the target resources of access tokens (RFC 8707); default: none.
        public var resources: [String] = []

        /// Additional parameters, by the purpose of the request; not for introspection, pushed and provider-specific requests. Default: none.
        public var parameters: [ProviderRequest.Purpose: FormParameters] = [:]

        /// `response_mode`: how the provider returns the authorization response; default: in the query.
        public var responseMode = ResponseMode.query

        /// `id_token_signed_response_alg`: the registered signature algorithms for ID Tokens; default:
        /// nil, for the asymmetric algorithms that the provider advertises. Symmetric (HMAC) algorithms must be
        /// listed here, and require a confidential client with a secret.
        public var idTokenSigningAlgorithms: [SignatureAlgorithm]?

        /// The audiences that ID Tokens and logout tokens may have in addition to this client (OpenID Connect Core section 3.1.3.7), such as an
        /// API of the same application; default: none. An ID Token with other audiences must identify this client in `azp`.
        public var trustedAudiences: [String] = []

        /// The allowed clock skew between this machine and the provider: 0 to 5 minutes; default: 1 minute.
        public var clockLeeway = Duration.seconds(60)

        /// The lifetime of an access token whose response has no `expires_in`, as the provider documents it (RFC 6749 section 5.1); nil if it is
        /// unknown, in which case the token is used until it is rejected.
        public var defaultTokenLifetime: Duration?

        /// Whether the claims of the userinfo endpoint supplement the ID Token's at each sign-in, if a granted scope requests them;
        /// default: true. The sign-in fails if that response cannot be used, but not if the endpoint rejects the access token or does not exist.
        public var requestsUserInfoAtSignIn = true

        /// `post_logout_redirect_uri`: the URI to which the provider redirects the user after a sign-out, as
        /// registered; default: nil, in which case the session at the provider cannot be ended.
        public var postLogoutRedirectURI: RedirectURI?

        /// Whether a logout request includes the `client_id` parameter in addition to the ID Token; default: true.
        /// RP-Initiated Logout 1.0 section 2 allows both, and some providers redirect back only with `client_id`.
        public var sendsClientIDAtSignOut = true

        /// Whether a logout request includes the ID Token (`id_token_hint`); default: true. RP-Initiated Logout 1.0 section 2 recommends it, but
        /// some providers reject it.
        public var sendsIDTokenAtSignOut = true

        /// Whether tokens must be bound to a key that never leaves this client (DPoP, RFC 9449); default: false. Tokens that
        /// are not bound are then rejected.
        public var usesDPoP = false

        /// The DPoP key for all sign-ins, such as a non-exportable hardware key; default: nil, for a new key for each
        /// sign-in. If it is set, ``usesDPoP`` must be true. The shared key makes all sign-ins of the client linkable.
        public var dpopKey: SigningKeySource?

        /// The algorithm of proofs signed with ``dpopKey``; default: the best algorithm that the key supports and the
        /// server advertises.
        public var dpopAlgorithm: SignatureAlgorithm?

        /// The use of pushed authorization requests (RFC 9126); default: when the server requires or supports them.
        public var pushedRequests = PushedRequests.automatic

        /// Parameters that are repeated in the authorization URL with `request_uri`, for servers that reject a pushed request
        /// without them; default: none. Repeated parameters are visible to the browser, but the server uses the pushed
        /// values.
        public var repeatedPushedParameters: [RepeatedPushedParameter] = []

        /// The values of `token_type`, other than `Bearer`, that the server documents for bearer tokens; an empty string allows
        /// responses without `token_type`. Default: none; without DPoP, every type except `Bearer` is then rejected (RFC 6749 section 7.1).
        public var bearerTokenTypes: Set<String> = []

        /// Whether the server must advertise PKCE with S256 (`code_challenge_methods_supported`) before a code is requested; default:
        /// false, so that only a server that advertises other methods is rejected. Clients of protected resources
        /// always require it.
        public var requiresAdvertisedPKCE = false

        /// Whether a refresh repeats the resources of the grant (RFC 8707 section 2.2); default: true. Some providers reject a refresh request with `resource`.
        public var sendsResourcesOnRefresh = true

        /// The key that signs authorization requests (RFC 9101); default: nil, for unsigned requests.
        public var requestObjectKey: SigningKeySource?

        /// The registered algorithm of request objects; nil for the best algorithm that the key supports and the server advertises.
        package var requestObjectAlgorithm: SignatureAlgorithm?

        /// The encryption of signed authorization requests; default: nil, for no encryption.
        public var requestObjectEncryption: RequestObjectEncryption?

        /// The publication of request objects that the server fetches (`request_uri`); default: nil, for request
        /// objects that are sent by value. Use it for servers that do not support pushed requests.
        public var requestObjectReference: RequestObjectReference?

        /// The keys to which the server encrypts tokens; default: nil, to reject encrypted tokens.
        public var decryptionKeys: DecryptionKeySource?

        /// The responses that must be encrypted; default: none.
        public var encryptedResponses: Set<EncryptedResponse> = []

        /// The certificate that the transport presents; default: nil, so certificate bindings of tokens are not
        /// checked.
        public var certificate: CertificateBinding?

        /// Whether tokens are bound to the certificate instead of a DPoP key (RFC 8705 section 3), even if the client
        /// authenticates with another method; default: false. Requires ``certificate``.
        public var bindsTokensToCertificate = false

        /// The requirements for signed introspection responses (RFC 9701); default: nil, for plain responses.
        public var signedIntrospection: SignedIntrospection?

        /// `authorization_details` to request (RFC 9396), as a JSON array; default: none.
        public var authorizationDetails: JSON?

        /// Whether tokens whose authorization details differ from the requested ones are rejected (RFC 9396 section 7);
        /// default: false, so missing details are only reported.
        public var requiresExactAuthorizationDetails = false

        /// The security profile with which the client must comply; default: none.
        public var securityProfile: SecurityProfile?

        /// Creates values with the defaults for everything except the client identifier.
        public init(clientID: String) { self.clientID = clientID }
    }
}

extension ClientRegistration.Values {
    /// The token types of tokens that are bound to a key, and of a token exchange that issues no access token (RFC 8693 section 2.2.1).
    static let boundTokenTypes: Set<String> = ["dpop", "mac", "pop", "n_a"]

    fileprivate func check() throws(AuthError) {
        guard !bindsTokensToCertificate || certificate != nil else {
            throw Self.rejection("Certificate-bound tokens require a client certificate, but none is configured.")
        }
        guard !clientID.isEmpty else { throw Self.rejection("The client_id is empty.") }
        // RFC 6749 appendix A.1: client-id = *VSCHAR
        guard clientID.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) else {
            throw Self.rejection("The client_id contains a character that RFC 6749 appendix A.1 does not allow.")
        }
        for scope in scopes where !Self.isScopeToken(scope) {
            let advice = scope.contains(" ") ? " Specify each scope as a separate element of the list." : ""
            throw Self.rejection(
                "The scope \"\(DisplayText.sanitized(scope))\" is empty or contains a character that RFC 6749 section 3.3 does not allow.\(advice)"
            )
        }
        guard !redirectURIs.isEmpty else { throw Self.rejection("The list of redirect URIs is empty.") }
        try ResourceIdentifier.check(resources)
        if let type = bearerTokenTypes.first(where: { Self.boundTokenTypes.contains($0.lowercased()) }) {
            throw Self.rejection("Tokens of type \(type) are not bearer tokens.")
        }
        // The FAPI 2.0 client conformance tests require that tokens that expired six minutes ago be rejected.
        guard .zero <= clockLeeway, clockLeeway <= .seconds(300) else {
            throw Self.rejection("The clock leeway must be between 0 and 300 seconds.")
        }
        if let defaultTokenLifetime, !(.seconds(1) ... .seconds(31_536_000)).contains(defaultTokenLifetime) {
            throw Self.rejection("The default lifetime of tokens must be between a second and a year.")
        }
        for (purpose, parameters) in parameters {
            try ProviderRequest.requireUnreserved(parameters, of: purpose)
        }
        try Self.check(idTokenSigningAlgorithms, authentication)
        if let requestObjectReference {
            guard pushedRequests != .always else {
                throw Self.rejection("A request cannot be both pushed and fetched by the server.")
            }
            guard requestObjectKey != nil || requestObjectReference.mayBeUnsigned else {
                throw Self.rejection("Request objects require a signing key (RFC 9101 section 4).")
            }
        }
        // RFC 9101 section 10.2: an unsigned request object could come from any sender.
        guard requestObjectEncryption == nil || requestObjectKey != nil else {
            throw Self.rejection(
                "Encrypted request objects must be signed first, which requires a signing key (RFC 9101 section 4)."
            )
        }
        guard dpopKey == nil || usesDPoP else {
            throw Self.rejection("A DPoP key is configured, but DPoP is not enabled.")
        }
        guard encryptedResponses.isEmpty || decryptionKeys != nil else {
            throw Self.rejection("Encrypted responses require a decryption key.")
        }
        // A response that is not a JWT is never encrypted, so the requirement would not apply to it.
        guard !encryptedResponses.contains(.authorizationResponse) || responseMode.isSigned else {
            throw Self.rejection(
                "Authorization responses are encrypted only when they are signed: the response mode must be jwt or a variant of it."
            )
        }
        guard !encryptedResponses.contains(.introspection) || signedIntrospection != nil else {
            throw Self.rejection(
                "Introspection responses are encrypted only when they are signed: signed introspection must be required."
            )
        }
        try authentication.check()
        if let authorizationDetails { try AuthorizationDetails.check(authorizationDetails) }
    }

    private static func rejection(_ message: String) -> AuthError { AuthError(.invalidConfiguration, message) }

    /// RFC 6749 section 3.3: scope-token = 1*( %x21 / %x23-5B / %x5D-7E )
    package static func isScopeToken(_ scope: String) -> Bool {
        !scope.isEmpty && scope.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C }
    }

    /// Checks that a client with this authentication is able and allowed to verify signatures with these algorithms.
    package static func check(
        _ algorithms: [SignatureAlgorithm]?,
        _ authentication: ClientAuthentication
    ) throws(AuthError) {
        guard let algorithms else { return }
        guard !algorithms.isEmpty else { throw Self.rejection("The list of ID Token signing algorithms is empty.") }
        for algorithm in algorithms {
            guard let definition = algorithm.definition else {
                throw Self.rejection(
                    "ID Tokens signed with \"\(DisplayText.sanitized(algorithm.rawValue, limit: 20))\" cannot be verified."
                )
            }
            guard definition.scheme == .hmac else { continue }
            // OIDC Core section 10.1: "Symmetric signatures MUST NOT be used by public (non-confidential) Clients because
            // of their inability to keep secrets."
            guard let secret = authentication.secret else {
                throw Self.rejection(
                    "\(algorithm.rawValue) requires a client secret, but this client has none (OpenID Connect Core section 10.1)."
                )
            }
            try HMACSignature.requireLength(of: secret, for: algorithm)
        }
    }

    /// RFC 8705 section 5: a client that intends "to do mutual TLS (for OAuth client authentication and/or to acquire or use
    /// certificate-bound tokens)" uses the endpoints in `mtls_endpoint_aliases`.
    package var usesCertificate: Bool { authentication.usesCertificate || bindsTokensToCertificate }
}
