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
                "The server's URL, such as https://id.example.com; for versions before 17, with /auth."
            ),
            Parameter("realm", .name, "The realm."),
        ],
        members: [
            "provider": "oidc", "issuer": "{url}/realms/{realm}",
            "scopes": ["openid", "profile", "email"],
        ],
        registration: [
            "Create an OpenID Connect client without client authentication, with the standard flow, and the valid redirect URI http://127.0.0.1/* for programs.",
            "For the device grant, enable \"OAuth 2.0 Device Authorization Grant\". For a session that outlives the browser session, add offline_access to \"scopes\".",
            "If the server allows dynamic client registration, run authflow register instead.",
        ],
        source: "https://www.keycloak.org/securing-apps/oidc-layers"
    )
}
