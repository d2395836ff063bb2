public import AuthFlow

extension ProviderPreset {
    /// `github`: github.com, with a code to enter there, which needs no secret.
    public static let gitHub = ProviderPreset(
        "github",
        title: "GitHub",
        members: ["provider": "github", "flow": "device"],
        registration: [
            "Add an OAuth app with the callback URL http://127.0.0.1/callback, and tick \"Enable Device Flow\".",
            "For another server add its \"host\" to the profile; for what the app needs, \"scopes\".",
        ],
        console: "https://github.com/settings/developers",
        source: "https://docs.github.com/en/apps/oauth-apps/building-oauth-apps/authorizing-oauth-apps"
    )
}
