public import AuthFlowHTTP
public import AuthFlowJSON
public import HTTPTypes

/// A request to one of a provider's endpoints, before it becomes a URL or a form.
///
/// One type serves the front channel (the browser) and the back channel, because in OAuth both are parameters that are
/// sent to an endpoint.
public struct ProviderRequest: Sendable {
    /// What a request is for, as an open set.
    public struct Purpose: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
        public let rawValue: String
        // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
        public init(rawValue: String) { self.rawValue = rawValue }
        // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
        public var description: String { rawValue }

        /// The authorization request, sent through the user agent (RFC 6749 section 4.1.1).
        public static let authorization = Self(rawValue: "authorization")
        /// The exchange of a code for tokens (RFC 6749 section 4.1.3).
        public static let token = Self(rawValue: "token")
        /// The exchange of a refresh token for new tokens (RFC 6749 section 6).
        public static let refresh = Self(rawValue: "refresh")
        /// The revocation of a token (RFC 7009).
        public static let revocation = Self(rawValue: "revocation")
        /// The introspection of a token (RFC 7662).
        public static let introspection = Self(rawValue: "introspection")
        /// The request for a code to sign in with on another screen (RFC 8628 section 3.1).
        public static let deviceAuthorization = Self(rawValue: "device_authorization")
        /// The question whether that has been done (RFC 8628 section 3.4).
        public static let deviceToken = Self(rawValue: "device_token")
        /// The exchange of a token for others (RFC 8693).
        public static let tokenExchange = Self(rawValue: "token_exchange")
        /// An authorization request that is pushed to the server (RFC 9126 section 2.1).
        public static let pushedAuthorization = Self(rawValue: "pushed_authorization")
        /// The request for a token of the client's own (RFC 6749 section 4.4).
        public static let clientCredentials = Self(rawValue: "client_credentials")
        /// An access token for an assertion (RFC 7523 section 2.1).
        public static let jwtBearer = Self(rawValue: "jwt_bearer")
        /// The sign-out at the provider, sent through the user agent (OIDC RP-Initiated Logout).
        public static let endSession = Self(rawValue: "end_session")

        /// A request to an endpoint that the provider alone has.
        public static let providerSpecific = Self(rawValue: "provider_specific")

        /// Those that a configuration may give more parameters.
        package static let configurable: [Purpose] = [
            .authorization, .token, .refresh, .deviceAuthorization, .deviceToken, .tokenExchange, .endSession,
            .clientCredentials, .jwtBearer,
        ]
    }

    /// What the request is for.
    public let purpose: Purpose

    /// Where it goes.
    public let endpoint: Endpoint

    /// The parameters that an adapter may change.
    public var parameters: FormParameters

    /// Header fields to send; of no effect on the front channel.
    public var headerFields: HTTPFields

    /// The parameters that protect the exchange or identify it (`state`, `nonce`, the code challenge, the redirect URI,
    /// the code, the client's credentials). An adapter can read them; the engine sends these whatever it does.
    var protectedParameters: FormParameters

    /// The tokens that the request is about, where there are any: those of the user who signs out.
    public package(set) var tokens: TokenSet?

    init(
        purpose: Purpose,
        endpoint: Endpoint,
        parameters: FormParameters = [:],
        protectedParameters: FormParameters = [:],
        tokens: TokenSet? = nil
    ) {
        self.purpose = purpose
        self.endpoint = endpoint
        self.parameters = parameters
        self.headerFields = [:]
        self.protectedParameters = protectedParameters
        self.tokens = tokens
    }

    /// Every parameter that only the engine may set.
    package static let reservedNames: Set<String> = [
        "response_type", "response_mode", "client_id", "client_secret", "client_assertion", "client_assertion_type",
        "redirect_uri", "state", "nonce", "code_challenge", "code_challenge_method", "code", "code_verifier",
        "grant_type", "refresh_token", "device_code", "assertion", "token", "subject_token",
        "subject_token_type", "actor_token", "actor_token_type", "requested_token_type", "id_token_hint",
        "post_logout_redirect_uri", "dpop_jkt", "request",
        "request_uri",
    ]

    /// What may stand more than once: RFC 8707 section 2 and RFC 8693 section 2.1 allow it. Of all others RFC 6749 section 3.1
    /// says that they "MUST NOT be included more than once".
    private static let repeatableNames: Set<String> = ["resource", "audience"]

    /// - Throws: ``AuthError`` with `invalid_configuration` when a parameter has a reserved name.
    static func requireFree(_ parameters: FormParameters, of purpose: Purpose) throws(AuthError) {
        guard let name = parameters.names.first(where: reservedNames.contains) else { return }
        throw AuthError(
            .invalidConfiguration,
            "The parameter \"\(name)\" of \(purpose) requests is set by AuthFlow and cannot be given. Leave it out."
        )
    }

    /// The scopes it asks for, as they are sent; nil when it names none.
    var scopes: [String]? {
        parameters["scope"].map { $0.split(separator: " ").map(String.init) }
    }

    /// What is sent: the free parameters, then the protected ones.
    /// - Throws: ``AuthError`` with `invalid_configuration` when a free parameter has a reserved name, or stands twice.
    func allParameters() throws(AuthError) -> FormParameters {
        try Self.requireFree(parameters, of: purpose)
        var once = FormParameters()
        for pair in parameters.pairs where !Self.repeatableNames.contains(pair.name) {
            once.append(pair.name, pair.value)
        }
        if let name = once.repeatedName {
            throw AuthError(
                .invalidConfiguration,
                "The parameter \"\(DisplayText.sanitized(name, limit: 60))\" of \(purpose) requests is given twice (RFC 6749 section 3.1)."
            )
        }
        var all = parameters
        for pair in protectedParameters.pairs { all.append(pair.name, pair.value) }
        return all
    }
}

