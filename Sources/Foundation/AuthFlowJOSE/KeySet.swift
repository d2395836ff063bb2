import AuthFlowJSON

/// The keys that the signatures of an issuer are checked with: the issuer's own, which are fetched, or those of a document.
package protocol KeySet: Sendable {
    /// Checks a signature with the keys.
    /// - Parameter jws: The token. Its algorithm is asymmetric and has been accepted.
    /// - Throws: ``AuthError`` when keys are needed and cannot be fetched.
    func verdict(on jws: JWS) async throws -> SignatureVerdict
}

/// The result of checking a signature with a set of keys.
package enum SignatureVerdict: Sendable {
    /// One of the keys made it.
    case verified
    /// The key that the token names did not make it.
    case wrongSignature
    /// None of the keys matches.
    case noKey
}

extension JWKSet: KeySet {
    package func verdict(on jws: JWS) -> SignatureVerdict { verdict(on: jws, template: nil) }

    /// - Parameter template: The rule by which tokens name issuers, where a key may be of one of them.
    func verdict(on jws: JWS, template: TokenIssuerTemplate?) -> SignatureVerdict {
        // A key of one tenant says nothing about the users of another.
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
