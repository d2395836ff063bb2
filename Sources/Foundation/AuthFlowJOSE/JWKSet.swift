package import AuthFlowHTTP
package import AuthFlowJSON

/// A provider's key set (RFC 7517 section 5): the keys for verifying its signatures, and its encryption keys.
package struct JWKSet: Sendable {
    /// The maximum number of keys in a set.
    static let maximumKeyCount = 100

    /// The maximum number of keys tried for one signature, so that a set full of decoys cannot make verification
    /// expensive.
    static let maximumTries = 16

    package let keys: [JWK]

    /// The provider's keys for encrypting messages to the provider.
    let encryptionKeys: [EncryptionKey]

    /// Parses a key set and omits the keys that cannot be used here.
    /// - Throws: ``AuthError`` with `invalid_reply` when it is not a key set at all, or has too many keys.
    package init(_ json: JSON) throws(AuthError) {
        guard let keys = json["keys"]?.array else {
            throw AuthError(.invalidResponse, "The provider's key set has no \"keys\" array (RFC 7517 section 5).")
        }
        guard keys.count <= Self.maximumKeyCount else {
            throw AuthError(.invalidResponse, "The provider's key set has more than \(Self.maximumKeyCount) keys.")
        }
        self.keys = keys.compactMap(JWK.init)
        self.encryptionKeys = keys.compactMap(EncryptionKey.init)
    }

    /// The candidate keys for a signature with this header, by key ID, type, use and algorithm.
    ///
    /// A set may contain several keys with the same ID (for several algorithms, or maliciously): the ID narrows the choice,
    /// and the type identifies the key. If the header has no key ID, every key of the type is tried.
    func candidates(for header: JWSHeader) -> some Sequence<JWK> {
        keys.lazy
            .filter { $0.fits(header.algorithm) && (header.keyID == nil || $0.keyID == header.keyID) }
            .prefix(Self.maximumTries)
    }

    /// The candidate keys without an ID, so that the tokens of a provider that uses key IDs in its tokens but not in its
    /// key set can still be verified.
    func unnamedCandidates(for header: JWSHeader) -> some Sequence<JWK> {
        keys.lazy.filter { $0.keyID == nil && $0.fits(header.algorithm) }.prefix(Self.maximumTries)
    }
}
