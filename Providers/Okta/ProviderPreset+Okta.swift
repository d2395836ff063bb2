public import AuthFlow

extension ProviderPreset {
    /// `okta`: a custom authorization server of an Okta org.
    public static let okta = ProviderPreset(
        "okta",
        title: "Okta",
        parameters: [
            Parameter("domain", .host, "The domain of the org, such as example.okta.com."),
            Parameter("server", .name, default: "default", "The identifier of the authorization server."),
        ],
        members: [
            "provider": "okta", "issuer": "https://{domain}/oauth2/{server}",
            "scopes": ["openid", "profile", "email", "offline_access"],
            "redirect_uri": "http://127.0.0.1:8457/callback",
        ],
        registration: [
            "Create a native app with the grants Authorization Code and Refresh Token, and the redirect URI http://127.0.0.1:8457/callback.",
            "For single sign-on across several apps, add \"device_sso\" to \"scopes\", and \"shared\" to the profile.",
        ],
        source: "https://developer.okta.com/docs/guides/sign-into-web-app-redirect/"
    )
}
