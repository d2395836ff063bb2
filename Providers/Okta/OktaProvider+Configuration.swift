public import AuthFlow

extension ProviderFactory {
    /// `okta`: Okta, with native single sign-on.
    public static var okta: ProviderFactory {
        let issuer = ConfigurationKey(
            "issuer",
            required: .issuer,
            "The issuer of the org, or of a custom authorization server, which native SSO requires."
        )
        let audience = ConfigurationKey(
            "audience",
            .text,
            "The audience of the custom authorization server. Default: api://default for the server named default."
        )
        let secretType = ConfigurationKey(
            "device_secret_type",
            .choice(of: [OktaProvider.deviceSecretType, .deviceSecret]),
            default: OktaProvider.deviceSecretType,
            "The token type of a device secret."
        )
        let signOut = ConfigurationKey(
            "sign_out",
            ConfigurationValue<OktaProvider.SignOut>.choice,
            default: .allApps,
            "The extent of a sign-out."
        )
        return ProviderFactory("okta", keys: [issuer, audience, secretType, signOut]) { registration, profile in
            // "Configure Native SSO": the exchange request contains the audience of the authorization server.
            let path = try Endpoint(profile[issuer]).path
            let isCustom = path.hasPrefix("/oauth2/") && !path.hasSuffix("/oauth2/default")
            let hasAudience = try profile[audience] != nil
            guard !registration.scopes.contains("device_sso") || !isCustom || hasAudience else {
                throw profile.error(
                    "native SSO at a custom authorization server requires \"audience\": copy it from the server's settings",
                    at: issuer
                )
            }
        } make: { profile in
            OktaProvider(
                issuer: try profile[issuer],
                audience: try profile[audience],
                secretType: try profile[secretType],
                signOut: try profile[signOut]
            )
        }
    }
}
