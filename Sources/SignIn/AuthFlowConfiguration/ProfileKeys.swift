package import AuthFlowOAuth
public import AuthFlowSignIn
import AuthFlowStorage

/// The keys of a profile that do not depend on the components that a program lists. Adapters read the keys that are declared `public`.
public enum ProfileKeys {
    package static let clientID = ConfigurationKey(
        "client_id",
        required: .text,
        "The client identifier, as registered with the provider."
    )
    package static let clientSecret = ConfigurationKey(
        "client_secret",
        .secret,
        "The client secret, by reference. Omit it for a public client: apps and command-line tools cannot keep a secret confidential."
    )
    package static let clientAuthentication = ConfigurationKey(
        "client_authentication",
        .choice(of: [
            ClientAuthentication.Method.none, .clientSecretBasic, .clientSecretPost, .clientSecretJWT, .privateKeyJWT,
            .spiffeJWT, .tlsClientAuth, .selfSignedTLSClientAuth,
        ]),
        "The client authentication method. private_key_jwt requires client_key or client_assertion; spiffe_jwt requires client_assertion; the mutual-TLS methods require client_certificate. Default: private_key_jwt with a client_key or client_assertion, none if there is no secret, otherwise client_secret_post if the adapter requires it or if the provider's metadata lists it and not client_secret_basic, otherwise client_secret_basic."
    )
    static let clientSecretIssuer = ConfigurationKey(
        "client_secret_issuer",
        .text,
        "The iss claim of the client secret, if the secret is a JWT that is signed with client_key for each request. For Apple, this is the team ID. Requires client_authentication to be client_secret_post."
    )
    package static let clientKey = ConfigurationKey(
        "client_key",
        ClientKey.value,
        "The private key that signs client assertions and request objects: a key in a PKCS #11 token; or a PEM, JWK or JWK Set file, which other users must not be able to read (a file owned by root may be group-readable, like a secret that Kubernetes mounts with fsGroup), and which is reloaded when it is replaced."
    )
    static let dpopKey = ConfigurationKey(
        "dpop_key",
        ClientKey.withoutCertificate,
        "The DPoP key (RFC 9449), used instead of a new key for each sign-in; intended for hardware keys. Implies dpop."
    )
    package static let decryptionKey = ConfigurationKey(
        "decryption_key",
        ConfigurationValue<[DecryptionKeySource]>.oneOrMore(
            .either(
                ConfigurationValue<String>.path.map { path throws(AuthError) in DecryptionKeySource.file(path: path) },
                .object([decryptionFile, ClientKey.keyID, decryptionAlgorithm]) { object throws(ConfigurationError) in
                    .file(
                        path: try object[decryptionFile],
                        keyID: try object[ClientKey.keyID],
                        algorithm: try object[decryptionAlgorithm]
                    )
                }
            )
        ),
        "The private key that decrypts tokens from the provider: a PEM, JWK or JWK Set file that other users must not be able to read; during rotation, the file must also contain the old key."
    )
    private static let decryptionFile = ConfigurationKey("file", required: .path, "The file.")
    private static let decryptionAlgorithm = ConfigurationKey(
        "algorithm",
        .choice(of: KeyManagementAlgorithm.all),
        "The key's registered algorithm. Default: the JWK's algorithm, otherwise every algorithm that the key supports except RSA-OAEP with SHA-1."
    )
    static let encryptedResponses = ConfigurationKey(
        "encrypted_responses",
        .list(ConfigurationValue<EncryptedResponse>.choice),
        default: [],
        "The responses that are rejected unless they are encrypted. With a decryption_key, any response may be encrypted."
    )
    private static let introspectionAudience = ConfigurationKey(
        "audience",
        .text,
        "The required audience of the response. Default: client_id; some providers use the token's audience."
    )
    package static let signedIntrospection = ConfigurationKey(
        "signed_introspection",
        ConfigurationValue<SignedIntrospection?>.either(
            ConfigurationValue<Bool>.flag.map { isDemanded throws(AuthError) in isDemanded ? SignedIntrospection() : nil
            },
            .object([introspectionAudience]) { object throws(ConfigurationError) in
                SignedIntrospection(audience: try object[introspectionAudience])
            }
        ),
        default: nil,
        "Whether introspection responses must be signed (RFC 9701). Default: false; true under fapi2-message-signing."
    )
    package static let assertionAudience = ConfigurationKey(
        "client_assertion_audience",
        ConfigurationValue<ClientAuthentication.Audience>.choice,
        default: .issuer,
        "The audience of client assertions: the issuer (FAPI 2.0), the token endpoint, or the endpoint that is called. Servers differ. For a client_assertion, its option audience applies instead."
    )
    package static let assertionAlgorithm = ConfigurationKey(
        "client_assertion_algorithm",
        .choice(of: SignatureAlgorithm.symmetric),
        default: .hs256,
        "The HMAC algorithm for client_secret_jwt. The client secret must be at least as long as the hash: 32, 48 or 64 bytes (RFC 7518 section 3.2)."
    )
    static let pushedRequests = ConfigurationKey(
        "par",
        ConfigurationValue<PushedRequests>.choice,
        default: .automatic,
        "Whether authorization requests are pushed (RFC 9126); auto: when the provider requires or supports it."
    )
    static let repeatedPushedParameters = ConfigurationKey(
        "par_repeats",
        .list(ConfigurationValue<RepeatedPushedParameter>.choice),
        default: [],
        "Parameters of a pushed request that are repeated in the authorization URL, for providers that require them there."
    )
    static let signsRequests = ConfigurationKey(
        "signed_requests",
        .flag,
        default: false,
        "Whether authorization requests are signed with client_key (RFC 9101)."
    )
    private static let requestAlgorithm = ConfigurationKey(
        "algorithm",
        .choice(of: KeyManagementAlgorithm.all),
        "The registered algorithm (request_object_encryption_alg). Default: the best algorithm that the provider advertises and has a key for."
    )
    private static let requestContent = ConfigurationKey(
        "content",
        .choice(of: ContentEncryption.allCases),
        "The content encryption (request_object_encryption_enc). Default: the best encryption that the provider advertises, otherwise A128CBC-HS256."
    )
    static let requestEncryption = ConfigurationKey(
        "encrypted_requests",
        ConfigurationValue<RequestObjectEncryption?>.either(
            ConfigurationValue<Bool>.flag.map { isWanted throws(AuthError) in isWanted ? RequestObjectEncryption() : nil
            },
            .object([requestAlgorithm, requestContent]) { object throws(ConfigurationError) in
                RequestObjectEncryption(algorithm: try object[requestAlgorithm], content: try object[requestContent])
            }
        ),
        default: nil,
        "Whether signed requests are encrypted to the provider, with a key from its key set. Default: false."
    )
    static let authorizationDetails = ConfigurationKey(
        "authorization_details",
        ConfigurationValue<JSON>.typedObjects { json throws(AuthError) in try AuthorizationDetails.check(json) },
        "The authorization details to request in addition to scopes (RFC 9396): an array of objects, each with a type."
    )
    static let requiresExactDetails = ConfigurationKey(
        "authorization_details_exact",
        .flag,
        default: false,
        "Whether to reject tokens whose authorization details differ from the requested details."
    )
    static let securityProfile = ConfigurationKey(
        "security_profile",
        ConfigurationValue<SecurityProfile>.choice,
        "The security profile that the client conforms to as a whole; settings that violate it are rejected."
    )
    static let resources = ConfigurationKey(
        "resources",
        .list(.parsed("uri") { text throws(AuthError) in try ResourceIdentifier.checked(text) }),
        default: [],
        "The URIs of the resources for which access tokens are requested (RFC 8707)."
    )
    static let sendsResourcesOnRefresh = ConfigurationKey(
        "resources_on_refresh",
        .flag,
        default: true,
        "Whether refresh requests also contain the resources; some providers, such as Microsoft Entra, reject such requests."
    )
    static let bearerTokenTypes = ConfigurationKey(
        "bearer_token_types",
        .list(.text),
        default: [],
        "The values of token_type, other than Bearer, that the provider documents for bearer tokens; the value none represents a missing token_type. Every other type is rejected (RFC 6749 section 7.1)."
    )
    static let requiresAdvertisedPKCE = ConfigurationKey(
        "announced_pkce",
        .flag,
        default: false,
        "Whether the provider must advertise PKCE with S256 in its metadata; if false, only a provider that advertises PKCE methods without S256 is rejected."
    )
    /// The sign-in flows, in order of preference.
    public static let flow = ConfigurationKey(
        "flow",
        .oneOrMore(ConfigurationValue<SignInFlow>.choice),
        default: [.authorizationCode],
        "The grant: the authorization code grant in a user agent, the device grant (RFC 8628), or, for machine-to-machine clients, client_credentials (RFC 6749 section 4.4) or jwt_bearer with an assertion (RFC 7523 section 2.1). In a list, the first flow that can start in this environment and that the provider supports is used; once a page or a code has been shown, no other flow is tried."
    )
    /// The scopes to request; nil for the default scopes of the provider's adapter.
    public static let scopes = ConfigurationKey(
        "scopes",
        .list(.text, canBeEmpty: true),
        "The scopes to request; [] for none. Default: the adapter's default scopes, usually [\"openid\"]."
    )
    static let redirectURI = ConfigurationKey(
        "redirect_uri",
        .oneOrMore(.parsed("uri") { text throws(AuthError) in try RedirectURI(text) }),
        "The registered redirect URI; in a list, the first URI at which the user agent can receive redirects is used. Default: http://127.0.0.1/callback, on a free port."
    )
    static let responseMode = ConfigurationKey(
        "response_mode",
        ConfigurationValue<ResponseMode>.choice,
        default: .query,
        "The response mode: how the provider returns the authorization response through the browser."
    )
    static let idTokenSigningAlgorithms = ConfigurationKey(
        "id_token_signing_algorithms",
        .list(.choice(of: SignatureAlgorithm.asymmetric + SignatureAlgorithm.symmetric)),
        "The registered signature algorithms of ID Tokens (id_token_signed_response_alg). Default: the asymmetric algorithms that the provider advertises; HS256, HS384 and HS512 must be listed explicitly, and require a client_secret."
    )
    static let trustedAudiences = ConfigurationKey(
        "trusted_audiences",
        .list(.text),
        default: [],
        "The audiences that ID Tokens may have in addition to the client_id, such as the URL of an API. An ID Token with several audiences must contain the client_id in azp."
    )
    static let requestsUserInfoAtSignIn = ConfigurationKey(
        "userinfo_at_sign_in",
        .flag,
        default: true,
        "Whether the claims from the userinfo endpoint supplement those in the ID Token at each sign-in. Set it to false for a provider whose userinfo response does not conform to the standard."
    )
    static let clockLeeway = ConfigurationKey(
        "clock_leeway",
        .seconds(0...300),
        default: .seconds(60),
        "The allowed clock skew between this machine and the provider, in seconds."
    )
    static let defaultTokenLifetime = ConfigurationKey(
        "default_token_lifetime",
        ConfigurationValue<Duration>.seconds(1...31_536_000),
        "The lifetime of access tokens, in seconds, if the provider documents it but does not send expires_in. Default: such a token is used until it is rejected."
    )
    static let freshnessMargin = ConfigurationKey(
        "freshness_margin",
        .seconds(0...3600),
        default: AuthClient.Options().freshnessMargin,
        "The remaining lifetime below which an access token is treated as expired, in seconds; at most a quarter of its lifetime."
    )
    static let account = ConfigurationKey(
        "account",
        .text,
        "The subject of the only account to use, or its issuer and subject, separated by a space (required for a server with several tenants); sign-ins of other users are rejected. Not for the profiles of a server. Default: the account that was most recently signed in or selected."
    )
    static let postLogoutRedirectURI = ConfigurationKey(
        "post_logout_redirect_uri",
        .parsed("uri") { text throws(AuthError) in try RedirectURI(text) },
        "The registered post-logout redirect URI; without it, the session at the provider cannot be ended. The timeout for the redirect is at most 30 seconds."
    )
    static let sendsClientIDAtSignOut = ConfigurationKey(
        "client_id_at_sign_out",
        .flag,
        default: true,
        "Whether a logout request contains client_id. Without it, some providers reject the post-logout redirect URI."
    )
    static let sendsIDTokenAtSignOut = ConfigurationKey(
        "id_token_at_sign_out",
        .flag,
        default: true,
        "Whether a logout request contains the ID Token (id_token_hint). Some providers, such as Login.gov, reject it."
    )
    static let usesDPoP = ConfigurationKey(
        "dpop",
        .flag,
        default: false,
        "Whether tokens are DPoP-bound (RFC 9449), with a new key for each sign-in, which is stored with the tokens. Tokens that are not bound are then rejected."
    )
    static let apiOrigins = ConfigurationKey(
        "api_origins",
        .list(.origin),
        default: [],
        "The origins of the APIs to which the access token may be sent."
    )
    static let timeout = ConfigurationKey(
        "timeout",
        .seconds(5...3600),
        default: AuthClient.Options().timeout,
        "The timeout of a sign-in, in seconds. In the device flow, the lifetime of the device code applies instead, but at most 5 minutes if there is no terminal."
    )
    static let parameters = ConfigurationKey<[ProviderRequest.Purpose: FormParameters]>(
        "parameters",
        .object(parametersOfPurposes.map(\.key)) { object throws(ConfigurationError) in
            var parameters: [ProviderRequest.Purpose: FormParameters] = [:]
            for (purpose, key) in parametersOfPurposes {
                for (name, value) in try object[key].sorted(by: { $0.key < $1.key }) {
                    parameters[purpose, default: [:]].append(name, value)
                }
            }
            return parameters
        },
        default: [:],
        "Additional request parameters, by purpose; each value is an object of strings. Parameters that protect the sign-in (state, nonce, redirect_uri and others) cannot be set, except redirect_uri in refresh requests, where some providers require it. In authorization requests, max_age, an essential acr or auth_time claim, and a sub claim with a value are checked against the ID Token; without the openid scope, the claims are an error, and only the API can check max_age. The device flow cannot send them, so it is then unavailable."
    )

