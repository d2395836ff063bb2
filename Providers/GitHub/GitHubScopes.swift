/// The scopes of OAuth Apps. A scope can imply others: GitHub omits implied scopes from its responses, and users may
/// deselect scopes ("Scopes for OAuth apps").
public enum GitHubScopes {
    /// The scopes that each scope implies directly.
    private static let implied: [String: [String]] = [
        "repo": ["repo:status", "repo_deployment", "public_repo", "repo:invite", "security_events"],
        "user": ["read:user", "user:email", "user:follow"],
        "admin:org": ["write:org"], "write:org": ["read:org"],
        "admin:repo_hook": ["write:repo_hook"], "write:repo_hook": ["read:repo_hook"],
        "admin:public_key": ["write:public_key"], "write:public_key": ["read:public_key"],
        "admin:gpg_key": ["write:gpg_key"], "write:gpg_key": ["read:gpg_key"],
        "admin:enterprise": ["manage_runners:enterprise", "manage_billing:enterprise", "read:enterprise"],
        "project": ["read:project"],
    ]

    /// Whether a token's scopes cover a scope.
    /// - Parameters:
    ///   - scope: The required scope.
    ///   - granted: The scopes of the token. Tokens of GitHub Apps have no scopes, and their permissions cannot be determined from the token.
    public static func covers(_ scope: String, granted: [String]) -> Bool {
        granted.contains { $0 == scope || covers(scope, granted: implied[$0] ?? []) }
    }
}
