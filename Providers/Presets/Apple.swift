public import AuthFlow

extension ProviderPreset {
    /// `apple`: Sign in with Apple, for web applications. Apps on Apple platforms use the system's sign-in sheet.
    public static let apple = ProviderPreset(
        "apple",
        title: "Apple",
        members: [
            "provider": "oidc", "issuer": "https://appleid.apple.com", "scopes": ["openid", "email", "name"],
            // Apple requires form_post for the name and email scopes.
            "response_mode": "form_post", "client_authentication": "client_secret_post",
        ],
        registration: [
            "Create a Services ID, which is the client_id, with the domain and the return URL of the application. Apple does not accept loopback URLs.",
            "Create a key for it, and store the key in a file that other users cannot read: {\"client_key\": {\"file\": \"AuthKey.p8\", \"kid\": \"the key's ID\"}, \"client_secret_issuer\": \"the team's ID\"}. The client secret, a JWT, is then created for each request.",
        ],
        console: "https://developer.apple.com/account/resources/identifiers/list/serviceId",
        source: "https://developer.apple.com/documentation/signinwithapplerestapi"
    )
}
