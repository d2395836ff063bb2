/// The key stores of the systems, by the names that configurations use.
enum PlatformKeyStore {
    static let names = ["secret-service", "keychain"]

    static var factories: [TokenStoreFactory] {
        let accessGroup = ConfigurationKey(
            "access_group",
            .text,
            "The keychain access group that several apps of one team share."
        )
        let isSynchronizable = ConfigurationKey(
            "synchronizable_to_all_devices",
            .flag,
            default: false,
            "Whether iCloud carries it to the user's other devices; one of them can then not be signed out alone."
        )
        return [
            TokenStoreFactory("secret-service") { _, host in try store("secret-service", host) },
            TokenStoreFactory("keychain", keys: [accessGroup, isSynchronizable]) { options, host in
                try store(
                    "keychain",
                    host,
                    accessGroup: try options[accessGroup],
                    isSynchronizable: try options[isSynchronizable]
                )
            },
        ]
    }

    /// - Throws: ``AuthError`` with `invalid_configuration` when this system has no such store.
    static func store(
        _ name: String,
        _ host: HostServices,
        accessGroup: String? = nil,
        isSynchronizable: Bool = false
    ) throws(AuthError) -> any TokenStore {
        switch name {
        #if canImport(Glibc)
        case "secret-service": return SecretServiceTokenStore(host: host)
        #endif
        #if canImport(Security)
        case "keychain":
            return KeychainTokenStore(accessGroup: accessGroup, isSynchronizable: isSynchronizable, host: host)
        #endif
        default:
            throw AuthError(.invalidConfiguration, "This system has no key store \"\(name)\".")
        }
    }
}
