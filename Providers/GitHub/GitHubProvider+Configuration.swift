public import AuthFlow

extension ProviderFactory {
    /// `github`: GitHub, wherever it lives.
    ///
    /// ## Configuration keys
    /// - `host` (string, optional): The host; `github.com` unless given.
    /// - `login` (string, optional): The account to suggest.
    /// - `allow_signup` (boolean, optional): Whether the page offers to make an account.
    /// - `prompt` (`select_account`, optional): Whether the person always chooses the account.
    /// - `sign_out` (`token` or `grant`, optional): What signing out withdraws; the token unless given.
    public static var gitHub: ProviderFactory {
        let keys = [
            ConfigurationKey(
                "host",
                .text,
                "github.com unless given, NAME.ghe.com, or the host of an Enterprise Server."
            ),
            ConfigurationKey("login", .text, "The account to suggest."),
            ConfigurationKey("allow_signup", .flag, "Whether the page offers to make an account."),
            ConfigurationKey("prompt", .choice(["select_account"]), "Has the person always choose the account."),
            ConfigurationKey(
                "sign_out",
                .choice(GitHubProvider.SignOut.allCases.map(\.rawValue)),
                "What signing out withdraws: the token (unless given), or everything granted to the app."
            ),
        ]
        // The documentation asks for the secret among the parameters.
        return ProviderFactory("github", keys: keys, secretMethod: .clientSecretPost) { profile in
            GitHubProvider(
                host: try profile.text("host").map { name in
                    try profile.located("host") { () throws(AuthError) in try GitHubHost(name) }
                } ?? .dotCom,
                login: profile.text("login"),
                allowsSignUp: profile.flag("allow_signup"),
                selectsAccount: profile.has("prompt"),
                signOut: profile.text("sign_out").flatMap(GitHubProvider.SignOut.init) ?? .token
            )
        }
    }
}
