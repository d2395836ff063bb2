import AuthFlowConfiguration
import AuthFlowResourceServer

/// The settings of one of the `issuers` in `resource_server`.
struct IssuerSettings: Sendable {
    private let url: String
    /// The object; nil if the setting is only a URL.
    private let object: ConfigurationObject?

    static let value = ConfigurationValue<IssuerSettings>.either(
        ConfigurationValue<String>.issuer.map { url throws(AuthError) in IssuerSettings(url: url, object: nil) },
        .object(keys) { object throws(ConfigurationError) in
            IssuerSettings(url: try object[issuer], object: object)
        }
    )

    private static let issuer = ConfigurationKey("issuer", required: .issuer, "The URL of the issuer.")
    private static let audiences = ConfigurationKey(
        "audiences",
        .list(.text),
        default: [],
        "The aud values that identify the API. Default: the resource identifier."
    )
    private static let tokenType = ConfigurationKey(
        "token_type",
        ConfigurationValue<TrustedIssuer.TokenType>.named(["at+jwt": .accessToken, "risky-any-jwt": .riskyAnyJWT]),
        default: .accessToken,
        "The typ header parameter that the issuer's tokens must have. risky-any-jwt also accepts JWT or no type, because Entra and Keycloak issue such tokens; it would also accept an ID Token without the claims that distinguish ID Tokens."
    )
    private static let algorithms = ConfigurationKey(
        "algorithms",
        .list(.choice(of: SignatureAlgorithm.asymmetric)),
        default: SignatureAlgorithm.asymmetric,
        "The accepted signature algorithms."
    )
    private static let tenantIssuer = ConfigurationKey(
        "issuer",
        required: .text,
        "The issuer, with a placeholder for the tenant in braces: https://login.example.com/{tenantid}/v2.0."
    )
    private static let tenantClaim = ConfigurationKey("claim", required: .text, "The claim that identifies the tenant.")
    private static let tenantNames = ConfigurationKey(
        "tenants",
        required: .list(.text),
        "The tenants whose tokens are accepted."
    )
    private static let tenants = ConfigurationKey(
        "token_issuer",
        ConfigurationValue<TokenIssuerTemplate>.object([tenantIssuer, tenantClaim, tenantNames]) {
            object throws(ConfigurationError) in
            let (text, claim, names) = (
                try object[tenantIssuer], try object[tenantClaim], try object[tenantNames]
            )
            return try object.located(tenantIssuer) { () throws(AuthError) in
                try TokenIssuerTemplate(text, claim: claim, tenants: names)
            }
        },
        "The tenants whose tokens are accepted, if each tenant has its own issuer. Default: only the issuer itself."
    )
    private static let requiresEncryption = ConfigurationKey(
        "requires_encryption",
        .flag,
        default: false,
        "Whether JWTs from the issuer must be encrypted."
    )
    private static let introspection = ConfigurationKey(
        "introspection",
        ConfigurationValue<IntrospectionSettings>.object(IntrospectionSettings.keys) {
            object throws(ConfigurationError) in IntrospectionSettings(object: object)
        },
        "The API's client at the issuer, to introspect opaque tokens (RFC 7662). Default: none; opaque tokens are rejected."
    )

    private static let keys: [any AnyConfigurationKey] = [
        issuer, audiences, tokenType, algorithms, tenants, ProfileKeys.decryptionKey, requiresEncryption, introspection,
    ]

