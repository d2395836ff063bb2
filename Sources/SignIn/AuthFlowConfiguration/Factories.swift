public import AuthFlowOAuth
public import AuthFlowStorage
import AuthFlowStores

/// Creates a provider adapter from a profile. A program lists the factories for the adapters that it supports.
///
/// ```swift
/// extension ProviderFactory {
///     static var example: ProviderFactory {
///         let tenant = ConfigurationKey("tenant", required: .text, "The tenant's name.")
///         return ProviderFactory("example", keys: [tenant]) { profile in
///             TenantProvider(tenant: try profile[tenant])
///         }
///     }
/// }
/// ```
public struct ProviderFactory: Sendable {
    /// The value of `provider` that selects the adapter.
    package let name: String

    /// The keys that the adapter adds to a profile.
    let keys: [ConfigurationKeyDeclaration]

    /// The default authentication method of a client with a secret.
    package let secretMethod: ClientAuthentication.Method?

    /// The scopes that are requested by default.
    package let defaultScopes: [String]

    /// Checks this provider's requirements for the settings of a profile.
    let check: @Sendable (_ registration: ClientRegistration, _ profile: ConfigurationObject) throws -> Void

    let make: @Sendable (_ profile: ConfigurationObject) throws -> any ProviderAdapter

    /// Creates a factory.
    /// - Parameters:
    ///   - name: The value of `provider` that selects the adapter.
    ///   - keys: The keys that the adapter adds to a profile.
    ///   - secretMethod: The authentication method of a client with a secret; default: nil, to choose between
    ///     `client_secret_basic` and `client_secret_post` according to the provider's metadata.
    ///   - defaultScopes: The scopes that are requested when the profile lists none; default: `openid`.
    ///   - check: Checks this provider's requirements for the settings of a profile. To reject the profile, it throws the
    ///     profile's ``ConfigurationObject/error(_:at:)``.
    ///   - make: Creates the adapter.
    public init(
        _ name: String,
        keys: [any AnyConfigurationKey],
        secretMethod: ClientAuthentication.Method? = nil,
        defaultScopes: [String] = ["openid"],
        check: @escaping @Sendable (_ registration: ClientRegistration, _ profile: ConfigurationObject) throws -> Void =
            {
                _,
                _ in
            },
        make: @escaping @Sendable (_ profile: ConfigurationObject) throws -> any ProviderAdapter
    ) {
        self.name = name
        self.keys = keys.map(\.declaration)
        self.secretMethod = secretMethod
        self.defaultScopes = defaultScopes
        self.check = check
        self.make = make
    }
}

/// Creates a token store from its options. A program lists the factories for the stores that it supports.
public struct TokenStoreFactory: Sendable {
    /// The value of `store` that selects the store.
    package let name: String

    /// The keys of the store's options.
    let keys: [ConfigurationKeyDeclaration]

    let make: @Sendable (_ options: ConfigurationObject, _ host: HostServices) throws -> any TokenStore

    /// Creates a factory.
    public init(
        _ name: String,
        keys: [any AnyConfigurationKey] = [],
        make: @escaping @Sendable (_ options: ConfigurationObject, _ host: HostServices) throws -> any TokenStore
    ) {
        self.name = name
        self.keys = keys.map(\.declaration) + [Self.encryptionKeys.declaration]
        self.make = { options, host in
            let store = try make(options, host)
            guard let keys = try options[Self.encryptionKeys] else { return store }
            if let sessions = store as? any SessionTokenStore {
                return EncryptedSessionStore(sessions, keys: keys, host: host)
            }
            return EncryptedTokenStore(store, key: .keys(keys), host: host)
        }
    }
}

extension TokenStoreFactory {
    private static let keyName = ConfigurationKey("id", required: .text, "The key ID, which is not secret.")
    private static let keyValue = ConfigurationKey("key", .secret, "32 random bytes in base64url.")
    private static let keyInToken = ConfigurationKey(
        "pkcs11",
        .text,
        "Instead of \"key\": the URI of a secret key in a PKCS #11 token (RFC 7512), such as pkcs11:token=Server;object=sessions. The encryption key is derived from the secret key and the id."
    )
    private static let keyPIN = ConfigurationKey("pin", .secret, "The PIN of the PKCS #11 token, by reference.")

