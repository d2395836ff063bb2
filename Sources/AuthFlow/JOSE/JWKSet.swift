import AuthFlowJSON

/// The keys of a provider that can verify its signatures (RFC 7517 section 5).
struct JWKSet: Sendable {
    /// The most keys that are read from one set.
    static let maximumKeyCount = 100

    let keys: [JWK]

    /// Reads a set and leaves out what cannot be used here.
    /// - Throws: ``AuthError`` with `invalid_reply` when it is not a key set at all.
    init(_ json: JSON) throws(AuthError) {
        guard let keys = json["keys"]?.array else {
            throw AuthError(.invalidReply, "The provider's key set has no \"keys\" array (RFC 7517 section 5).")
        }
        self.keys = keys.prefix(Self.maximumKeyCount).compactMap(JWK.init)
    }

    /// The keys that may have made a signature with this header, by key ID, kind, use and algorithm.
    ///
    /// A set may hold several keys with one ID (for several algorithms, or as a trap), and an ID may be absent when the
    /// set has a single key of the kind: so the ID narrows the choice and the kind decides.
    func candidates(for header: JWSHeader) -> [JWK] {
        keys.filter { key in
            key.fits(header.algorithm) && (header.keyID == nil || key.keyID == nil || key.keyID == header.keyID)
        }
    }
}
