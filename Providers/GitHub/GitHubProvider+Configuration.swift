public import AuthFlow

extension ProviderFactory {
    /// `github`: any GitHub instance. No scopes are requested by default; list the required scopes in `scopes`.
    public static var gitHub: ProviderFactory {
        let host = ConfigurationKey(
            "host",
            .parsed { text throws(AuthError) in try GitHubHost(text) },
            "NAME.ghe.com, the host of an Enterprise Server, or a URL such as https://git.example.com:8443; api.github.com and gist.github.com are treated as github.com. Default: github.com."
        )
        let signOut = ConfigurationKey(
            "sign_out",
            ConfigurationValue<GitHubProvider.SignOut>.choice,
            default: .token,
            "The tokens that a sign-out revokes: the current token, or the user's whole grant to the app, on every device."
        )
        // The documentation specifies that the secret is a parameter in the request body.
        return ProviderFactory(
            "github",
            keys: [host, signOut],
            secretMethod: .clientSecretPost,
            defaultScopes: []
        ) { registration, profile in
            // "Authorizing OAuth apps": client_secret is required to exchange a code, but not in the device flow.
            if try profile[ProfileKeys.flow].contains(.authorizationCode), registration.authentication.method == .none {
                throw profile.error(
                    "GitHub requires a \"client_secret\" for the \"authorization_code\" flow, but not for the \"device\" flow",
                    at: ProfileKeys.flow
                )
            }
            // GitHub does not support OpenID Connect for users: it ignores the `openid` scope, and issues no ID Token.
            if registration.scopes.contains("openid") {
                throw profile.error(
                    "GitHub does not support OpenID Connect for users: omit \"openid\"",
                    at: ProfileKeys.scopes
                )
            }
        } make: { profile in
            GitHubProvider(host: try profile[host] ?? .dotCom, signOut: try profile[signOut])
        }
    }
}
