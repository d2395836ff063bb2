package import AuthFlowHTTP
import Crypto

/// HMAC signatures (RFC 7518 section 3.2), whose key is the client secret (OIDC Core section 10.1).
package enum HMACSignature {
    /// RFC 7518 section 3.2: "A key of the same size as the hash output ... or larger MUST be used".
    /// - Throws: ``AuthError`` with `invalid_configuration`.
    package static func requireLength(of secret: Secret, for algorithm: SignatureAlgorithm) throws(AuthError) {
        guard let length = algorithm.definition?.hash.byteCount, secret.exposed.utf8.count < length else { return }
        throw AuthError(
            .invalidConfiguration,
            "\(algorithm.rawValue) requires a client secret of at least \(length) bytes (RFC 7518 section 3.2)."
        )
    }

    package static func code(for bytes: [UInt8], hash: SignatureAlgorithm.Hash, secret: Secret) -> [UInt8] {
        let key = SymmetricKey(data: Array(secret.exposed.utf8))
        switch hash {
        case .sha256: return Array(HMAC<SHA256>.authenticationCode(for: bytes, using: key))
        case .sha384: return Array(HMAC<SHA384>.authenticationCode(for: bytes, using: key))
        case .sha512: return Array(HMAC<SHA512>.authenticationCode(for: bytes, using: key))
        }
    }

    package static func isValid(_ code: [UInt8], for bytes: [UInt8], hash: SignatureAlgorithm.Hash, secret: Secret)
        -> Bool
    {
        let key = SymmetricKey(data: Array(secret.exposed.utf8))
        switch hash {
        case .sha256: return HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: bytes, using: key)
        case .sha384: return HMAC<SHA384>.isValidAuthenticationCode(code, authenticating: bytes, using: key)
        case .sha512: return HMAC<SHA512>.isValidAuthenticationCode(code, authenticating: bytes, using: key)
        }
    }
}
