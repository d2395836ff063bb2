/// What a provider knows this client by, and what the client asks for.
///
/// The values have been checked together, and cannot be changed one by one: ``changing(_:)`` checks again.
@dynamicMemberLookup public struct ClientSettings: Sendable {
    /// All of them, for making other settings of.
    public let values: Values

    /// Creates settings from values.
    /// - Throws: ``AuthError`` with `invalid_configuration` when a value cannot be sent or kept safe.
    public init(_ values: Values) throws(AuthError) {
        try values.check()
        self.values = values
    }

    /// Reads one of the ``Values``.
    public subscript<Value>(dynamicMember member: KeyPath<Values, Value>) -> Value { values[keyPath: member] }

    /// Returns settings in which some values are others, after every check.
    /// - Throws: ``AuthError`` with `invalid_configuration`; what `change` throws.
    public func changing(_ change: (inout Values) throws -> Void) throws -> ClientSettings {
        var values = values
        try change(&values)
        return try ClientSettings(values)
    }

    /// The values of settings, before they are checked.
    public struct Values: Sendable {
        /// `client_id`, as registered with the provider.
        public var clientID: String

        /// How the client proves who it is at the token endpoint.
        public var authentication = ClientAuthentication.none

        /// Where the provider sends the user back to, as registered, best first. A user agent takes the first it can
        /// receive: several ports of this machine, when the provider insists on a port that may be taken, or another way back.
        public var redirectURIs = [RedirectURI.loopback]

        /// `scope`: what is asked for. With `openid` the provider must send an ID Token.
        public var scopes = ["openid"]

        /// More parameters, for requests of each purpose.
        public var parameters: [ProviderRequest.Purpose: FormParameters] = [:]

        /// The grants to sign in by, best first: the next one is taken when one cannot begin here, or the provider does not
        /// offer it. Once the user has been shown something there is no other.
        public var flows = [SignInFlow.authorizationCode]

        /// How long a whole sign-in may take, the user's part included. A sign-in on another screen may take as long as its
        /// code lasts.
        public var timeout = Duration.seconds(300)

        /// How the provider hands the authorization response to the user's browser.
        public var responseMode = ResponseMode.query

        /// `id_token_signed_response_alg`: the algorithms that ID Tokens may be signed with; nil for those that the provider
        /// announces and that use a public key.
        public var idTokenSigningAlgorithms: [SignatureAlgorithm]?

        /// How far this machine's clock and the provider's may be apart: from zero to five minutes.
        public var clockLeeway = Duration.seconds(60)

        /// How long before its end an access token counts as expired, so that it lasts for what it is used for.
        public var freshnessMargin = Duration.seconds(60)

        /// Where the provider sends the user back to after a sign-out (`post_logout_redirect_uri`), as registered; nil to not
        /// end the session at the provider.
        public var postLogoutRedirectURI: RedirectURI?

        /// Whether a sign-out at the provider names the client by `client_id` beside the ID Token. RP-Initiated Logout 1.0
        /// section 2 allows both, and some providers honour the return address only then.
        public var sendsClientIDAtSignOut = true

        /// Whether tokens are to be bound to a key that never leaves this client (DPoP, RFC 9449). Tokens that are not are
        /// then refused.
        public var usesDPoP = false

        /// The origins of the APIs that the access token may be sent to.
        public var apiOrigins: [Endpoint] = []

        /// Creates values with the defaults for everything but the client's identifier.
        public init(clientID: String) { self.clientID = clientID }
    }

