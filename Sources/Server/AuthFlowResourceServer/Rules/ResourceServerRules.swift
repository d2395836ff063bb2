import AuthFlowHTTP
public import AuthFlowJOSE
public import HTTPTypes

/// The rules of a ``ResourceServer`` that do not depend on the issuer.
public struct ResourceServerRules: Sendable {
    /// The required binding of tokens; default: as each token was issued.
    public var binding = RequiredBinding.asIssued

    /// The rules for DPoP proofs.
    public var dpop = DPoPRules()

    /// The field in which a proxy forwards the client certificate; default: none. The proxy must remove the field from incoming
    /// requests, and the API must be reachable only through the proxy.
    public var certificateField: ClientCertificateField?

    /// The allowed clock skew; default: one minute.
    public var clockLeeway = Duration.seconds(60)

    /// The maximum number of cached verified JWTs, and of cached active introspection results; default: 10,000 each. 0
    /// disables both caches.
    public var cachedTokens = 10_000

    /// The time for which a verified JWT is cached, so that its signature is not checked again; default: five minutes. A JWT
    /// is never cached beyond its expiry.
    public var verificationCacheTime = Duration.seconds(300)

    /// The time for which an active introspection result is cached; default: 30 seconds. A revoked token may be accepted for that
    /// long after its revocation; a JWT that is not introspected is accepted until it expires.
    public var introspectionCacheTime = Duration.seconds(30)

    /// The scopes that the metadata advertises (`scopes_supported`); default: none.
    public var supportedScopes: [String] = []

    /// Whether `Access-Control-Expose-Headers` lists `WWW-Authenticate` and `DPoP-Nonce`; default: no. The application sets
    /// `Access-Control-Allow-Origin`.
    public var exposesChallengesToBrowsers = false

    /// The URL of a request as seen by its client, for the verification of proofs; default: the origin of the resource,
    /// followed by the path of the request.
    ///
    /// Set it if a proxy rewrites paths. Never derive it from `Host` or `Forwarded`, unless the proxy sets them.
    public var publicURL: @Sendable (HTTPRequest) -> String?

    /// Creates the default rules.
    public init() {
        self.publicURL = { _ in nil }
    }

    /// Whether DPoP is advertised to clients. A certificate-bound token that is also bound to a DPoP key is accepted in any case, but a token that is
    /// bound only to a DPoP key would be rejected if a certificate is required.
    var advertisesDPoP: Bool { dpop.isAccepted && binding != .certificate }

    /// Rejects rules that advertise DPoP proofs that no client can send, or that no request can meet.
    func check() throws(AuthError) {
        guard dpop.isAccepted else {
            guard binding != .dpop else {
                throw AuthError(
                    .invalidConfiguration,
                    "The API requires DPoP-bound tokens, but does not accept DPoP proofs."
                )
            }
            return
        }
        // RFC 9449 section 4.2: "alg" is "an identifier for a JWS asymmetric digital signature algorithm".
        guard !dpop.algorithms.isEmpty,
            dpop.algorithms.allSatisfy({ SignatureAlgorithm.asymmetric.contains($0) })
        else {
            throw AuthError(
                .invalidConfiguration,
                "The accepted algorithms of DPoP proofs are empty or contain a symmetric algorithm. If the API accepts no proofs, set dpop.isAccepted to false."
            )
        }
    }

    func address(_ request: HTTPRequest, _ resource: Endpoint) throws(TokenFailure) -> Endpoint {
        // RFC 9449 section 4.3: "ignoring any query and fragment parts".
        let path = Substring((request.path ?? "/").utf8.prefix { $0 != UInt8(ascii: "?") })
        let url = publicURL(request) ?? resource.origin + path
        // A request target that does not begin with a slash could extend the host name.
        guard path.utf8.first == UInt8(ascii: "/"), let address = try? Endpoint(url) else {
            throw .malformed("The URL of the request cannot be compared with the proof's htu claim.")
        }
        return address
    }
}

/// The rules for DPoP proofs (RFC 9449).
public struct DPoPRules: Sendable {
    /// Whether proofs are accepted; default: yes. If not, tokens that are bound to a key are rejected.
    public var isAccepted = true

    /// The accepted signature algorithms of proofs: at least one, and only asymmetric algorithms; default: all asymmetric algorithms.
    public var algorithms = SignatureAlgorithm.asymmetric

    /// The maximum difference between a proof's `iat` and the server's clock, in either direction; default: one minute.
    public var window = Duration.seconds(60)

    /// The key for the nonces that proofs must contain; default: no nonces are required. All instances of the API must
    /// use the same key.
    public var nonces: NonceKey?

    /// The replay cache for proofs; default: an in-memory cache. Use ``SharedReplayCache`` for several instances.
    public var proofs: any ProofReplayCache = MemoryReplayCache()

    /// Creates the default rules.
    public init() {}
}