    /// A key of every store's options.
    static let encryptionKeys = ConfigurationKey(
        "encryption_keys",
        ConfigurationValue<[NamedKey]>.list(
            .object([keyName, keyValue, keyInToken, keyPIN]) { object throws(ConfigurationError) in
                try namedKey(object)
            }
        ).map { keys throws(AuthError) in try EncryptionKeys(keys.map { ($0.id, $0.key) }) },
        "The keys for stored data: the first key encrypts, and every key can decrypt. Default: none; only the store's own protection then applies."
    )

    struct NamedKey: Sendable {
        let id: String
        let key: Secret
    }

    private static func namedKey(_ object: ConfigurationObject) throws(ConfigurationError) -> NamedKey {
        let id = try object[keyName]
        switch (try object[keyValue], try object[keyInToken]) {
        case (let key?, nil): return NamedKey(id: id, key: key)
        case (nil, let uri?):
            #if os(Linux) || os(macOS)
            let pin = try object[keyPIN]
            let made = try object.located(keyInToken) { () throws(AuthError) in
                try EncryptionKeys.inHardwareToken(id: id, uri: uri, pin: pin)
            }
            return NamedKey(id: made.id, key: made.key)
            #else
            throw object.error("PKCS #11 tokens are not supported on this system", at: keyInToken)
            #endif
        default: throw object.error("an encryption key needs either \"key\" or \"pkcs11\"")
        }
    }

    /// `memory`: a store in memory, which is lost when the process exits.
    public static var memory: TokenStoreFactory { TokenStoreFactory("memory") { _, _ in MemoryTokenStore() } }

    /// `file`: a file that only its owner can read.
    public static var file: TokenStoreFactory {
        TokenStoreFactory("file", keys: [directory]) { options, host in
            FileTokenStore(directory: try directory(options, host), clock: host.clock)
        }
    }

    /// `encrypted-file`: files encrypted with a key from `key_file`, `passphrase` or `key_store`.
    public static var encryptedFile: TokenStoreFactory {
        let keyFile = ConfigurationKey(
            "key_file",
            .path,
            "The key file, which is created if it is missing. Store it on another disk; otherwise, the encryption provides no protection."
        )
        let passphrase = ConfigurationKey(
            "passphrase",
            .secret,
            "The passphrase from which scrypt derives the key."
        )
        let keyStore = ConfigurationKey(
            "key_store",
            .choice(PlatformKeyStore.names),
            "The system key store that holds the key."
        )
        let keys: [any AnyConfigurationKey] = [directory, keyFile, passphrase, keyStore]
        return TokenStoreFactory("encrypted-file", keys: keys) { options, host in
            let file = FileTokenStore(directory: try directory(options, host), clock: host.clock)
            let key: EncryptedTokenStore.KeySource
            switch (try options[keyFile], try options[passphrase], try options[keyStore]) {
            case (let path?, nil, nil): key = .file(path: path)
            case (nil, let passphrase?, nil): key = .passphrase(passphrase)
            case (nil, nil, let name?): key = .store(try PlatformKeyStore.store(name, host))
            default:
                throw options.error(
                    "an encrypted store needs exactly one of \"key_file\", \"passphrase\" and \"key_store\""
                )
            }
            return EncryptedTokenStore(file, key: key, host: host)
        }
    }

    private static let directory = ConfigurationKey(
        "directory",
        .path,
        "The directory for the files, one for each client, with mode 0600. Default: the user's data directory."
    )

    private static func directory(
        _ options: ConfigurationObject,
        _ host: HostServices
    ) throws(ConfigurationError) -> String {
        try options[directory] ?? FileTokenStore.defaultDirectory(for: "authflow", environment: host.environment)
    }

    /// The stores that depend only on this package and the operating system.
    public static var standard: [TokenStoreFactory] { [.file, .memory, .encryptedFile] + PlatformKeyStore.factories }
}
