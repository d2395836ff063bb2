public import AuthFlow

extension ProviderPreset {
    /// `cloudentity`: a Cloudentity workspace.
    public static let cloudentity = ProviderPreset(
        "cloudentity",
        title: "Cloudentity",
        parameters: [
            Parameter("tenant", .name, "The tenant's ID."), Parameter("workspace", .name, "The workspace's ID."),
            Parameter("region", .name, default: "eu", "The region of the tenant: eu, us, au."),
        ],
        members: [
            "provider": "oidc", "issuer": "https://{tenant}.{region}.authz.cloudentity.io/{tenant}/{workspace}",
            "scopes": ["openid", "profile", "email"],
            "redirect_uri": "http://127.0.0.1:8456/callback",
        ],
        registration: [
            "Create an application of the type \"Single Page\" or \"Mobile / Desktop\" with the redirect URI http://127.0.0.1:8456/callback and the token endpoint authentication method none."
        ],
        source: "https://cloudentity.com/developers/howtos/auth-settings/pkce/"
    )
}