    private static let parametersOfPurposes = ProviderRequest.Purpose.configurable.map { purpose in
        let values = ConfigurationValue<[String: String]>.map(.text) { name throws(AuthError) in
            guard !ProviderRequest.isReserved(name, in: purpose) else {
                throw AuthError(.invalidConfiguration, "this parameter is set by AuthFlow and cannot be configured")
            }
        }
        let summary = "Additional parameters of \(purpose) requests."
        return (purpose, key: ConfigurationKey(purpose.rawValue, values, default: [:], summary))
    }

    /// The declarations of these keys, in the order of the manual.
    static let declarations: [ConfigurationKeyDeclaration] =
        ([
            clientID, clientSecret, clientAuthentication, clientSecretIssuer, clientKey, decryptionKey,
            encryptedResponses, signedIntrospection, assertionAudience, assertionAlgorithm, flow, scopes, resources,
            sendsResourcesOnRefresh, bearerTokenTypes, requiresAdvertisedPKCE, authorizationDetails,
            requiresExactDetails, redirectURI, responseMode, pushedRequests, repeatedPushedParameters, signsRequests,
            requestEncryption, securityProfile, idTokenSigningAlgorithms, trustedAudiences, requestsUserInfoAtSignIn,
            clockLeeway, defaultTokenLifetime, freshnessMargin, account, postLogoutRedirectURI,
            sendsClientIDAtSignOut, sendsIDTokenAtSignOut, usesDPoP, dpopKey, apiOrigins, timeout, parameters,
            CredentialHelperSettings.key,
        ] as [any AnyConfigurationKey]).map(\.declaration)
}

