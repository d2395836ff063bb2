public import AuthFlow

extension TokenStoreFactory {
    /// `redis`: a Redis server, which any number of processes and machines can share.
    public static var redis: TokenStoreFactory {
        let url = ConfigurationKey(
            "url",
            required: ConfigurationValue.either(ConfigurationValue<String>.text.map(plaintextURL), .secret),
            "The server: unix:/path/to/the/socket, or redis://host:port/database. It is a secret if it contains a password."
        )
        let password = ConfigurationKey("password", .secret, "The password; default: the password in the URL, if any.")
        let prefix = ConfigurationKey("prefix", .text, default: "authflow", "The prefix of all keys.")
        let connections = ConfigurationKey(
            "connections",
            .number(1...64),
            default: 4,
            "The maximum number of connections per process, in addition to the connection for notifications."
        )
        let plainText = ConfigurationKey(
            "allow_plain_text",
            .flag,
            default: false,
            "Whether a remote server may be used without TLS. Any attacker on the network can then read every session."
        )
        let keys: [any AnyConfigurationKey] = [url, password, prefix, connections, plainText]
        return TokenStoreFactory("redis", keys: keys) { options, host in
            try RedisTokenStore(
                url: try options[url],
                password: try options[password],
                prefix: try options[prefix],
                connections: try options[connections],
                allowsPlainText: try options[plainText],
                host: host
            )
        }
    }

    /// Rejects a plaintext URL that contains a password, because other users may be able to read the configuration file.
    @Sendable private static func plaintextURL(_ text: String) throws(AuthError) -> Secret {
        // redis://user@host has no password.
        let start = text.firstRange(of: "://")?.upperBound ?? text.startIndex
        let user = text[start...].lastIndex(of: "@").map { text[start..<$0] } ?? ""
        guard !user.contains(":") || text.hasPrefix("unix:") else {
            throw AuthError(
                .invalidConfiguration,
                "The URL contains a password. Write {\"env\": \"NAME\"} or {\"file\": \"path\"} instead, or use the key \"password\"."
            )
        }
        return Secret(text)
    }
}
