/// The key stores of the systems, by the names that configurations use.
enum PlatformKeyStore {
    static let names = ["secret-service", "keychain"]

    /// ## Configuration keys of `keychain`
    /// - `access_group` (string, optional): The keychain access group that several apps of one team share.
    /// - `synchronizable_to_all_devices` (boolean, optional): Whether iCloud carries it to the user's other devices. One of them
    ///   can then not be signed out alone.
    static var factories: [TokenStoreFactory] {
        let keychainKeys = [
            ConfigurationKey("access_group", .text, "The keychain access group that several apps of one team share."),
            ConfigurationKey(
                "synchronizable_to_all_devices",
                .flag,
                "Whether iCloud carries it to the user's other devices; one of them can then not be signed out alone."
            ),
        ]
        return names.map { name in
            TokenStoreFactory(name, keys: name == "keychain" ? keychainKeys : []) { options, host in
                try store(name, options, host)
            }
        }
    }

    /// - Throws: ``AuthError`` with `invalid_configuration` when this system has no such store.
    static func store(
        _ name: String,
        _ options: ConfigurationObject,
        _ host: HostServices
    ) throws(AuthError) -> any TokenStore {
        switch name {
        #if canImport(Glibc)
        case "secret-service": return SecretServiceTokenStore(host: host)
        #endif
        #if canImport(Security)
        case "keychain":
            return KeychainTokenStore(
                accessGroup: options.text("access_group"),
                isSynchronizable: options.flag("synchronizable_to_all_devices") ?? false,
                host: host
            )
        #endif
        default:
            throw AuthError(.invalidConfiguration, "This system has no key store \"\(name)\".")
        }
    }
}