/// The keys of a profile that depend on the components that a program lists.
package struct ProfileChoices: Sendable {
    let provider: ConfigurationKey<ProviderFactory>
    let userAgents: ConfigurationKey<[ConfigurationChoice<UserAgentFactory?>]>
    let store: ConfigurationKey<ConfigurationChoice<TokenStoreFactory>?>
    let shared: ConfigurationKey<Shared?>
    let assertion: ConfigurationKey<ConfigurationChoice<AssertionSourceFactory>?>
    let clientAssertion: ConfigurationKey<ConfigurationChoice<AssertionSourceFactory>?>
    private let defaultStore: TokenStoreFactory?

    /// The credentials that several apps of one vendor share.
    struct Shared: Sendable {
        let group: String
        let store: ConfigurationChoice<TokenStoreFactory>
    }

    init(_ components: ProfileComponents) {
        let (providers, userAgents) = (components.providers, components.userAgents)
        let stores = components.stores
        self.defaultStore = stores.first
        let names = providers.map(\.name)
        self.provider = ConfigurationKey(
            "provider",
            required: ConfigurationValue(.choice(names)) { node throws(ConfigurationError) in
                try node.required(providers.first { $0.name == node.json.string })
            },
            "The provider adapter."
        )
        // Every agent that `auto` may choose receives the options of `auto`.
        let automatic = userAgents.filter(\.isAutomatic).flatMap(\.keys)
            .reduce(into: [ConfigurationKeyDeclaration]()) { keys, key in
                if !keys.contains(where: { $0.name == key.name }) { keys.append(key) }
            }
        let agents = userAgents.map { (Optional($0), $0.name, $0.keys) }
        self.userAgents = ConfigurationKey(
            "user_agent",
            .oneOrMore(.named([(nil, UserAgentChoice.auto, automatic)] + agents)),
            default: [],
            "The user agent for the provider's page; in a list, the first that works in this environment is used. Default: auto."
        )
        self.store = ConfigurationKey(
            "store",
            .store(of: stores),
            "The store for the credential. Default: the first store that the program lists; for authflow, file."
        )
        let sources = components.assertions.map { ($0, $0.name, $0.keys) }
        self.assertion = ConfigurationKey(
            "assertion",
            .named(sources),
            "The source of the assertion that the jwt_bearer flow exchanges for an access token. A new assertion is obtained for each exchange. A stored access token is used until it expires, even by another job with a different assertion. If jobs of several projects run as the same user, use the memory store."
        )
        // A self-signed assertion and the ID-JAG of another profile's sign-in are authorization grants (RFC 7523
        // section 2.1), not client assertions (section 2.2).
        self.clientAssertion = ConfigurationKey(
            "client_assertion",
            .named(sources.filter { $0.1 != "key" && $0.1 != "profile" }),
            "The source of the JWT that authenticates the client, instead of a client_key. With client_authentication spiffe_jwt, the JWT is a SPIFFE JWT-SVID; otherwise, it is used for private_key_jwt."
        )
        let group = ConfigurationKey(
            "group",
            required: .text,
            "The name of the group, which must be the same in all apps of the group."
        )
        let sharedStore = ConfigurationKey(
            "store",
            required: .store(of: stores),
            "The shared store, which must be the same in all apps of the group."
        )
        self.shared = ConfigurationKey(
            "shared",
            .object([group, sharedStore]) { object throws(ConfigurationError) in
                Shared(group: try object[group], store: try object[sharedStore])
            },
            "The sign-in that a vendor's apps share, for providers that can sign a user in to one app with another app's tokens."
        )
    }

    /// Creates the store that a configuration selects; default: the first store in the list.
    func makeStore(_ configuration: ConfigurationObject, _ host: HostServices) throws -> any TokenStore {
        try configuration[store]?.make(host: host)
            ?? defaultStore?.make(ConfigurationObject(empty: configuration), host) ?? MemoryTokenStore()
    }

    /// The declarations of these keys.
    var declarations: [ConfigurationKeyDeclaration] {
        let keys: [any AnyConfigurationKey] = [provider, userAgents, store, shared, assertion, clientAssertion]
        return keys.map(\.declaration)
    }
}
