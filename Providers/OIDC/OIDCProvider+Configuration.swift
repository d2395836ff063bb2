public import AuthFlow

extension ProviderFactory {
    /// `oidc`: any provider that follows OpenID Connect, or OAuth 2.0 with a metadata document.
    public static var oidc: ProviderFactory {
        let issuer = ConfigurationKey(
            "issuer",
            required: .issuer,
            "The issuer, exactly as in the provider's metadata."
        )
        let metadataURL = ConfigurationKey(
            "metadata_url",
            .url,
            "The URL of the metadata document, if it differs from the issuer's well-known URLs (OpenID Connect Discovery, RFC 8414). The document must contain the issuer."
        )
        let endpoints = ConfigurationKey(
            "endpoints",
            .object(EndpointKeys.all) { $0 },
            "Endpoints that replace or supplement the discovered endpoints. If authorization, token and jwks are all set and metadata_url is not, discovery is skipped, as required for a provider without a metadata document. Without the openid scope, jwks is required only with identity access_token; identity userinfo and introspection require the endpoint of that name."
        )
        let identity = ConfigurationKey(
            "identity",
            ConfigurationValue<OIDCProvider.IdentitySource>.choice,
            default: .idToken,
            "The source of the user's identity. With id_token, the user is not identified if there is no ID Token, except in the device flow with the openid scope, where the userinfo endpoint identifies the user."
        )
        let subjectClaim = ConfigurationKey(
            "subject_claim",
            .text,
            default: "sub",
            "The claim that identifies a user if there is no ID Token, or its JSON Pointer (RFC 6901), such as /data/id. Requires an identity other than id_token."
        )
        let template = ConfigurationKey(
            "issuer",
            required: .text,
            "The issuer template, exactly as in the metadata: https://login.example.com/{tenantid}/v2.0."
        )
        let claim = ConfigurationKey("claim", required: .text, "The ID Token claim that identifies the tenant.")
        let tenants = ConfigurationKey("tenants", .list(.text), "The tenants whose users are accepted. Default: any.")
        let tokenIssuer = ConfigurationKey(
            "token_issuer",
            ConfigurationValue<TokenIssuerTemplate>.object([template, claim, tenants]) {
                object throws(ConfigurationError) in
                let (text, claim, tenants) = (try object[template], try object[claim], try object[tenants])
                return try object.located(template) { () throws(AuthError) in
                    try TokenIssuerTemplate(text, claim: claim, tenants: tenants)
                }
            },
            "The issuer of each tenant's ID Tokens, if users of several tenants sign in. Default: all ID Tokens have the same issuer."
        )
        return ProviderFactory("oidc", keys: [issuer, metadataURL, endpoints, identity, subjectClaim, tokenIssuer]) {
            profile in
            let issuer = try profile[issuer]
            let source = try profile[identity]
            let subjectClaim = try profile[subjectClaim]
            guard try source == .idToken || profile[tokenIssuer] == nil else {
                throw profile.error(
                    "\"token_issuer\" requires the identity \"id_token\": only an ID Token identifies the user's tenant",
                    at: identity
                )
            }
            guard source != .idToken || subjectClaim == "sub" else {
                throw profile.error(
                    "\"subject_claim\" requires the identity \"userinfo\", \"introspection\" or \"access_token\": with \"id_token\", the user is identified by \"sub\"",
                    at: identity
                )
            }
            var metadata: ProviderMetadata?
            if let explicit = try profile[endpoints] {
                var complete = try EndpointKeys.metadata(explicit, issuer: issuer)
                complete.tokenIssuer = try profile[tokenIssuer]
                // Without an ID Token, the endpoint that identifies the user is required instead of keys.
                let hasIDToken = try (profile[ProfileKeys.scopes] ?? ["openid"]).contains("openid")
                let identifies =
                    switch source {
                    case .idToken: true
                    case .userInfo: complete.userInfoEndpoint != nil
                    case .introspection: complete.introspectionEndpoint != nil
                    case .accessToken: false
                    }
                let isComplete = complete.jwksURI != nil || !hasIDToken && identifies
                if complete.authorizationEndpoint != nil, complete.tokenEndpoint != nil, isComplete,
                    try profile[metadataURL] == nil
                {
                    return OIDCProvider(metadata: complete, identitySource: source, subjectClaim: subjectClaim)
                }
                metadata = complete
            }
            return OIDCProvider(
                issuer: issuer,
                metadataURL: try profile[metadataURL],
                endpoints: metadata,
                identitySource: source,
                subjectClaim: subjectClaim,
                tokenIssuer: try profile[tokenIssuer]
            )
        }
    }
}

/// The keys of `endpoints`.
private enum EndpointKeys {
    static let authorization = ConfigurationKey("authorization", .url, "The authorization endpoint.")
    static let token = ConfigurationKey("token", .url, "The token endpoint.")
    static let jwks = ConfigurationKey(
        "jwks",
        .url,
        "The provider's key set (jwks_uri), which is used to verify ID Tokens."
    )
    static let userInfo = ConfigurationKey("userinfo", .url, "The userinfo endpoint.")
    static let endSession = ConfigurationKey("end_session", .url, "The end session endpoint.")
    static let revocation = ConfigurationKey("revocation", .url, "The revocation endpoint.")
    static let introspection = ConfigurationKey("introspection", .url, "The introspection endpoint.")
    static let device = ConfigurationKey("device_authorization", .url, "The device authorization endpoint.")

    static let all = [authorization, token, jwks, userInfo, endSession, revocation, introspection, device]

    static func metadata(
        _ endpoints: ConfigurationObject,
        issuer: String
    ) throws(ConfigurationError) -> ProviderMetadata {
        var metadata = ProviderMetadata(
            issuer: issuer,
            authorizationEndpoint: try endpoints[authorization],
            tokenEndpoint: try endpoints[token],
            jwksURI: try endpoints[jwks],
            userInfoEndpoint: try endpoints[userInfo],
            endSessionEndpoint: try endpoints[endSession],
            revocationEndpoint: try endpoints[revocation],
            deviceAuthorizationEndpoint: try endpoints[device]
        )
        metadata.introspectionEndpoint = try endpoints[introspection]
        return metadata
    }
}
