public import AuthFlow

extension ProviderPreset {
    /// `forgerock`: a realm of ForgeRock Access Management (PingAM).
    public static let forgeRock = ProviderPreset(
        "forgerock",
        title: "ForgeRock (PingAM)",
        parameters: [
            Parameter("url", .url, "The server's URL with its context path, such as https://id.example.com/am."),
            Parameter("realm", .name, default: "alpha", "The realm."),
        ],
        members: [
            "provider": "forgerock", "base_url": "{url}", "realm": "/{realm}",
            "scopes": ["openid", "profile", "email"],
            "redirect_uri": "http://127.0.0.1:8458/callback",
        ],
        registration: [
            "Create a public OAuth 2.0 client in the realm, with the redirect URI http://127.0.0.1:8458/callback and the scopes openid, profile and email.",
            "For a custom tree, add \"acr_values\" to the profile.",
        ],
        source: "https://docs.pingidentity.com/pingam/latest/oauth2-guide/oauth2-register-client.html"
    )
}
