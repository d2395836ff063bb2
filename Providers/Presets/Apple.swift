public import AuthFlow

extension ProviderPreset {
    /// `apple`: Sign in with Apple, for web applications. Apps on Apple's systems use the system's own sheet.
    public static let apple = ProviderPreset(
        "apple",
        title: "Apple",
        members: [
            "provider": "oidc", "issuer": "https://appleid.apple.com", "scopes": ["openid", "email", "name"],
            // Apple demands it for the scopes name and email.
            "response_mode": "form_post", "client_authentication": "client_secret_post",
        ],
        registration: [
            "Create a Services ID, which is the client_id, with the domain and the return URL of the application. Apple takes no address of this machine.",
            "The client_secret is a JWT that lasts six months at most: signed by ES256 with a key of the team, iss the team's ID, sub the client_id, aud https://appleid.apple.com. Keep it in a file that is renewed in time: {\"client_secret\": {\"file\": ...}}.",
        ],
        console: "https://developer.apple.com/account/resources/identifiers/list/serviceId",
        source: "https://developer.apple.com/documentation/signinwithapplerestapi"
    )
}
