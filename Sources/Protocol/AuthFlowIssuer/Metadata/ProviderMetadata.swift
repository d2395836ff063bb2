public import AuthFlowHTTP
public import AuthFlowJOSE
public import AuthFlowJSON

/// The endpoints and capabilities of a provider (OIDC Discovery section 3, RFC 8414 section 2).
///
/// Capabilities are represented as data: an unsupported capability is nil here, and its use throws an error that
/// identifies the capability.
public struct ProviderMetadata: Sendable, Hashable {
    /// The issuer, compared code point by code point wherever it appears.
    public var issuer: String

    /// `authorization_endpoint`.
    public var authorizationEndpoint: Endpoint?

    /// `token_endpoint`.
    public var tokenEndpoint: Endpoint?

    /// `jwks_uri`: the keys that verify the signatures of ID Tokens.
    public var jwksURI: Endpoint?

    /// `userinfo_endpoint`.
    public var userInfoEndpoint: Endpoint?

    /// `end_session_endpoint` (OIDC RP-Initiated Logout).
    public var endSessionEndpoint: Endpoint?

    /// `revocation_endpoint` (RFC 7009).
    public var revocationEndpoint: Endpoint?

    /// `introspection_endpoint` (RFC 7662).
    public var introspectionEndpoint: Endpoint?

    /// `device_authorization_endpoint` (RFC 8628).
    public var deviceAuthorizationEndpoint: Endpoint?

    /// `registration_endpoint` (RFC 7591).
    public var registrationEndpoint: Endpoint?

    /// `pushed_authorization_request_endpoint` (RFC 9126).
    public var pushedAuthorizationRequestEndpoint: Endpoint?

    /// `authorization_response_iss_parameter_supported` (RFC 9207): every authorization response must then contain `iss`. It cannot be set to
    /// false if the metadata document contains this parameter with the value true.
    public var sendsIssuerInResponses: Bool {
        get { documentSendsIssuer || declaresIssuer }
        set { declaresIssuer = newValue }
    }
    private var documentSendsIssuer = false
    private var declaresIssuer: Bool

    /// `require_pushed_authorization_requests` (RFC 9126 section 5): the provider accepts only pushed requests.
    public var requiresPushedRequests = false

    /// `code_challenge_methods_supported` (RFC 8414); nil when the provider does not advertise it.
    public var codeChallengeMethods: [String]?

    /// `token_endpoint_auth_methods_supported`; nil when the provider does not advertise it.
    public var tokenEndpointAuthMethods: [String]?

    /// `id_token_signing_alg_values_supported`; nil when the provider does not advertise it.
    public var idTokenSigningAlgorithms: [String]?

    /// `scopes_supported`; nil when the provider does not advertise it.
    public var scopes: [String]?

    /// A sentence of advice for a user who wants to sign out at a provider without an end session endpoint.
    public var signOutAdvice: String?

    /// The template for the issuers in ID Tokens, if each tenant has its own issuer; default: none, so every token
    /// must be issued by ``issuer``.
    public var tokenIssuer: TokenIssuerTemplate?

    /// The complete metadata document, which also contains members without a property here.
    public var json: JSON = [:]

    /// The location of the document; nil when nothing was discovered.
    package var document: Document?

    /// The network reach of the connection that fetched the document (public, private or loopback); nil when it is not known.
    var documentReach: NetworkReach?

    /// The lifetime of the document; nil (unlimited) when nothing was discovered.
    var lifetime: Duration?

    /// The location of a metadata document.
    package enum Document: Sendable, Hashable {
        /// At the URL that is derived from the issuer.
        case ofIssuer
        /// At a configured URL.
        case at(String)
    }

