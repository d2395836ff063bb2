public import AuthFlow

extension ProviderFactory {
    /// `oidc`: any provider that follows OpenID Connect, or OAuth 2.0 with a metadata document.
    ///
    /// ## Configuration keys
    /// - `issuer` (URL, required): The issuer, exactly as the provider writes it.
    /// - `endpoints` (object, optional): Explicit endpoints, in place of discovered ones or beside them. With
    ///   `authorization`, `token` and `jwks` nothing is discovered.
    /// - `identity` (string, optional): Where the user's identity comes from: `id_token`, `userinfo`, `introspection` or
    ///   `access_token`; default: `id_token`.
    /// - `subject_claim` (string, optional): The claim that identifies a user where there is no ID Token; default: `sub`.
    public static var oidc: ProviderFactory {
        let endpoints = ConfigurationShape.object([
            ConfigurationKey("authorization", .url, "The authorization endpoint."),
            ConfigurationKey("token", .url, "The token endpoint."),
            ConfigurationKey("jwks", .url, "The provider's keys (jwks_uri), which ID Tokens are verified with."),
            ConfigurationKey("userinfo", .url, "The userinfo endpoint."),
            ConfigurationKey("end_session", .url, "The end session endpoint."),
            ConfigurationKey("revocation", .url, "The revocation endpoint."),
            ConfigurationKey("introspection", .url, "The introspection endpoint."),
            ConfigurationKey("device_authorization", .url, "The device authorization endpoint."),
        ])
        let keys = [
            ConfigurationKey(
                "issuer",
                .url,
                required: true,
                "The provider's issuer, exactly as the provider writes it."
            ),
            ConfigurationKey(
                "endpoints",
                endpoints,
                "Explicit endpoints, in place of discovered ones or beside them. With \"authorization\", \"token\" and \"jwks\" nothing is discovered, for a provider without a metadata document."
            ),
            ConfigurationKey(
                "identity",
                .choice(OIDCProvider.IdentitySource.allCases.map(\.rawValue)),
                "Where the user's identity comes from; default: id_token. Without an ID Token the user is then unknown."
            ),
            ConfigurationKey(
                "subject_claim",
                .text,
                "The claim that identifies a user where there is no ID Token; default: sub."
            ),
        ]
        return ProviderFactory("oidc", keys: keys) { profile in
            let issuer = profile.text("issuer") ?? ""
            let source = profile.text("identity").flatMap(OIDCProvider.IdentitySource.init) ?? .idToken
            let subjectClaim = profile.text("subject_claim") ?? "sub"
            guard profile.has("endpoints") else {
                return OIDCProvider(issuer: issuer, identitySource: source, subjectClaim: subjectClaim)
            }
            let endpoints = profile.object("endpoints")
            var metadata = ProviderMetadata(
                issuer: issuer,
                authorizationEndpoint: try endpoints.endpoint("authorization"),
                tokenEndpoint: try endpoints.endpoint("token"),
                jwksURI: try endpoints.endpoint("jwks"),
                userInfoEndpoint: try endpoints.endpoint("userinfo"),
                endSessionEndpoint: try endpoints.endpoint("end_session"),
                revocationEndpoint: try endpoints.endpoint("revocation"),
                deviceAuthorizationEndpoint: try endpoints.endpoint("device_authorization")
            )
            metadata.introspectionEndpoint = try endpoints.endpoint("introspection")
            let isWhole = ["authorization", "token", "jwks"].allSatisfy(endpoints.has)
            guard isWhole else {
                return OIDCProvider(
                    issuer: issuer,
                    endpoints: metadata,
                    identitySource: source,
                    subjectClaim: subjectClaim
                )
            }
            return OIDCProvider(metadata: metadata, identitySource: source, subjectClaim: subjectClaim)
        }
    }
}
