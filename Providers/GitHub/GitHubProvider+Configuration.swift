public import AuthFlow

extension ProviderFactory {
    /// `github`: any GitHub instance. No scopes are requested by default: `scopes` is what an app needs.
    ///
    /// ## Configuration keys
    /// - `host` (string, optional): The host; default: `github.com`.
    /// - `sign_out` (`token` or `grant`, optional): What signing out revokes; default: the token.
    ///
    /// `login`, `allow_signup` and `prompt` are parameters of authorization requests, which every provider has a key for.
    public static var gitHub: ProviderFactory {
        let keys = [
            ConfigurationKey("host", .text, "NAME.ghe.com, or the host of an Enterprise Server; default: github.com."),
            ConfigurationKey(
                "sign_out",
                .choice(GitHubProvider.SignOut.allCases.map(\.rawValue)),
                "What signing out revokes: everything granted to the app, or the token, which is the default."
            ),
        ]
        // The documentation asks for the secret as a parameter of the body.
        return ProviderFactory("github", keys: keys, secretMethod: .clientSecretPost, defaultScopes: []) {
            registration,
            profile in
            // "Authorizing OAuth apps": client_secret is required to exchange a code, and not in the device flow.
            if profile.signInFlows.contains(.authorizationCode), registration.authentication.method == .none {
                throw profile.error(
                    "GitHub requires a \"client_secret\" with the flow \"authorization_code\"; the flow \"device\" needs none",
                    at: "flow"
                )
            }
            // GitHub has no OpenID Connect for users: it leaves the scope out, and sends no ID Token.
            if registration.scopes.contains("openid") {
                throw profile.error("GitHub has no OpenID Connect for users: leave out \"openid\"", at: "scopes")
            }
        } make: { profile in
            GitHubProvider(
                host: try profile.text("host").map { name in
                    try profile.located("host") { () throws(AuthError) in try GitHubHost(name) }
                } ?? .dotCom,
                signOut: profile.text("sign_out").flatMap(GitHubProvider.SignOut.init) ?? .token
            )
        }
    }
}
