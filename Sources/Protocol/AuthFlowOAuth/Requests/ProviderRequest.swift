public import AuthFlowHTTP
public import AuthFlowJSON
public import HTTPTypes

/// A request to one of a provider's endpoints, before it becomes a URL or a form.
///
/// One type serves the front channel (the browser) and the back channel, because in OAuth both consist of parameters that are
/// sent to an endpoint.
public struct ProviderRequest: Sendable {
    /// The purpose of a request. More purposes may be added.
    public struct Purpose: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
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
        /// The device authorization request (RFC 8628 section 3.1).
        public static let deviceAuthorization = Self(rawValue: "device_authorization")
        /// The device access token request, which polls for the tokens (RFC 8628 section 3.4).
        public static let deviceToken = Self(rawValue: "device_token")
        /// The token exchange request (RFC 8693 section 2.1).
        public static let tokenExchange = Self(rawValue: "token_exchange")
        /// An authorization request that is pushed to the server (RFC 9126 section 2.1).
        public static let pushedAuthorization = Self(rawValue: "pushed_authorization")
        /// The access token request with the client credentials grant (RFC 6749 section 4.4.2).
        public static let clientCredentials = Self(rawValue: "client_credentials")
        /// The access token request with a JWT as the authorization grant (RFC 7523 section 2.1).
        public static let jwtBearer = Self(rawValue: "jwt_bearer")
        /// The logout request, sent through the user agent (OIDC RP-Initiated Logout).
        public static let endSession = Self(rawValue: "end_session")

        /// A request to a provider-specific endpoint.
        public static let providerSpecific = Self(rawValue: "provider_specific")

        /// The purposes for which a configuration may add parameters.
        package static let configurable: [Purpose] = [
            .authorization, .token, .refresh, .deviceAuthorization, .deviceToken, .tokenExchange, .endSession,
            .clientCredentials, .jwtBearer, .revocation,
        ]
    }

    /// The purpose of the request.
    public let purpose: Purpose

    /// The endpoint that receives the request.
    public let endpoint: Endpoint

    /// The parameters that an adapter may change.
    public var parameters: FormParameters = [:]

    /// The header fields to send, which have no effect on the front channel.
    public var headerFields: HTTPFields = [:]

    /// The parameters that protect or identify the transaction (`state`, `nonce`, the code challenge, the redirect URI,
    /// the code, the client's credentials). An adapter has no access to them; the engine adds them to the adapter's parameters.
    var protectedParameters: FormParameters = [:]

    /// In a logout request, the tokens of the user who signs out; otherwise nil.
    public package(set) var tokens: TokenSet?

    /// Whether only the engine may set a parameter. Some providers, such as Yahoo and Mollie, require `redirect_uri` in refresh requests, in which
    /// RFC 6749 section 6 does not define it. An app may send an `id_token_hint` in an authorization request (OIDC Core section 3.1.2.1); the engine
    /// does not, because the URL in the browser would contain the user's claims.
    package static func isReserved(_ name: String, in purpose: Purpose) -> Bool {
        switch (purpose, name) {
        case (.refresh, "redirect_uri"), (.authorization, "id_token_hint"): false
        default: reservedNames.contains(name)
        }
    }

    private static let reservedNames: Set<String> = [
        "response_type", "response_mode", "client_id", "client_secret", "client_assertion", "client_assertion_type",
        "redirect_uri", "state", "nonce", "code_challenge", "code_challenge_method", "code", "code_verifier",
        "grant_type", "refresh_token", "device_code", "assertion", "token", "token_type_hint", "subject_token",
        "subject_token_type", "actor_token", "actor_token_type", "requested_token_type", "id_token_hint",
        "post_logout_redirect_uri", "dpop_jkt", "request",
        "request_uri",
    ]

    /// The parameters that may be repeated: RFC 8707 section 2 and RFC 8693 section 2.1 allow repetition. RFC 6749
    /// section 3.1: all other parameters "MUST NOT be included more than once".
    private static let repeatableNames: Set<String> = ["resource", "audience"]

    /// - Throws: ``AuthError`` with `invalid_configuration` when a parameter has a reserved name.
    static func requireUnreserved(_ parameters: FormParameters, of purpose: Purpose) throws(AuthError) {
        guard let name = parameters.names.first(where: { isReserved($0, in: purpose) }) else { return }
        throw AuthError(
            .invalidConfiguration,
            "The parameter \"\(name)\" of \(purpose) requests is set by AuthFlow and cannot be configured. Remove it."
        )
    }

    /// The requested scopes, as they are sent; nil when the request does not contain `scope`.
    var scopes: [String]? {
        parameters["scope"].map { $0.split(separator: " ").map(String.init) }
    }

    /// All parameters to send: first the adjustable parameters, then the protected parameters.
    /// - Throws: ``AuthError`` with `invalid_configuration` when an adjustable parameter has a reserved name, or is
    ///   repeated.
    func allParameters() throws(AuthError) -> FormParameters {
        try Self.requireUnreserved(parameters, of: purpose)
        var once = FormParameters()
        for pair in parameters.pairs where !Self.repeatableNames.contains(pair.name) {
            once.append(pair.name, pair.value)
        }
        if let name = once.repeatedName {
            throw AuthError(
                .invalidConfiguration,
                "The parameter \"\(DisplayText.sanitized(name, limit: 60))\" of \(purpose) requests is repeated (RFC 6749 section 3.1)."
            )
        }
        var all = parameters
        for pair in protectedParameters.pairs { all.append(pair.name, pair.value) }
        return all
    }
}

