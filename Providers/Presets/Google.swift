public import AuthFlow

extension ProviderPreset {
    /// `google`: Google accounts.
    public static let google = ProviderPreset(
        "google",
        title: "Google",
        members: [
            "provider": "oidc", "issuer": "https://accounts.google.com", "scopes": ["openid", "email", "profile"],
            // Google issues a refresh token for these parameters, and not for the offline_access scope, which it does not support.
            "parameters": ["authorization": ["access_type": "offline", "prompt": "consent"]],
        ],
        registration: [
            "Create an OAuth client ID of the type \"Desktop app\" for programs and apps, or \"Web application\" for servers.",
            "A desktop app needs no redirect URI. Its client_secret is not a secret, but Google requires it: put it into \"client_secret\".",
            "The device grant needs a client of the type \"TVs and Limited Input devices\", and \"client_authentication\": \"client_secret_post\".",
        ],
        console: "https://console.cloud.google.com/apis/credentials",
        source: "https://developers.google.com/identity/protocols/oauth2/native-app"
    )
}
