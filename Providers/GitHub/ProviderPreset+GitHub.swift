public import AuthFlow

extension ProviderPreset {
    /// `github`: github.com with the device flow, which needs no secret.
    public static let gitHub = ProviderPreset(
        "github",
        title: "GitHub",
        members: ["provider": "github", "flow": "device"],
        registration: [
            "Add an OAuth app with the callback URL http://127.0.0.1/callback, and select \"Enable Device Flow\".",
            "For another server, add its \"host\" to the profile; add \"scopes\" for the scopes that the app needs.",
        ],
        console: "https://github.com/settings/developers",
        source: "https://docs.github.com/en/apps/oauth-apps/building-oauth-apps/authorizing-oauth-apps"
    )
}
