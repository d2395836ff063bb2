package import AuthFlowHTTP
package import AuthFlowJSON

/// The keys of a provider that can verify its signatures (RFC 7517 section 5).
package struct JWKSet: Sendable {
    /// The maximum number of keys in a set.
    static let maximumKeyCount = 100

    /// The maximum number of keys that one signature is tried with: a set full of decoys must not make a check
    /// expensive.
    static let maximumTries = 16

    package let keys: [JWK]

    /// The provider's keys that messages to it are encrypted with.
    let encryptionKeys: [EncryptionKey]

    /// Reads a set and omits the keys that cannot be used here.
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

    /// The keys that may have made a signature with this header, by key ID, type, use and algorithm.
    ///
    /// A set may hold several keys with one ID (for several algorithms, or as a trap): the ID narrows the choice and
    /// the type decides. A header without an ID is tried with every key of the type.
    func candidates(for header: JWSHeader) -> some Sequence<JWK> {
        keys.lazy
            .filter { $0.fits(header.algorithm) && (header.keyID == nil || $0.keyID == header.keyID) }
            .prefix(Self.maximumTries)
    }

    /// The keys without an ID that may have made it. The tokens of a provider that names keys in its tokens but not in
    /// its set are verified all the same.
    func unnamedCandidates(for header: JWSHeader) -> some Sequence<JWK> {
        keys.lazy.filter { $0.keyID == nil && $0.fits(header.algorithm) }.prefix(Self.maximumTries)
    }
}
