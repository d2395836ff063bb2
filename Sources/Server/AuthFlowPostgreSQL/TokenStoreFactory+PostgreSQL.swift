public import AuthFlow

extension TokenStoreFactory {
    /// `postgresql`: a PostgreSQL database, which any number of processes and machines can share.
    public static var postgreSQL: TokenStoreFactory {
        let url = ConfigurationKey(
            "url",
            required: ConfigurationValue.either(ConfigurationValue<String>.text.map(plaintextURL), .secret),
            "The database: postgresql://user@host/database, or a keyword/value string. It is a secret if it contains a password."
        )
        let password = ConfigurationKey(
            "password",
            .secret,
            "The password; default: the password in the URL, or the entry in the password file ~/.pgpass."
        )
        let schema = ConfigurationKey("schema", .text, default: "authflow", "The schema of the tables.")
        let connections = ConfigurationKey(
            "connections",
            .number(1...64),
            default: 4,
            "The maximum number of connections per process, in addition to the connection for notifications."
        )
        let unverified = ConfigurationKey(
            "allow_unverified_server",
            .flag,
            default: false,
            "Whether the URL may specify TLS without certificate verification, or no TLS. An attacker who can impersonate the database can then read every session."
        )
        let keys: [any AnyConfigurationKey] = [url, password, schema, connections, unverified]
        return TokenStoreFactory("postgresql", keys: keys) { options, host in
            try PostgreSQLTokenStore(
                url: try options[url],
                password: try options[password],
                schema: try options[schema],
                connections: try options[connections],
                allowsUnverifiedServer: try options[unverified],
                host: host
            )
        }
    }

    /// Rejects a plaintext URL that contains a password, because other users may be able to read the configuration file.
    @Sendable private static func plaintextURL(_ text: String) throws(AuthError) -> Secret {
        let authority = text.split(separator: "/", omittingEmptySubsequences: false).dropFirst(2).first ?? ""
        let user = authority.contains("@") ? authority.prefix { $0 != "@" } : ""
        guard !user.contains(":"), !text.lowercased().contains(/password\s*=/) else {
            throw AuthError(
                .invalidConfiguration,
                "The URL contains a password. Write {\"env\": \"NAME\"} or {\"file\": \"path\"} instead, or use the key \"password\"."
            )
        }
        return Secret(text)
    }
}