    /// Creates metadata from values.
    public init(
        issuer: String,
        authorizationEndpoint: Endpoint? = nil,
        tokenEndpoint: Endpoint? = nil,
        jwksURI: Endpoint? = nil,
        userInfoEndpoint: Endpoint? = nil,
        endSessionEndpoint: Endpoint? = nil,
        revocationEndpoint: Endpoint? = nil,
        deviceAuthorizationEndpoint: Endpoint? = nil,
        registrationEndpoint: Endpoint? = nil,
        sendsIssuerInResponses: Bool = false
    ) {
        self.issuer = issuer
        self.authorizationEndpoint = authorizationEndpoint
        self.tokenEndpoint = tokenEndpoint
        self.jwksURI = jwksURI
        self.userInfoEndpoint = userInfoEndpoint
        self.endSessionEndpoint = endSessionEndpoint
        self.revocationEndpoint = revocationEndpoint
        self.deviceAuthorizationEndpoint = deviceAuthorizationEndpoint
        self.registrationEndpoint = registrationEndpoint
        self.declaresIssuer = sendsIssuerInResponses
    }

    /// Parses a metadata document.
    /// - Throws: ``AuthError`` with `discovery_failed` when a member has the wrong type, or an endpoint is not safe.
    public init(_ json: JSON) throws(AuthError) {
        guard let issuer = json["issuer"]?.string else { throw Self.unusable("it has no \"issuer\"") }
        self.init(issuer: issuer)
        let home = try? Endpoint(issuer, name: "issuer")
        for (name, path) in Self.namedEndpoints { self[keyPath: path] = try Self.endpoint(name, in: json, of: home) }
        self.documentSendsIssuer = try Self.flag("authorization_response_iss_parameter_supported", in: json)
        self.codeChallengeMethods = try Self.strings("code_challenge_methods_supported", in: json)
        self.tokenEndpointAuthMethods = try Self.strings("token_endpoint_auth_methods_supported", in: json)
        self.idTokenSigningAlgorithms = try Self.strings("id_token_signing_alg_values_supported", in: json)
        self.requiresPushedRequests = try Self.flag("require_pushed_authorization_requests", in: json)
        self.json = json
        // No check depends on this list, so a value of another type counts as absent.
        self.scopes = advertised("scopes_supported")
    }

    private static func unusable(_ reason: String) -> AuthError {
        AuthError(.discoveryFailed, "The provider's metadata document cannot be used: \(reason).")
    }

    private static func endpoint(_ name: String, in json: JSON, of issuer: Endpoint?) throws(AuthError) -> Endpoint? {
        // Some servers include an empty value for an endpoint that they do not support.
        guard let value = json[name], value != .null, value != "" else { return nil }
        guard let url = value.string else { throw unusable("\"\(name)\" is \(value.kind), not a URL") }
        let endpoint = try AuthError.recoded(.discoveryFailed) { () throws(AuthError) in
            try Endpoint(url, name: name)
        }
        guard endpoint.scheme == "https" || issuer?.scheme == "http" else {
            throw unusable("its \"\(name)\" is at \(endpoint.origin), which is not an https URL although the issuer is")
        }
        // Otherwise a hostile provider could have codes, tokens and secrets sent to services on this machine or its network.
        guard issuer?.mayReferTo(endpoint) == true else {
            throw unusable(
                "its \"\(name)\" is at \(endpoint.origin), a loopback or private network address; a public provider must not refer to such an address"
            )
        }
        return endpoint
    }

    /// Limits the endpoints on other hosts to the network reach of the connection to the document's server. On a company network, the
    /// host names of the server and its endpoints may resolve to private addresses; those of a public server must not.
    /// - Parameter reach: The network reach; nil when it is not known.
    mutating func limitReach(to reach: NetworkReach?) {
        documentReach = reach
        let home = try? Endpoint(issuer, name: "issuer")
        for (_, path) in Self.namedEndpoints {
            self[keyPath: path]?.limitReach(to: reach, unlessAt: home)
        }
    }

    private static func flag(_ name: String, in json: JSON) throws(AuthError) -> Bool {
        guard let value = json[name], value != .null else { return false }
        guard let flag = value.bool else { throw unusable("\"\(name)\" is \(value.kind), not a boolean") }
        return flag
    }

    /// RFC 8414 section 2: "Claims with zero elements MUST be omitted from the response", but some servers send an empty list.
    private static func strings(_ name: String, in json: JSON) throws(AuthError) -> [String]? {
        guard let value = json[name], value != .null else { return nil }
        guard let strings = value.strings else { throw unusable("\"\(name)\" is not an array of strings") }
        return strings.isEmpty ? nil : strings
    }
}