    /// Creates settings.
    /// - Parameters:
    ///   - clientID: `client_id`, as registered.
    ///   - authentication: How the client proves who it is. Apps and command-line tools cannot keep a secret and use
    ///     ``ClientAuthentication/none``.
    ///   - redirectURIs: As registered, best first; default: a loopback address with a free port.
    ///   - scopes: What is asked for.
    ///   - parameters: More parameters, for requests of each purpose.
    ///   - flows: The grants to sign in by, best first; default: the authorization code grant.
    ///   - timeout: How long a whole sign-in may take; default: five minutes.
    ///   - responseMode: How the provider hands the authorization response to the browser; default: in the query.
    ///   - idTokenSigningAlgorithms: The algorithms that ID Tokens may be signed with, as registered
    ///     (`id_token_signed_response_alg`). Those with a shared secret must be named here, and need a client that keeps
    ///     one.
    ///   - clockLeeway: How far the two clocks may be apart: from zero to five minutes; default: one minute.
    ///   - freshnessMargin: How long before its end an access token counts as expired; default: one minute.
    ///   - postLogoutRedirectURI: Where the provider sends the user back to after a sign-out, as registered.
    ///   - usesDPoP: Whether tokens are to be bound to a key of this client (RFC 9449).
    ///   - apiOrigins: The origins of the APIs that the access token may be sent to.
    /// - Throws: ``AuthError`` with `invalid_configuration` when a value cannot be sent or kept safe.
    public init(
        clientID: String,
        authentication: ClientAuthentication = .none,
        redirectURIs: [RedirectURI] = [.loopback],
        scopes: [String] = ["openid"],
        parameters: [ProviderRequest.Purpose: FormParameters] = [:],
        flows: [SignInFlow] = [.authorizationCode],
        timeout: Duration = .seconds(300),
        responseMode: ResponseMode = .query,
        idTokenSigningAlgorithms: [SignatureAlgorithm]? = nil,
        clockLeeway: Duration = .seconds(60),
        freshnessMargin: Duration = .seconds(60),
        postLogoutRedirectURI: RedirectURI? = nil,
        usesDPoP: Bool = false,
        apiOrigins: [Endpoint] = []
    ) throws(AuthError) {
        var values = Values(clientID: clientID)
        values.authentication = authentication
        values.redirectURIs = redirectURIs
        values.scopes = scopes
        values.parameters = parameters
        values.flows = flows
        values.timeout = timeout
        values.responseMode = responseMode
        values.idTokenSigningAlgorithms = idTokenSigningAlgorithms
        values.clockLeeway = clockLeeway
        values.freshnessMargin = freshnessMargin
        values.postLogoutRedirectURI = postLogoutRedirectURI
        values.usesDPoP = usesDPoP
        values.apiOrigins = apiOrigins
        try self.init(values)
    }
}

extension ClientSettings.Values {
    fileprivate func check() throws(AuthError) {
        guard !clientID.isEmpty else { throw AuthError(.invalidConfiguration, "The client_id is empty.") }
        // RFC 6749 appendix A.1: client-id = *VSCHAR
        guard clientID.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) else {
            throw AuthError(
                .invalidConfiguration,
                "The client_id has a character that RFC 6749 appendix A.1 does not allow."
            )
        }
        for scope in scopes where !Self.isScopeToken(scope) {
            throw AuthError(
                .invalidConfiguration,
                "The scope \"\(DisplayText.sanitized(scope))\" has a character that RFC 6749 section 3.3 does not allow."
            )
        }
        guard !redirectURIs.isEmpty else {
            throw AuthError(.invalidConfiguration, "The list of redirect URIs is empty.")
        }
        guard !flows.isEmpty else { throw AuthError(.invalidConfiguration, "The list of flows is empty.") }
        guard timeout > .zero else {
            throw AuthError(.invalidConfiguration, "The timeout must be longer than nothing.")
        }
        guard freshnessMargin >= .zero else {
            throw AuthError(.invalidConfiguration, "The freshness margin must not be negative.")
        }
        // FAPI 2.0 section 5.3.2.1 has tokens refused that expired six minutes ago.
        guard .zero <= clockLeeway, clockLeeway <= .seconds(300) else {
            throw AuthError(.invalidConfiguration, "The clock leeway must be between 0 and 300 seconds.")
        }
        for (purpose, parameters) in parameters {
            try ProviderRequest.requireFree(parameters, of: purpose)
        }
        try Self.check(idTokenSigningAlgorithms, authentication)
    }

    /// RFC 6749 section 3.3: scope-token = 1*( %x21 / %x23-5B / %x5D-7E )
    static func isScopeToken(_ scope: String) -> Bool {
        !scope.isEmpty && scope.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C }
    }

    /// Checks that a client with this authentication can verify signatures by these algorithms, and may.
    static func check(
        _ algorithms: [SignatureAlgorithm]?,
        _ authentication: ClientAuthentication
    ) throws(AuthError) {
        guard let algorithms else { return }
        guard !algorithms.isEmpty else {
            throw AuthError(.invalidConfiguration, "The list of ID Token signing algorithms is empty.")
        }
        for algorithm in algorithms {
            guard let definition = algorithm.definition else {
                throw AuthError(
                    .invalidConfiguration,
                    "ID Tokens signed with \"\(DisplayText.sanitized(algorithm.rawValue, limit: 20))\" cannot be verified."
                )
            }
            guard definition.scheme == .hmac else { continue }
            // OIDC Core section 10.1: "Symmetric signatures MUST NOT be used by public (non-confidential) Clients because
            // of their inability to keep secrets."
            guard let secret = authentication.secret else {
                throw AuthError(
                    .invalidConfiguration,
                    "\(algorithm.rawValue) needs a client secret, which a public client does not have (OpenID Connect Core section 10.1)."
                )
            }
            // RFC 7518 section 3.2: "A key of the same size as the hash output ... or larger MUST be used".
            guard secret.exposed.utf8.count >= definition.hash.byteCount else {
                throw AuthError(
                    .invalidConfiguration,
                    "\(algorithm.rawValue) needs a client secret of at least \(definition.hash.byteCount) bytes (RFC 7518 section 3.2)."
                )
            }
        }
    }
}
