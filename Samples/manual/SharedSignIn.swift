import AuthFlow
import AuthFlowLoopback
import AuthFlowOkta

// The listing about single sign-on from the article "Migrating from another library".

func clientOfAnAppGroup() throws -> AuthClient {
    let client = try AuthClient(
        OktaProvider(issuer: "https://example.okta.com/oauth2/default"),
        clientID: "0oaexamplemail",
        scopes: ["openid", "profile", "device_sso", "offline_access"],
        userAgents: [LoopbackUserAgent()],
        store: FileTokenStore(application: "mail"),
        sharedCredentials: SharedCredentialStore(group: "acme", store: FileTokenStore(application: "acme"))
    )
    return client
}
