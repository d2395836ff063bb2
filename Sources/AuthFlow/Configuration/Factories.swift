/// Makes a provider adapter from a profile. Programs list the factories of the adapters that they support.
///
/// ```swift
/// extension ProviderFactory {
///     public static var example: ProviderFactory {
///         ProviderFactory("example", keys: [ConfigurationKey("tenant", .text, required: true, "The tenant's name.")]) {
///             ExampleProvider(tenant: $0.text("tenant") ?? "")
///         }
///     }
/// }
/// ```
public struct ProviderFactory: Sendable {
    /// The name that `provider` chooses it by.
    public let name: String

    /// The keys it adds to a profile.
    public let keys: [ConfigurationKey]

    /// How a client with a secret authenticates by default.
    public let secretMethod: ClientAuthentication.Method

    /// The scopes that are requested by default.
    public let defaultScopes: [String]

    /// Checks what this provider requires of a profile's settings.
    let check: @Sendable (_ registration: ClientRegistration, _ profile: ConfigurationObject) throws -> Void

    let make: @Sendable (_ profile: ConfigurationObject) throws -> any ProviderAdapter

    /// Creates a factory.
    /// - Parameters:
    ///   - name: The name to choose it by.
    ///   - keys: The keys it adds to a profile.
    ///   - secretMethod: How a client with a secret authenticates; default: `client_secret_basic`.
    ///   - defaultScopes: The scopes that are requested when the profile names none; default: `openid`.
    ///   - check: Checks what this provider requires of a profile's settings. It throws
    ///     ``ConfigurationObject/error(_:at:)`` of the profile that it is given.
    ///   - make: Makes the adapter.
    public init(
        _ name: String,
        keys: [ConfigurationKey],
        secretMethod: ClientAuthentication.Method = .clientSecretBasic,
        defaultScopes: [String] = ["openid"],
        check: @escaping @Sendable (_ registration: ClientRegistration, _ profile: ConfigurationObject) throws -> Void =
            {
                _,
                _ in
            },
        make: @escaping @Sendable (_ profile: ConfigurationObject) throws -> any ProviderAdapter
    ) {
        self.name = name
        self.keys = keys
        self.secretMethod = secretMethod
        self.defaultScopes = defaultScopes
        self.check = check
        self.make = make
    }
}

/// Makes a token store from its options. Programs list the factories of the stores that they support.
public struct TokenStoreFactory: Sendable {
    /// The name that `store` chooses it by.
    public let name: String

    /// The options it takes.
    public let keys: [ConfigurationKey]

    let make: @Sendable (_ options: ConfigurationObject, _ host: HostServices) throws -> any TokenStore

    /// Creates a factory.
    public init(
        _ name: String,
        keys: [ConfigurationKey] = [],
        make: @escaping @Sendable (_ options: ConfigurationObject, _ host: HostServices) throws -> any TokenStore
    ) {
        self.name = name
        self.keys = keys
        self.make = make
    }
}

extension ConfigurationObject {
    /// The token store that a key names.
    /// - Throws: ``ConfigurationError``, or what making the store throws.
    public func store(_ key: String, of factories: [TokenStoreFactory], host: HostServices) throws -> any TokenStore {
        let choice = choices(key).first
        guard let factory = factories.first(where: { $0.name == choice?.name }), let choice else {
            throw error("the store is missing", at: key)
        }
        return try factory.make(choice.options, host)
    }
}

extension TokenStoreFactory {
    /// `memory`: forgotten when the process ends.
    public static var memory: TokenStoreFactory { TokenStoreFactory("memory") { _, _ in MemoryTokenStore() } }

    /// `file`: a file that only its owner can read.
    ///
    /// ## Configuration keys
    /// - `directory` (string, optional): Where the files go; default: the user's data directory.
    public static var file: TokenStoreFactory {
        TokenStoreFactory("file", keys: [directoryKey]) { options, host in
            FileTokenStore(directory: directory(options, host), clock: host.clock)
        }
    }

    /// `encrypted-file`: files that are useless without a key.
    ///
    /// ## Configuration keys
    /// - `directory` (string, optional): Where the files go; default: the user's data directory.
    /// - `key_file` (string): A file with the key, created when it is missing. Or:
    /// - `passphrase` (secret): A passphrase. Or:
    /// - `key_store` (string): `secret-service`, the system's key store. One of the three.
    public static var encryptedFile: TokenStoreFactory {
        let keys = [
            directoryKey,
            ConfigurationKey("key_file", .text, "A file with the key; created when it is missing."),
            ConfigurationKey("passphrase", .secret, "A passphrase that the key is derived from."),
            ConfigurationKey(
                "key_store",
                .choice(PlatformKeyStore.names),
                "The key store of the system, which keeps the key."
            ),
        ]
        return TokenStoreFactory("encrypted-file", keys: keys) { options, host in
            let file = FileTokenStore(directory: directory(options, host), clock: host.clock)
            switch (options.filePath("key_file"), try options.secret("passphrase"), options.text("key_store")) {
            case (let path?, nil, nil): return EncryptedTokenStore(file, key: .file(path: path), host: host)
            case (nil, let passphrase?, nil): return EncryptedTokenStore(file, key: .passphrase(passphrase), host: host)
            case (nil, nil, let name?):
                return EncryptedTokenStore(
                    file,
                    key: .store(try PlatformKeyStore.store(name, options, host)),
                    host: host
                )
            default:
                throw options.error("an encrypted store needs one of \"key_file\", \"passphrase\" and \"key_store\"")
            }
        }
    }

    private static var directoryKey: ConfigurationKey {
        ConfigurationKey(
            "directory",
            .text,
            "The directory for the files. Relative to this file; default: the user's data directory."
        )
    }

    private static func directory(_ options: ConfigurationObject, _ host: HostServices) -> String {
        options.filePath("directory") ?? FileTokenStore.defaultDirectory(environment: host.environment)
    }

    /// The stores that need only this package and the system.
    public static var standard: [TokenStoreFactory] { [.file, .memory, .encryptedFile] + PlatformKeyStore.factories }
}
