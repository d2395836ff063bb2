public import AuthFlow

extension ProviderPreset {
    /// `huggingface`: accounts of the Hugging Face Hub.
    public static let huggingFace = ProviderPreset(
        "huggingface",
        title: "Hugging Face",
        members: [
            "provider": "oidc", "issuer": "https://huggingface.co", "scopes": ["openid", "profile"],
            "redirect_uri": "http://127.0.0.1:8456/callback",
        ],
        registration: [
            "Create a connected app (a public app for a program without a secret) with the redirect URL http://127.0.0.1:8456/callback.",
            "For the Hub's API, add read-repos, write-repos or inference-api to the app and to \"scopes\".",
        ],
        console: "https://huggingface.co/settings/applications/new",
        source: "https://huggingface.co/docs/hub/oauth"
    )
}
