public import AuthFlow

extension ProviderPreset {
    /// `cognito`: an Amazon Cognito user pool.
    public static let amazonCognito = ProviderPreset(
        "cognito",
        title: "Amazon Cognito",
        parameters: [
            Parameter("region", .name, "The region: eu-central-1."),
            Parameter("pool", .name, "The user pool's ID: eu-central-1_AbCdEfGhI."),
        ],
        members: [
            "provider": "oidc", "issuer": "https://cognito-idp.{region}.amazonaws.com/{pool}",
            "scopes": ["openid", "profile", "email"], "redirect_uri": "http://localhost:8456/callback",
        ],
        registration: [
            "Create an app client without a secret, with the grant Authorization code, and the callback URL http://localhost:8456/callback. The user pool needs a domain.",
            "Cognito supports neither the device grant nor OpenID Connect RP-Initiated Logout.",
        ],
        console: "https://console.aws.amazon.com/cognito/v2/idp/user-pools",
        source: "https://docs.aws.amazon.com/cognito/latest/developerguide/federation-endpoints.html"
    )
}
