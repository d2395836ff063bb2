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

    subscript(id: String) -> Named? { keys.first { $0.id.isIdentical(to: id) } }
}

extension EncryptionKeys: CustomStringConvertible, CustomReflectable {
    /// The names of the keys.
    public var description: String { "encryption keys \(keys.map(\.id).joined(separator: ", "))" }
    /// A mirror without children: the keys are secret.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
