public import AuthFlow

extension ProviderPreset {
    /// `pingone`: a PingOne environment.
    public static let pingOne = ProviderPreset(
        "pingone",
        title: "PingOne",
        parameters: [
            Parameter("environment", .name, "The environment's ID."),
            Parameter(
                "region",
                .host,
                default: "auth.pingone.com",
                "The host for the environment's region: auth.pingone.eu, auth.pingone.ca, auth.pingone.asia."
            ),
        ],
        members: [
            "provider": "oidc", "issuer": "https://{region}/{environment}/as",
            "scopes": ["openid", "profile", "email"],
            "redirect_uri": "http://127.0.0.1:8456/callback",
        ],
        registration: [
            "Add an application of the type \"Native\" with the grant type Authorization Code, PKCE enforcement S256_REQUIRED, the token endpoint authentication method None, and the redirect URI http://127.0.0.1:8456/callback.",
            "Allow the grant type Refresh Token, so that tokens can be refreshed.",
        ],
        console: "https://console.pingone.com/",
        source: "https://apidocs.pingidentity.com/pingone/platform/v1/api/#openid-connectoauth-2"
    )
}
