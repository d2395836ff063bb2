public import AuthFlowOAuth

/// An issuer whose access tokens an API accepts, and the rules for them.
public struct TrustedIssuer: Sendable {
    /// The `typ` header parameter that a JWT access token must have.
    public enum TokenType: Sendable, Hashable {
        /// `at+jwt` (RFC 9068 section 2.1): an ID Token cannot be used as an access token.
        case accessToken
        /// `at+jwt`, `JWT` or no type: Entra, Keycloak and older servers issue such tokens. A token with claims that
        /// only ID Tokens have (`at_hash`, `c_hash`, `s_hash`, `azp` equal to its audience, `nonce` unless `typ` is Bearer or DPoP) is rejected. An
        /// ID Token without these claims would be accepted if its client had the API's audience as its `client_id`, so
        /// never register such a client.
        case riskyAnyJWT
    }

    /// The authorization server, which provides the metadata and the keys.
    public let server: AuthorizationServer

    /// The values of `aud` that identify the API, compared exactly; empty: the identifier of the resource.
    public let audiences: [String]

    /// The `typ` header parameter of the issuer's tokens.
    public let tokenType: TokenType

    /// The accepted signature algorithms.
    public let algorithms: [SignatureAlgorithm]

    /// The tenants whose tokens are accepted, if each tenant has its own issuer; nil: only the server's issuer.
    public let tenants: TokenIssuerTemplate?

    /// The keys to which tokens may be encrypted.
    public let decryptionKeys: DecryptionKeySource?

    /// Whether JWTs from this issuer must be encrypted. Opaque tokens are introspected regardless of this setting.
    public let requiresEncryption: Bool

    /// The API's OAuth client at the issuer, for introspection (RFC 7662); nil: opaque tokens are rejected.
    public let introspector: OAuthClient?

    /// Whether verified JWTs are also introspected, so that revoked tokens are rejected. Needs an introspector.
    public let introspectsJWTs: Bool

    /// Whether to accept an introspection response without `aud`, relying on the issuer to check the audience (RFC 7662 section 4). Many
    /// issuers do not; tokens for other APIs would then be accepted.
    public let trustsIssuerToCheckAudience: Bool

    /// Creates the rules for an issuer.
    /// - Parameters:
    ///   - server: The server.
    ///   - audiences: The values of `aud` that identify the API; default: the identifier of the resource.
    ///   - tokenType: The `typ` header parameter of the issuer's tokens; default: `at+jwt`.
    ///   - algorithms: The accepted signature algorithms; default: all asymmetric algorithms. HMAC is never accepted.
    ///   - tenants: The tenants whose tokens are accepted; default: only the server's issuer.
    ///   - decryptionKeys: The keys to which tokens may be encrypted; default: none.
    ///   - requiresEncryption: Whether JWTs from this issuer must be encrypted; default: no.
    ///   - introspector: The API's OAuth client at the issuer, for opaque tokens; default: none.
    ///   - introspectsJWTs: Whether verified JWTs are also introspected; default: no.
    ///   - trustsIssuerToCheckAudience: Whether to accept an introspection response without `aud`; default: no.
    public init(
        _ server: AuthorizationServer,
        audiences: [String] = [],
        tokenType: TokenType = .accessToken,
        algorithms: [SignatureAlgorithm] = SignatureAlgorithm.asymmetric,
        tenants: TokenIssuerTemplate? = nil,
        decryptionKeys: DecryptionKeySource? = nil,
        requiresEncryption: Bool = false,
        introspector: OAuthClient? = nil,
        introspectsJWTs: Bool = false,
        trustsIssuerToCheckAudience: Bool = false
    ) {
        self.server = server
        self.audiences = audiences
        self.tokenType = tokenType
        self.algorithms = algorithms.filter(SignatureAlgorithm.asymmetric.contains)
        self.tenants = tenants
        self.decryptionKeys = decryptionKeys
        self.requiresEncryption = requiresEncryption
        self.introspector = introspector
        self.introspectsJWTs = introspectsJWTs
        self.trustsIssuerToCheckAudience = trustsIssuerToCheckAudience
    }

    /// The issuer, or the template of the tenants' issuers.
    var name: String { tenants?.text ?? server.issuer }

    /// The issuer that a token with these claims must have; nil if its tenant is not accepted.
    func issuer(for claims: JSON) -> String? {
        guard let tenants else { return server.issuer }
        return tenants.issuer(for: claims)
    }

    /// Whether an audience includes the API. RFC 9068 section 4: "The resource server MUST validate that the "aud"
    /// claim contains a resource indicator value corresponding to an identifier the resource server expects for
    /// itself."
    func matchesAudience(_ resource: Endpoint, _ audience: [String]) -> Bool {
        audiences.isEmpty
            ? audience.containsIdentical(resource.url) : audiences.contains { audience.containsIdentical($0) }
    }
}
