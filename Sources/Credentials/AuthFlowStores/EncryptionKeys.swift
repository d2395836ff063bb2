public import AuthFlowHTTP
import AuthFlowJSON
import AuthFlowPKCS11
import Crypto

/// The keys that encrypt the records of a shared store. Each has an ID, which is stored together with the ciphertext.
///
/// To rotate a key without downtime, append the new key to the list on every instance. Then move it to the front on
/// every instance, run ``EncryptedSessionStore/rewrap()``, and remove the old key. Keep a copy of the old key for as
/// long as you retain backups that need it.
public struct EncryptionKeys: Sendable {
    struct Named: Sendable {
        let id: String
        let key: SymmetricKey
    }

    private let keys: [Named]

    /// The key that encrypts new records.
    let current: Named

    /// Creates a list of keys.
    /// - Parameter keys: The key IDs, which are not secret, each with 32 random bytes in base64url. The first key
    ///   encrypts; every key decrypts.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the list is empty, a key is not 32 bytes long, an
    ///   ID is not 1 to 60 bytes long, or two keys have the same ID.
    public init(_ keys: [(id: String, key: Secret)]) throws(AuthError) {
        var named: [Named] = []
        for (id, key) in keys {
            guard !id.isEmpty, id.utf8.count <= 60, !named.contains(where: { $0.id.isIdentical(to: id) }) else {
                throw AuthError(.invalidConfiguration, "Each encryption key must have a unique ID of 1 to 60 bytes.")
            }
            guard let bytes = Base64URL.decode(key.exposed), bytes.count == 32 else {
                throw AuthError(
                    .invalidConfiguration,
                    "The encryption key \"\(DisplayText.sanitized(id))\" is not 32 random bytes in base64url."
                )
            }
            named.append(Named(id: id, key: SymmetricKey(data: bytes)))
        }
        guard let first = named.first else { throw AuthError(.invalidConfiguration, "An encryption key is required.") }
        self.keys = named
        self.current = first
    }

    #if os(Linux) || os(macOS)
    /// Derives an encryption key from a secret key in a PKCS #11 token, as the HMAC-SHA-256 of the key ID. Generate
    /// the secret key as non-exportable.
    ///
    /// The hardware token is needed only once, when a program starts, because the derived key remains in the
    /// program's memory. A copy of the disk and the configuration is useless without the hardware token. The call
    /// blocks the calling thread until the hardware token responds.
    /// - Parameters:
    ///   - id: The ID of the encryption key.
    ///   - uri: The URI of a secret key (RFC 7512), such as `pkcs11:token=Server;object=sessions?module-path=/usr/lib/softhsm/libsofthsm2.so`.
    ///     Without `module-path`, all modules registered with p11-kit are searched.
    ///   - pin: The PIN of the hardware token; nil if it does not require one.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the URI does not identify a secret key,
    ///   `key_unavailable` when the hardware token cannot be used.
    public static func inHardwareToken(
        id: String,
        uri: String,
        pin: Secret? = nil
    ) throws(AuthError) -> (id: String, key: Secret) {
        let text = Array("authflow encryption key \(id)".utf8)
        let code = try PKCS11Key.authenticationCode(for: text, by: PKCS11URI(uri, type: .secretKey), pin: pin)
        return (id, Secret(Base64URL.encode(code)))
    }
    #endif

    subscript(id: String) -> Named? { keys.first { $0.id.isIdentical(to: id) } }
}

extension EncryptionKeys: CustomStringConvertible, NonReflectable {
    /// The IDs of the keys.
    public var description: String { "encryption keys \(keys.map(\.id).joined(separator: ", "))" }
}
