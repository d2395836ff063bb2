public import AuthFlowHTTP
import AuthFlowJSON
import AuthFlowPKCS11
import Crypto

/// The keys that encrypt the records of a shared store. Each has an ID, which is stored together with the ciphertext.
///
/// To rotate a key while processes run: append the new key to the list on every instance; then move it to the front on every instance; then
/// run ``EncryptedSessionStore/rewrap()``; then remove the old key. Backups need the old key for as long as they are retained.
public struct EncryptionKeys: Sendable {
    struct Named: Sendable {
        let id: String
        let key: SymmetricKey
    }

    private let keys: [Named]

    /// The key that encrypts new records.
    let current: Named

    /// Creates a list of keys.
    /// - Parameter keys: The key IDs, which are not secret, and 32 random bytes each in base64url. The first encrypts, all decrypt.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the list is empty, a key does not have 32 bytes, or two keys have one ID.
    public init(_ keys: [(id: String, key: Secret)]) throws(AuthError) {
        var named: [Named] = []
        for (id, key) in keys {
            guard !id.isEmpty, id.utf8.count <= 60, !named.contains(where: { $0.id.isIdentical(to: id) }) else {
                throw AuthError(
                    .invalidConfiguration,
                    "Each encryption key must have a unique ID of at most 60 bytes."
                )
            }
            guard let bytes = Base64URL.decode(key.exposed), bytes.count == 32 else {
                throw AuthError(
                    .invalidConfiguration,
                    "The encryption key \"\(DisplayText.sanitized(id))\" is not 32 random bytes in base64url."
                )
            }
            named.append(Named(id: id, key: SymmetricKey(data: bytes)))
        }
        guard let first = named.first else { throw AuthError(.invalidConfiguration, "There is no encryption key.") }
        self.keys = named
        self.current = first
    }

    #if os(Linux) || os(macOS)
    /// Derives an encryption key from a secret key in a PKCS #11 token: HMAC-SHA-256 of the key ID. Generate a non-exportable secret key.
    ///
    /// The hardware token is needed once, when a program starts: the derived key stays in the program's memory. A copy of the disk and of the
    /// configuration is useless without the hardware token. The call blocks its thread until the hardware token responds.
    /// - Parameters:
    ///   - id: The ID of the encryption key.
    ///   - uri: The URI of a secret key (RFC 7512), such as `pkcs11:token=Server;object=sessions?module-path=/usr/lib/softhsm/libsofthsm2.so`.
    ///     Without `module-path`, every module that is registered with p11-kit is searched.
    ///   - pin: The PIN of the hardware token; nil if it does not require one.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the URI does not name a secret key, `key_unavailable` when the hardware token
    ///   cannot be used.
    public static func inToken(
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

extension EncryptionKeys: CustomStringConvertible, WithoutReflection {
    /// The IDs of the keys.
    public var description: String { "encryption keys \(keys.map(\.id).joined(separator: ", "))" }
}