    /// - Parameters:
    ///   - transport: Sends the requests to the issuer.
    ///   - certificate: The certificate that the transport presents; nil for none.
    ///   - clockLeeway: The allowed clock skew.
    ///   - host: The clock and random number generator.
    func issuer(
        _ transport: any HTTPTransport,
        _ certificate: NetworkSettings.ClientCertificate?,
        _ clockLeeway: Duration,
        _ host: HostServices
    ) throws(ConfigurationError) -> TrustedIssuer {
        guard let object else {
            return TrustedIssuer(AuthorizationServer(issuer: url, transport: transport, host: host))
        }
        let tenants = try object[Self.tenants]
        let server = AuthorizationServer(issuer: url, tokenIssuer: tenants, transport: transport, host: host)
        let decryptionKeys = try object[ProfileKeys.decryptionKey].map(DecryptionKeySource.init)
        // An unusable key file is a configuration error, so it is reported before the first request.
        try object.located(ProfileKeys.decryptionKey) { () throws(AuthError) in _ = try decryptionKeys?.keys() }
        let requiresEncryption = try object[Self.requiresEncryption]
        guard !requiresEncryption || decryptionKeys != nil else {
            throw object.error("encrypted tokens need a \"decryption_key\"", at: Self.requiresEncryption)
        }
        let introspection = try object[Self.introspection]
        return TrustedIssuer(
            server,
            audiences: try object[Self.audiences],
            tokenType: try object[Self.tokenType],
            algorithms: try object[Self.algorithms],
            tenants: tenants,
            decryptionKeys: decryptionKeys,
            requiresEncryption: requiresEncryption,
            introspector: try introspection?.client(at: server, certificate, decryptionKeys, clockLeeway),
            introspectsJWTs: try introspection?.introspectsJWTs ?? false,
            trustsIssuerToCheckAudience: try introspection?.trustsIssuer ?? false
        )
    }
}

/// The settings of `introspection`.
struct IntrospectionSettings: Sendable {
    private static let introspectsJWTs = ConfigurationKey(
        "jwts",
        .flag,
        default: false,
        "Whether verified JWTs are also introspected, so that revoked tokens are rejected."
    )
    private static let trustsIssuer = ConfigurationKey(
        "trusts_issuer_to_check_audience",
        .flag,
        default: false,
        "Whether a response without aud is accepted. Many issuers do not check the audience; tokens for other APIs would then be accepted."
    )

    static let keys: [any AnyConfigurationKey] = [
        ProfileKeys.clientID, ProfileKeys.clientSecret, ProfileKeys.clientAuthentication, ProfileKeys.clientKey,
        ProfileKeys.assertionAudience, ProfileKeys.assertionAlgorithm, ProfileKeys.signedIntrospection,
        introspectsJWTs, trustsIssuer,
    ]

    let object: ConfigurationObject

    var introspectsJWTs: Bool { get throws(ConfigurationError) { try object[Self.introspectsJWTs] } }

    var trustsIssuer: Bool { get throws(ConfigurationError) { try object[Self.trustsIssuer] } }

    func client(
        at server: AuthorizationServer,
        _ certificate: NetworkSettings.ClientCertificate?,
        _ decryptionKeys: DecryptionKeySource?,
        _ clockLeeway: Duration
    ) throws(ConfigurationError) -> OAuthClient {
        let authentication = try ClientAuthentication(
            configuration: object,
            secretMethod: nil,
            assertion: nil,
            certificate: certificate
        )
        // RFC 7662 section 2.1: "the endpoint MUST also require some form of authorization to access this endpoint".
        if case .none = authentication.method {
            throw object.error("the client needs a secret, a key or a certificate", at: ProfileKeys.clientSecret)
        }
        let (id, signed) = (try object[ProfileKeys.clientID], try object[ProfileKeys.signedIntrospection])
        let registration = try object.located(ProfileKeys.clientID) { () throws(AuthError) in
            var values = ClientRegistration.Values(clientID: id)
            values.authentication = authentication
            values.signedIntrospection = signed
            // RFC 9701 section 5: a signed response may also be encrypted.
            values.decryptionKeys = decryptionKeys
            // Signed responses contain times. A client allows a skew of at most five minutes.
            values.clockLeeway = min(clockLeeway, .seconds(300))
            values.certificate = certificate.map { .file(path: $0.file) }
            return try ClientRegistration(values)
        }
        return OAuthClient(server: server, registration: registration)
    }
}
