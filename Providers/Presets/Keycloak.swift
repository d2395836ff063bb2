public import AuthFlow

extension ProviderPreset {
    /// `keycloak`: a realm of a Keycloak server.
    public static let keycloak = ProviderPreset(
        "keycloak",
        title: "Keycloak",
        parameters: [
            Parameter(
                "url",
                .url,
                "The server's URL: https://id.example.com, or with /auth for versions before 17."
            ),
            Parameter("realm", .name, "The realm."),
        ],
        members: [
            "provider": "oidc", "issuer": "{url}/realms/{realm}",
            "scopes": ["openid", "profile", "email"],
        ],
        registration: [
            "Create an OpenID Connect client without client authentication, with the standard flow, and the valid redirect URI http://127.0.0.1/* for programs.",
            "For the device grant enable \"OAuth 2.0 Device Authorization Grant\"; for a session that outlives the browser session, add offline_access to \"scopes\".",
            "A server may also let clients register themselves: authflow register.",
        ],
        source: "https://www.keycloak.org/securing-apps/oidc-layers"
    )
}
