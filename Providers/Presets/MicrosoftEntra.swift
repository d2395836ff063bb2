public import AuthFlow

extension ProviderPreset {
    /// `entra`: a single Microsoft Entra ID tenant. The tenant of personal accounts is 9188040d-6c67-4c5b-b112-36a304b66dad.
    public static let microsoftEntra = ProviderPreset(
        "entra",
        title: "Microsoft Entra ID",
        parameters: [
            Parameter(
                "tenant",
                .name,
                "The tenant's ID (Directory ID): 8eaef023-2b34-4da1-9baa-8bc8c9d6a490, not its domain."
            )
        ],
        members: [
            "provider": "oidc", "issuer": "https://login.microsoftonline.com/{tenant}/v2.0",
            "scopes": ["openid", "profile", "email", "offline_access"],
            "redirect_uri": "http://localhost/callback",
            // Error AADSTS901002: a refresh request must identify its resource only by its scopes.
            "resources_on_refresh": false,
        ],
        registration: registration,
        console: console,
        source: source
    )

    /// `entra-multitenant`: users of any tenant; the issuer of their tokens is specific to the tenant.
    public static let microsoftEntraMultitenant = ProviderPreset(
        "entra-multitenant",
        title: "Microsoft Entra ID, users of any tenant",
        parameters: [
            Parameter(
                "audience",
                .choice(["organizations", "common"]),
                default: "organizations",
                "The accounts that can sign in: organizations (work and school), or common (personal accounts as well)."
            )
        ],
        members: [
            "provider": "oidc", "issuer": "https://login.microsoftonline.com/{audience}/v2.0",
            "token_issuer": ["issuer": "https://login.microsoftonline.com/{tenantid}/v2.0", "claim": "tid"],
            "scopes": ["openid", "profile", "email", "offline_access"],
            "redirect_uri": "http://localhost/callback", "resources_on_refresh": false,
        ],
        registration: registration + [
            "Users are identified by issuer and subject. Do not trust claims such as email: the tenant's administrator can set them to any value."
        ],
        console: console,
        source: "https://learn.microsoft.com/entra/identity-platform/access-tokens#multitenant-applications"
    )

    private static let registration = [
        "Register an application. Under Authentication add the platform \"Mobile and desktop applications\" with the redirect URI http://localhost/callback; any port is then accepted.",
        "Allow public client flows for a program without a secret, and for the device grant.",
        "For your own API, add its scope, such as api://CLIENT-ID/access, to \"scopes\".",
    ]
    private static let console = "https://entra.microsoft.com/#view/Microsoft_AAD_RegisteredApps/ApplicationsListBlade"
    private static let source = "https://learn.microsoft.com/entra/identity-platform/v2-protocols-oidc"
}
