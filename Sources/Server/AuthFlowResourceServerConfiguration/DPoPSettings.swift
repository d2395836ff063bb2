import AuthFlowConfiguration
import AuthFlowResourceServer

/// The settings of `dpop` in `resource_server`.
struct DPoPSettings: Sendable {
    private static let algorithms = ConfigurationKey(
        "algorithms",
        .list(.choice(of: SignatureAlgorithm.asymmetric)),
        default: SignatureAlgorithm.asymmetric,
        "The accepted signature algorithms of proofs."
    )
    private static let window = ConfigurationKey(
        "window",
        .seconds(5...600),
        default: .seconds(60),
        "The maximum difference between a proof's iat and the server's clock, in seconds, in either direction."
    )
    private static let nonceKey = ConfigurationKey(
        "nonce_key",
        .secret,
        "The key for the nonces that proofs must contain, by reference: at least 32 random bytes, base64url-encoded, the same on every instance of the API. Default: no nonces are required."
    )
    private static let nonceLifetime = ConfigurationKey(
        "nonce_lifetime",
        .seconds(10...86_400),
        default: .seconds(300),
        "The lifetime of a nonce, in seconds."
    )

    static let keys: [any AnyConfigurationKey] = [algorithms, window, nonceKey, nonceLifetime]

    private(set) var rules = DPoPRules()

    init(isAccepted: Bool) { rules.isAccepted = isAccepted }

    init(_ object: ConfigurationObject) throws(ConfigurationError) {
        rules.algorithms = try object[Self.algorithms]
        rules.window = try object[Self.window]
        let lifetime = try object[Self.nonceLifetime]
        guard let key = try object[Self.nonceKey] else { return }
        rules.nonces = try object.located(Self.nonceKey) { () throws(AuthError) in
            try NonceKey(key, lifetime: lifetime)
        }
    }
}