extension ProviderRequest: CustomStringConvertible, NonReflectable {
    /// Only the purpose and the endpoint, because parameters and header fields may contain secrets.
    public var description: String { "\(purpose) request to \(endpoint)" }
}

/// The response to a request on the back channel.
public struct ProviderResponse: Sendable {
    /// The purpose of the request.
    public let purpose: ProviderRequest.Purpose

    /// The endpoint that received the request.
    public let endpoint: Endpoint

    /// The HTTP response.
    public let http: TransportResponse

    /// The granted scopes if the response does not contain `scope`: the requested or previously granted scopes.
    public let scopes: [String]

    /// The description of the assertion in a rejected request, appended to error messages, because servers seldom state why they reject an
    /// assertion; empty when no assertion was rejected.
    var advice = ""
    /// The requested resources.
    var resources: [String] = []

    /// Creates a response.
    public init(purpose: ProviderRequest.Purpose, endpoint: Endpoint, http: TransportResponse, scopes: [String] = []) {
        self.purpose = purpose
        self.endpoint = endpoint
        self.http = http
        self.scopes = scopes
    }

    /// The status code.
    package var status: Int { http.status }

    /// The parameters in the body: JSON, or a form if that is the `Content-Type`, as early OAuth drafts specified.
    /// - Throws: ``AuthError`` with `invalid_response` when the body is neither JSON nor form-encoded, or a name is repeated.
    public func parameters() throws(AuthError) -> JSON {
        guard http.mediaType == "application/x-www-form-urlencoded" else {
            return try http.json(from: "the \(purpose) endpoint of \(endpoint.host)")
        }
        guard let form = String(validating: http.body, as: UTF8.self).flatMap({ FormURLEncoding.decode($0) }),
            form.names.count == form.pairs.count
        else { throw AuthError(.invalidResponse, "The response from \(endpoint.host) is not a valid form.") }
        return .object(Dictionary(uniqueKeysWithValues: form.pairs.map { ($0.name, .string($0.value)) }))
    }

    /// The error for a response with an unexpected status and no OAuth error.
    func unexpectedStatus(_ code: AuthError.Code) -> AuthError {
        AuthError(
            code,
            "\(endpoint.host) responded to the \(purpose) request with status \(status) and no OAuth error.\(advice)",
            providerError: http.providerError,
            status: status
        )
    }
}
