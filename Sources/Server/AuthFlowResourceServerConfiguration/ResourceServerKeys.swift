import AuthFlowConfiguration
import AuthFlowResourceServer

/// The keys of `resource_server`.
enum ResourceServerKeys {
    static let resource = ConfigurationKey(
        "resource",
        required: .parsed("uri") { text throws(AuthError) in try Endpoint(text, name: "resource").url },
        "The identifier of the API: its URL, exactly as clients specify it."
    )
    static let issuers = ConfigurationKey(
        "issuers",
        required: .list(IssuerSettings.value),
        "The issuers whose access tokens are accepted: the URL of each, or an object with its rules."
    )
    static let scopes = ConfigurationKey(
        "scopes",
        .list(.text),
        default: [],
        "The scopes that the API's metadata advertises (scopes_supported). Default: none."
    )
    static let binding = ConfigurationKey(
        "required_binding",
        ConfigurationValue<RequiredBinding>.named([
            "as-issued": .asIssued, "dpop": .dpop, "certificate": .certificate,
            "dpop-or-certificate": .dpopOrCertificate,
        ]),
        default: .asIssued,
        "The required binding of tokens to their client; as-issued also accepts bearer tokens."
    )
    static let dpop = ConfigurationKey(
        "dpop",
        ConfigurationValue<DPoPSettings>.either(
            ConfigurationValue<Bool>.flag.map { isAccepted throws(AuthError) in DPoPSettings(isAccepted: isAccepted) },
            .object(DPoPSettings.keys) { object throws(ConfigurationError) in try DPoPSettings(object) }
        ),
        "The rules for DPoP proofs (RFC 9449), or a boolean: whether proofs are accepted. Default: true."
    )
    static let certificateField = ConfigurationKey(
        "certificate_field",
        ConfigurationValue<ClientCertificateField>.either(
            .parsed { text throws(AuthError) in try CertificateFieldKeys.field(text, .structured) },
            .object([CertificateFieldKeys.name, CertificateFieldKeys.encoding]) { object throws(ConfigurationError) in
                let encoding = try object[CertificateFieldKeys.encoding]
                let name = try object[CertificateFieldKeys.name]
                return try object.located(CertificateFieldKeys.name) { () throws(AuthError) in
                    try CertificateFieldKeys.field(name, encoding)
                }
            }
        ),
        "The header field in which a proxy forwards the client certificate. The proxy must remove it from incoming requests, and the API must be reachable only through the proxy. Default: none."
    )
    static let clockLeeway = ConfigurationKey(
        "clock_leeway",
        .seconds(0...600),
        default: .seconds(60),
        "The allowed clock skew, in seconds."
    )
    static let cachedTokens = ConfigurationKey(
        "cached_tokens",
        .number(0...10_000_000),
        default: ResourceServerRules().cachedTokens,
        "The maximum number of verified tokens cached in memory."
    )
    static let verificationCacheTime = ConfigurationKey(
        "verification_cache_time",
        .seconds(0...3600),
        default: ResourceServerRules().verificationCacheTime,
        "The time for which a verified JWT is cached, in seconds. A JWT is never cached beyond its expiry."
    )
    static let introspectionCacheTime = ConfigurationKey(
        "introspection_cache_time",
        .seconds(0...3600),
        default: ResourceServerRules().introspectionCacheTime,
        "The time for which an active introspection result is cached, in seconds."
    )
    static let exposesChallenges = ConfigurationKey(
        "exposes_challenges_to_browsers",
        .flag,
        default: false,
        "Whether scripts from other origins can read the challenges (Access-Control-Expose-Headers)."
    )

    static let all: [any AnyConfigurationKey] =
        [
            resource, issuers, scopes, binding, dpop, certificateField, clockLeeway, cachedTokens,
            verificationCacheTime, introspectionCacheTime, exposesChallenges,
        ] + NetworkSettings.Keys.all
}

/// The keys of `certificate_field`.
private enum CertificateFieldKeys {
    static let name = ConfigurationKey("name", required: .text, "The name of the field.")
    static let encoding = ConfigurationKey(
        "encoding",
        ConfigurationValue<ClientCertificateField.Encoding>.named([
            "structured": .structured, "escaped-pem": .escapedPEM,
        ]),
        default: .structured,
        "The encoding of the certificate: structured (RFC 9440), or escaped-pem (nginx's $ssl_client_escaped_cert)."
    )

    static func field(
        _ name: String,
        _ encoding: ClientCertificateField.Encoding
    ) throws(AuthError) -> ClientCertificateField {
        guard let field = HTTPField.Name(name) else {
            throw AuthError(.invalidConfiguration, "this is not a valid header field name")
        }
        return ClientCertificateField(field, encoding: encoding)
    }
}

extension ResourceServerRules {
    /// Parses the rules in `resource_server`.
    init(_ object: ConfigurationObject) throws(ConfigurationError) {
        let keys = ResourceServerKeys.self
        self.init()
        binding = try object[keys.binding]
        if let settings = try object[keys.dpop] { dpop = settings.rules }
        guard binding != .dpop || dpop.isAccepted else {
            throw object.error("tokens must be bound to a DPoP key, but DPoP proofs are not accepted", at: keys.dpop)
        }
        certificateField = try object[keys.certificateField]
        clockLeeway = try object[keys.clockLeeway]
        cachedTokens = try object[keys.cachedTokens]
        verificationCacheTime = try object[keys.verificationCacheTime]
        introspectionCacheTime = try object[keys.introspectionCacheTime]
        supportedScopes = try object[keys.scopes]
        exposesChallengesToBrowsers = try object[keys.exposesChallenges]
    }
}
