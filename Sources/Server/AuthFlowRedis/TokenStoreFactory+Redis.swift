public import AuthFlow

extension TokenStoreFactory {
    /// `redis`: a Redis server, which any number of processes and machines share.
    public static var redis: TokenStoreFactory {
        let url = ConfigurationKey(
            "url",
            required: ConfigurationValue.either(ConfigurationValue<String>.text.map(plainAddress), .secret),
            "The server: unix:/path/of/the/socket, or redis://host:port/database. With a password in it, it is a secret."
        )
        let password = ConfigurationKey("password", .secret, "The password; default: none.")
        let prefix = ConfigurationKey("prefix", .text, default: "authflow", "What the names of all keys begin with.")
        let connections = ConfigurationKey(
            "connections",
            .number(1...64),
            default: 4,
            "The most connections of a process."
        )
        let plainText = ConfigurationKey(
            "allow_plain_text",
            .flag,
            default: false,
            "Whether another machine's server may be used without TLS: anyone in between gets every session."
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

    /// An address that stands in the file as it is, where others may read it.
    @Sendable private static func plainAddress(_ text: String) throws(AuthError) -> Secret {
        guard !text.contains("@") || text.hasPrefix("unix:") else {
            throw AuthError(
                .invalidConfiguration,
                "The URL contains a password. Write {\"env\": \"NAME\"} or {\"file\": \"path\"} instead, or use \"password\"."
            )
        }
        return Secret(text)
    }
}
