/// The key stores of the systems, by the names that configurations use.
enum PlatformKeyStore {
    static let names = ["secret-service", "keychain"]

    static var factories: [TokenStoreFactory] {
        names.map { name in
            TokenStoreFactory(name) { _, host in try store(name, host) }
        }
    }

    /// - Throws: ``AuthError`` with `invalid_configuration` when this system has no such store.
    static func store(_ name: String, _ host: HostServices) throws(AuthError) -> any TokenStore {
        switch name {
        #if canImport(Glibc)
        case "secret-service": return SecretServiceTokenStore(host: host)
        #endif
        #if canImport(Security)
        case "keychain": return KeychainTokenStore(host: host)
        #endif
        default:
            throw AuthError(.invalidConfiguration, "This system has no key store \"\(name)\".")
        }
    }
}
