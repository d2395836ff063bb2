package import AuthFlowHTTP
package import AuthFlowStorage

/// The key stores of the supported platforms, by their configuration names.
package enum PlatformKeyStore {
    package static let names = ["secret-service", "keychain"]

    /// - Throws: ``AuthError`` with `invalid_configuration` when this system has no such store.
    package static func store(
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
        default: throw AuthError(.invalidConfiguration, "This system has no key store \"\(name)\".")
        }
    }
}
