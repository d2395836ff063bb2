public import AuthFlow

extension ProviderPreset {
    /// `gitlab`: gitlab.com, or a self-managed server.
    public static let gitLab = ProviderPreset(
        "gitlab",
        title: "GitLab",
        parameters: [Parameter("host", .host, default: "gitlab.com", "The host of a self-managed server.")],
        members: [
            "provider": "oidc", "issuer": "https://{host}", "scopes": ["openid", "profile", "email"],
            "redirect_uri": "http://127.0.0.1:8456/callback",
        ],
        registration: [
            "Add a non-confidential application with the redirect URI http://127.0.0.1:8456/callback and the scopes openid, profile and email.",
            "For Git and the API, add read_repository, write_repository, read_api or api to the application and to \"scopes\".",
        ],
        console: "https://gitlab.com/-/user_settings/applications",
        source: "https://docs.gitlab.com/api/oauth2/"
    )
}
