import AuthFlowJSON

/// The keys for verifying an issuer's signatures: the issuer's own keys, which are fetched, or the keys in a document.
package protocol KeySet: Sendable {
    /// Verifies a signature with the keys.
    /// - Parameter jws: The token. Its algorithm is asymmetric and has been accepted.
    /// - Throws: ``AuthError`` when keys are needed and cannot be fetched.
    func verdict(on jws: JWS) async throws -> SignatureVerdict
}

/// The result of verifying a signature with a set of keys.
package enum SignatureVerdict: Sendable {
    /// The signature was made with one of the keys.
    case verified
    /// The signature was not made with the key that the token's `kid` identifies.
    case wrongSignature
    /// None of the keys matches.
    case noKey
}

extension JWKSet: KeySet {
    package func verdict(on jws: JWS) -> SignatureVerdict { verdict(on: jws, template: nil) }

    /// - Parameter template: The rule for the issuers of tokens, if the keys of the set may belong to different
    ///   issuers.
    func verdict(on jws: JWS, template: TokenIssuerTemplate?) -> SignatureVerdict {
        // A key of one tenant must not sign tokens for the users of another tenant.
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
        guard jws.header.keyID != nil else { return .noKey }
        guard !isKnown else { return .wrongSignature }
        for key in unnamedCandidates(for: jws.header) where mayHaveSigned(key) {
            if key.isValid(jws.signature, for: jws.signedBytes, algorithm: jws.header.algorithm) { return .verified }
        }
        return .noKey
    }
}
