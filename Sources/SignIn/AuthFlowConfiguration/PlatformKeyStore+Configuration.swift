import AuthFlowStores

extension PlatformKeyStore {
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
            "Whether iCloud syncs the credential to the user's other devices; if so, a single device cannot be signed out separately."
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
}
