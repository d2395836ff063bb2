public import AuthFlowHTTP
import AuthFlowJSON
import AuthFlowPKCS11
import Crypto

/// The keys that the records of a shared store are encrypted by. Each has a name, which stands beside what it encrypts.
///
/// To replace a key while processes run: add the new one as the last of the list everywhere; then make it the first everywhere; then run
/// ``EncryptedSessionStore/rewrap()``; then take the old one out. Backups need it for as long as they are kept.
public struct EncryptionKeys: Sendable {
    struct Named: Sendable {
        let id: String
        let key: SymmetricKey
    }

    private let keys: [Named]

    /// The key that encrypts.
    let current: Named

    /// Creates a list of keys.
    /// - Parameter keys: Their names, which are no secret, and 32 random bytes each in base64url. The first encrypts, all decrypt.
    /// - Throws: ``AuthError`` with `invalid_configuration` when there is none, one is not of 32 bytes, or two have one name.
    public init(_ keys: [(id: String, key: Secret)]) throws(AuthError) {
        var named: [Named] = []
        for (id, key) in keys {
            guard !id.isEmpty, id.utf8.count <= 60, !named.contains(where: { $0.id.isIdentical(to: id) }) else {
                throw AuthError(
                    .invalidConfiguration,
                    "Each encryption key has a name of its own, of at most 60 bytes."
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
    /// Has a secret key in a PKCS #11 token make an encryption key: HMAC-SHA-256 of the name. Generate one that cannot be copied.
    ///
    /// The token is needed once, when a program starts: what it has made stays in the program's memory. A copy of the disk, and of the
    /// configuration, is of no use without the token. The thread waits for the token.
    /// - Parameters:
    ///   - id: The name of the encryption key.
    ///   - uri: Names a secret key (RFC 7512), such as `pkcs11:token=Server;object=sessions?module-path=/usr/lib/softhsm/libsofthsm2.so`.
    ///     Without `module-path` it is looked for in every module that p11-kit knows.
    ///   - pin: The PIN of the token; nil for a token that asks for none.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the URI does not name a secret key, `key_unavailable` when the token cannot
    ///   be used.
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
    /// The names of the keys.
    public var description: String { "encryption keys \(keys.map(\.id).joined(separator: ", "))" }
}
