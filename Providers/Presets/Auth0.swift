public import AuthFlow

extension ProviderPreset {
    /// `auth0`: an Auth0 tenant.
    public static let auth0 = ProviderPreset(
        "auth0",
        title: "Auth0",
        parameters: [Parameter("domain", .host, "The tenant's domain: example.eu.auth0.com, or a custom domain.")],
        members: [
            // The trailing slash is part of this issuer.
            "provider": "oidc", "issuer": "https://{domain}/",
            "scopes": ["openid", "profile", "email", "offline_access"],
            "redirect_uri": "http://127.0.0.1:8456/callback",
        ],
        registration: [
            "Create an application of the type \"Native\". Enter the Allowed Callback URL http://127.0.0.1:8456/callback: the port must match.",
            "Allow offline access in the API's settings, and the grant types Refresh Token and, for the device flow, Device Code.",
            "For an API, add {\"parameters\": {\"authorization\": {\"audience\": \"IDENTIFIER\"}}}: without an audience the access token is opaque.",
        ],
        console: "https://manage.auth0.com/",
        source:
            "https://auth0.com/docs/get-started/authentication-and-authorization-flow/authorization-code-flow-with-pkce"
    )
}
