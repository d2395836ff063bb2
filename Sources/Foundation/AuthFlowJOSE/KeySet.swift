package import AuthFlowHTTP
package import AuthFlowJSON

/// The keys for verifying an issuer's signatures: the issuer's own keys, which are fetched, or the keys in a document.
package protocol KeySet: Sendable {
    /// Verifies a signature with the keys.
    /// - Parameter jws: The token. Its algorithm must be asymmetric, and must already have been checked.
    /// - Throws: ``AuthError`` when keys are needed and cannot be fetched.
    func verdict(on jws: JWS) async throws -> SignatureVerdict
}

/// The result of verifying a signature with a set of keys.
package enum SignatureVerdict: Sendable {
    /// The signature was made with one of the keys.
    case verified
    /// The signature was not made with the key that the token's `kid` identifies.
    case invalidSignature
    /// None of the keys matches.
    case noMatchingKey
}

extension JWKSet: KeySet {
    package func verdict(on jws: JWS) -> SignatureVerdict { verdict(on: jws, template: nil) }

    /// - Parameter template: The rule for the issuers of tokens, if the keys of the set may belong to different
    ///   issuers.
    func verdict(on jws: JWS, template: TokenIssuerTemplate?) -> SignatureVerdict {
        // One tenant's key must not sign tokens for another tenant's users.
        func mayHaveSigned(_ key: JWK) -> Bool {
            guard let issuer = key.issuer, !(template.map { issuer.isIdentical(to: $0.text) } ?? issuer.contains("{"))
            else { return true }
            return jws.payload["iss"]?.string?.isIdentical(to: issuer) ?? false
        }
        var isKnown = false
        for key in candidates(for: jws.header) where mayHaveSigned(key) {
            if key.isValid(jws.signature, for: jws.signedBytes, algorithm: jws.header.algorithm) { return .verified }
            isKnown = true
        }
        guard jws.header.keyID != nil else { return .noMatchingKey }
        guard !isKnown else { return .invalidSignature }
        for key in unnamedCandidates(for: jws.header) where mayHaveSigned(key) {
            if key.isValid(jws.signature, for: jws.signedBytes, algorithm: jws.header.algorithm) { return .verified }
        }
        return .noMatchingKey
    }
}

/// A provider's key set (RFC 7517 section 5): the keys for verifying its signatures, and its encryption keys.
package struct JWKSet: Sendable {
    /// The maximum number of keys in a set.
    static let maximumKeyCount = 100

    /// The maximum number of keys tried for one signature, so that a set with many candidate keys cannot make
    /// verification expensive.
    static let maximumAttempts = 16

    package let keys: [JWK]

    private let members: [JSON]

    /// The provider's keys for encrypting messages to the provider. Few clients need them, so they are parsed for each use.
    var encryptionKeys: [EncryptionKey] { members.compactMap(EncryptionKey.init) }

    /// Parses a key set and omits the keys that cannot be used here.
    /// - Throws: ``AuthError`` with `invalid_response` when the document is not a key set, or has too many keys.
    package init(_ json: JSON) throws(AuthError) {
        guard let keys = json["keys"]?.array else {
            throw AuthError(.invalidResponse, "The provider's key set has no \"keys\" array (RFC 7517 section 5).")
        }
        guard keys.count <= Self.maximumKeyCount else {
            throw AuthError(.invalidResponse, "The provider's key set has more than \(Self.maximumKeyCount) keys.")
        }
        self.keys = keys.compactMap(JWK.init)
        self.members = keys
    }

    /// The candidate keys for a signature with this header, by key ID, type, use and algorithm.
    ///
    /// A set may contain several keys with the same ID (for several algorithms, or maliciously), so the ID only narrows
    /// the selection: a key must also match the algorithm. If the header has no key ID, every key that matches the
    /// algorithm is a candidate, up to a maximum number.
    func candidates(for header: JWSHeader) -> some Sequence<JWK> {
        keys.lazy
            .filter { $0.supports(header.algorithm) && (header.keyID == nil || $0.keyID == header.keyID) }
            .prefix(Self.maximumAttempts)
    }

    /// The candidate keys without an ID, so that the tokens of a provider that uses key IDs in its tokens but not in its
    /// key set can still be verified.
    func unnamedCandidates(for header: JWSHeader) -> some Sequence<JWK> {
        keys.lazy.filter { $0.keyID == nil && $0.supports(header.algorithm) }.prefix(Self.maximumAttempts)
    }
}