/// One of the endpoints in a provider's metadata.
package typealias EndpointPath = any KeyPath<ProviderMetadata, Endpoint?> & Sendable

extension ProviderMetadata {
    /// The endpoint at a key path.
    /// - Throws: ``AuthError`` with `unsupported` when the provider has no such endpoint.
    package func required(
        _ endpoint: KeyPath<ProviderMetadata, Endpoint?>,
        _ name: String
    ) throws(AuthError) -> Endpoint {
        guard let endpoint = self[keyPath: endpoint] else {
            throw unsupported("has no \(name).")
        }
        return endpoint
    }

    /// The error for a capability that the provider lacks.
    /// - Parameter reason: The rest of the message, after the name of the provider.
    package func unsupported(_ reason: String) -> AuthError {
        AuthError(.unsupported, "The provider \(issuer) \(reason)")
    }

    /// The values in a list of the document; nil when the list is absent or empty.
    /// - Parameter name: The name of the list.
    package func advertised(_ name: String) -> [String]? { json[name]?.strings.flatMap { $0.isEmpty ? nil : $0 } }

    private typealias WritableEndpointPath = any WritableKeyPath<ProviderMetadata, Endpoint?> & Sendable

    /// The names of the endpoints in a metadata document.
    private static let namedEndpoints: [(name: String, path: WritableEndpointPath)] = [
        ("authorization_endpoint", \.authorizationEndpoint), ("token_endpoint", \.tokenEndpoint),
        ("jwks_uri", \.jwksURI), ("userinfo_endpoint", \.userInfoEndpoint),
        ("end_session_endpoint", \.endSessionEndpoint), ("revocation_endpoint", \.revocationEndpoint),
        ("introspection_endpoint", \.introspectionEndpoint),
        ("device_authorization_endpoint", \.deviceAuthorizationEndpoint),
        ("registration_endpoint", \.registrationEndpoint),
        ("pushed_authorization_request_endpoint", \.pushedAuthorizationRequestEndpoint),
    ]

    /// The endpoints, with their names in a metadata document.
    package var endpoints: [(name: String, endpoint: Endpoint?)] {
        Self.namedEndpoints.map { ($0.name, self[keyPath: $0.path]) }
    }

    /// The endpoints whose mutual TLS aliases a client uses.
    private static let aliasedEndpoints = namedEndpoints.filter {
        ![
            "authorization_endpoint", "jwks_uri", "end_session_endpoint", "registration_endpoint",
        ].contains($0.name)
    }

    /// The same metadata with the mutual TLS endpoint aliases, if there are any.
    /// RFC 8705 section 5: "An OAuth client intending to do mutual TLS ... MUST use the alias URL of the endpoint within the
    /// mtls_endpoint_aliases, when present, in preference to the endpoint URL of the same name at the top level of metadata."
    /// - Throws: ``AuthError`` with `discovery_failed` when an endpoint is not safe.
    package func withMTLSEndpointAliases() throws(AuthError) -> ProviderMetadata {
        guard let aliases = json["mtls_endpoint_aliases"], aliases.object != nil else { return self }
        let home = try? Endpoint(issuer, name: "issuer")
        var metadata = self
        // An alias replaces an endpoint of the document, but not a configured endpoint.
        for (name, path) in Self.aliasedEndpoints where metadata[keyPath: path]?.url == json[name]?.string {
            guard var alias = try Self.endpoint(name, in: aliases, of: home) else { continue }
            alias.limitReach(to: documentReach, unlessAt: home)
            metadata[keyPath: path] = alias
        }
        return metadata
    }

    /// Replaces endpoints with the configured endpoints.
    /// - Parameter other: The configured endpoints. An endpoint that is nil here is not replaced.
    public mutating func replaceEndpoints(by other: ProviderMetadata) {
        for (_, path) in Self.namedEndpoints {
            if let endpoint = other[keyPath: path] { self[keyPath: path] = endpoint }
        }
    }
}