extension ProviderRequest: CustomStringConvertible, WithoutReflection {
    /// The purpose and the endpoint only, because parameters and header fields carry secrets.
    public var description: String { "\(purpose) request to \(endpoint)" }
}

/// The response to a request on the back channel.
public struct ProviderResponse: Sendable {
    /// What was asked.
    public let purpose: ProviderRequest.Purpose

    /// Who was asked.
    public let endpoint: Endpoint

    /// What came back.
    public let http: TransportResponse

    /// The scopes that are granted when the response names none: those asked for, or those granted before.
    public let scopes: [String]

    /// What the refused request proved itself with, for the message; nil when nothing was refused for a proof.
    var refusedProof: String?

    /// Creates a response.
    public init(purpose: ProviderRequest.Purpose, endpoint: Endpoint, http: TransportResponse, scopes: [String] = []) {
        self.purpose = purpose
        self.endpoint = endpoint
        self.http = http
        self.scopes = scopes
    }

    /// The status code.
    public var status: Int { http.status }

    /// The parameters in the body: JSON, or a form when `Content-Type` says so, which is what OAuth began with.
    /// - Throws: ``AuthError`` with `invalid_reply` when it is neither, or a name stands twice.
    public func parameters() throws(AuthError) -> JSON {
        guard http.mediaType == "application/x-www-form-urlencoded" else { return try json() }
        guard let form = String(validating: http.body, as: UTF8.self).flatMap({ FormURLEncoding.decode($0) }),
            form.names.count == form.pairs.count
        else { throw AuthError(.invalidResponse, "The response of \(endpoint.host) is not a form that can be read.") }
        return .object(Dictionary(uniqueKeysWithValues: form.pairs.map { ($0.name, .string($0.value)) }))
    }

    /// The body as JSON.
    /// - Throws: ``AuthError`` with `invalid_reply` when it is not acceptable JSON.
    public func json() throws(AuthError) -> JSON {
        try http.json(from: "the \(purpose) endpoint of \(endpoint.host)")
    }

    /// What to add to the message of an error: a server that refuses an assertion seldom says why.
    var advice: String { refusedProof.map { " \($0)" } ?? "" }

    /// An error for a status that comes without an OAuth error.
    func unexpectedStatus(_ code: AuthError.Code) -> AuthError {
        AuthError(
            code,
            "\(endpoint.host) responded to the \(purpose) request with status \(status) and no OAuth error.\(advice)",
            providerError: http.providerError,
            status: status
        )
    }
}
