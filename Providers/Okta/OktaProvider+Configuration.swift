public import AuthFlow

extension ProviderFactory {
    /// `okta`: Okta, with native single sign-on.
    ///
    /// ## Configuration keys
    /// - `issuer` (URL, required): The issuer of the org or of a custom authorization server.
    /// - `audience` (string, optional): The audience of a custom authorization server, for native SSO; `api://default` for the
    ///   one named `default`.
    /// - `device_secret_type` (string, optional): The token type of a device secret; default: Okta's.
    /// - `sign_out` (string, optional): What signing out ends; default: the sign-in of every app.
    public static var okta: ProviderFactory {
        let keys = [
            ConfigurationKey(
                "issuer",
                .url,
                required: true,
                "The issuer of the org or of a custom authorization server."
            ),
            ConfigurationKey(
                "audience",
                .text,
                "The audience of a custom authorization server, for native SSO; api://default for the one named default."
            ),
            ConfigurationKey(
                "device_secret_type",
                .choice([OktaProvider.deviceSecretType, .deviceSecret].map(\.rawValue)),
                "The token type of a device secret; default: Okta's."
            ),
            ConfigurationKey(
                "sign_out",
                .choice(OktaProvider.SignOut.allCases.map(\.rawValue)),
                "What signing out ends; default: the sign-in of every app."
            ),
        ]
        return ProviderFactory("okta", keys: keys) { registration, profile in
            // "Configure Native SSO": the exchange names the audience of the authorization server.
            let path = try profile.endpoint("issuer")?.path ?? ""
            let isCustom = path.hasPrefix("/oauth2/") && !path.hasSuffix("/oauth2/default")
            guard !registration.scopes.contains("device_sso") || !isCustom || profile.has("audience") else {
                throw profile.error(
                    "native SSO at a custom authorization server needs its \"audience\", as the server's settings name it",
                    at: "issuer"
                )
            }
        } make: { profile in
            let issuer = profile.text("issuer") ?? ""
            let known = issuer.hasSuffix("/oauth2/default") ? "api://default" : nil
            return OktaProvider(
                issuer: issuer,
                audience: profile.text("audience") ?? known,
                secretType: profile.text("device_secret_type").map(TokenExchange.TokenType.init)
                    ?? OktaProvider.deviceSecretType,
                signOut: profile.text("sign_out").flatMap(OktaProvider.SignOut.init) ?? .allApps
            )
        }
    }
}
