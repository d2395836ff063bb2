import AuthFlowHTTP
public import AuthFlowJOSE
public import HTTPTypes

/// The rules of a ``ResourceServer`` that do not depend on the issuer.
public struct ResourceServerRules: Sendable {
    /// How long an inactive token is refused without another introspection, in seconds.
    static let inactiveTime = 10.0

    /// How tokens have to be bound; default: as each token says.
    public var binding = RequiredBinding.asIssued

    /// The rules for DPoP proofs.
    public var dpop = DPoPRules()

    /// The field in which a proxy forwards the client certificate; default: none. The proxy must remove the field from incoming
    /// requests, and the API must be reachable only through the proxy.
    public var certificateField: ClientCertificateField?

    /// The allowed clock skew; default: one minute.
    public var clockLeeway = Duration.seconds(60)

    /// The largest number of verified JWTs, and of active introspection results, in memory; default: 10,000 of each. 0: neither is kept.
    public var cachedTokens = 10_000

    /// How long a verified JWT is accepted without its signature being checked again, and never beyond its end; default: five minutes.
    public var verificationCacheTime = Duration.seconds(300)

    /// How long an active introspection result counts; default: 30 seconds. A token may be accepted for that long after its
    /// revocation; a JWT that is not introspected, until it expires.
    public var introspectionCacheTime = Duration.seconds(30)

    /// The scopes that the metadata announces (`scopes_supported`); default: none.
    public var supportedScopes: [String] = []

    /// Whether `Access-Control-Expose-Headers` lists `WWW-Authenticate` and `DPoP-Nonce`; default: no. The application sets
    /// `Access-Control-Allow-Origin`.
    public var exposesChallengesToBrowsers = false

    /// The URL of a request as its client saw it, for the proofs; default: the origin of the resource, and the path of the request.
    ///
    /// Set it where a proxy changes paths. Never take it from `Host` or `Forwarded`, unless the proxy sets them.
    public var publicURL: @Sendable (HTTPRequest) -> String?

    /// Creates the default rules.
    public init() {
        self.publicURL = { _ in nil }
    }

    func address(_ request: HTTPRequest, _ resource: Endpoint) throws(TokenFailure) -> Endpoint {
        // RFC 9449 section 4.3: "ignoring any query and fragment parts".
        let path = (request.path ?? "/").prefix { $0 != "?" }
        let url = publicURL(request) ?? resource.origin + path
        // A target that does not begin with a slash could continue the host.
        guard path.hasPrefix("/"), let address = try? Endpoint(url) else {
            throw .malformed("The path of the request cannot be compared with the proof.")
        }
        return address
    }
}

/// The rules for DPoP proofs (RFC 9449).
public struct DPoPRules: Sendable {
    /// Whether proofs are accepted; default: yes. A token that is bound to a key is otherwise refused.
    public var isAccepted = true

    /// The accepted signature algorithms of proofs; default: all asymmetric ones.
    public var algorithms = SignatureAlgorithm.asymmetric

    /// How far the time of a proof may be from the server's, in both directions; default: one minute.
    public var window = Duration.seconds(60)

    /// The key of the nonces that proofs must have; default: none is demanded. All machines of the API share it.
    public var nonces: NonceKey?

    /// Remembers the proofs that were used; default: in the memory of this process. Use ``SharedReplayCache`` for several machines.
    public var proofs: any ProofReplayCache = MemoryReplayCache()

    /// Creates the default rules.
    public init() {}
}
