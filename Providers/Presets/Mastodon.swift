public import AuthFlow

extension ProviderPreset {
    /// `mastodon`: a Mastodon server, which supports OAuth 2.0 without OpenID Connect. Clients are registered with each
    /// server separately.
    public static let mastodon = ProviderPreset(
        "mastodon",
        title: "Mastodon",
        parameters: [Parameter("host", .host, "The server: mastodon.social.")],
        members: [
            "provider": "oidc", "issuer": "https://{host}/", "scopes": ["profile", "read"],
            "endpoints": ["userinfo": "https://{host}/oauth/userinfo"], "identity": "userinfo",
            "redirect_uri": "http://127.0.0.1:8456/callback",
        ],
        registration: [
            "Create an application under Preferences, Development, with the redirect URI http://127.0.0.1:8456/callback, and set \"client_id\" to its client key, and \"client_secret\" to a reference to its client secret, such as {\"file\": \"secret.txt\"}. Programs can use POST /api/v1/apps instead.",
            "The userinfo endpoint requires Mastodon 4.4 or later; PKCE requires Mastodon 4.3 or later.",
        ],
        source: "https://docs.joinmastodon.org/spec/oauth/"
    )
}
