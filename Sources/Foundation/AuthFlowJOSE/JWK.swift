import AuthFlowHTTP
package import AuthFlowJSON
import Crypto
import CryptoExtras

/// A public key from a JWK Set (RFC 7517) that can verify signatures.
package struct JWK: Sendable {
    /// The key ID, if any.
    package let keyID: String?

    /// The issuer whose tokens the key verifies, if a key set serves several issuers (`issuer`, which some multi-tenant servers add).
    package let issuer: String?

    /// The only algorithm for which the key may be used, if it specifies one.
    private let algorithm: String?

    private let material: Material

    /// The members with private or symmetric key material (RFC 7518 section 6, RFC 9964 section 3).
    package static let privateMembers = ["d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"]

    private enum Material: Sendable {
        case rsa(_RSA.Signing.PublicKey)
        case p256(P256.Signing.PublicKey)
        case p384(P384.Signing.PublicKey)
        case p521(P521.Signing.PublicKey)
        case ed25519(Curve25519.Signing.PublicKey)

        init?(_ parts: PublicKeyMaterial) {
            switch parts {
            case .rsa(let modulus, let exponent):
                // RFC 7518 section 3.3: "A key of size 2048 bits or larger MUST be used with these algorithms."
                guard let key = try? _RSA.Signing.PublicKey(n: modulus, e: exponent), key.keySizeInBits >= 2048
                else { return nil }
                self = .rsa(key)
            case .curve(let curve, let bytes):
                let made: Material? =
                    switch curve {
                    case .p256: try? .p256(.init(rawRepresentation: bytes))
                    case .p384: try? .p384(.init(rawRepresentation: bytes))
                    case .p521: try? .p521(.init(rawRepresentation: bytes))
                    case .ed25519: try? .ed25519(.init(rawRepresentation: bytes))
                    case .x25519: nil
                    }
                guard let made else { return nil }
                self = made
            }
        }
    }

    /// Reads a key.
    /// - Returns: nil when the key is of an unsupported type, is not for verifying signatures, has a private part, or is malformed:
    ///   such keys are skipped, as RFC 7517 section 5 recommends ("Implementations SHOULD ignore JWKs within a JWK Set that
    ///   use "kty" ... values that are not understood").
    package init?(_ json: JSON) {
        // A key marked for encryption never verifies a signature.
        guard json.isKey(for: "sig", ["verify"]) else { return nil }
        // A key whose private part is published proves nothing about the signer.
        guard json.keyMember("d") == nil else { return nil }
        guard let parts = PublicKeyMaterial(json), let material = Material(parts) else { return nil }
        self.material = material
        self.keyID = json["kid"]?.string
        self.issuer = json["issuer"]?.string
        self.algorithm = json["alg"]?.string
    }

    /// Whether the key has the type that an algorithm requires, and does not specify a different algorithm.
    package func supports(_ algorithm: SignatureAlgorithm) -> Bool {
        guard self.algorithm == nil || self.algorithm == algorithm.rawValue else { return false }
        switch (material, algorithm) {
        case (.rsa, .rs256), (.rsa, .rs384), (.rsa, .rs512), (.rsa, .ps256), (.rsa, .ps384), (.rsa, .ps512),
            (.p256, .es256), (.p384, .es384), (.p521, .es512), (.ed25519, .edDSA), (.ed25519, .ed25519):
            return true
        default: return false
        }
    }

    /// Whether the signature over these bytes was made with this key. `false` for an algorithm that is not supported by the
    /// key.
    package func isValid(_ signature: [UInt8], for bytes: [UInt8], algorithm: SignatureAlgorithm) -> Bool {
        guard supports(algorithm), let definition = algorithm.definition else { return false }
        switch material {
        case .rsa(let key):
            let padding: _RSA.Signing.Padding = definition.scheme == .rsaPSS ? .PSS : .insecurePKCS1v1_5
            let signature = _RSA.Signing.RSASignature(rawRepresentation: signature)
            switch definition.hash {
            case .sha256: return key.isValidSignature(signature, for: SHA256.hash(data: bytes), padding: padding)
            case .sha384: return key.isValidSignature(signature, for: SHA384.hash(data: bytes), padding: padding)
            case .sha512: return key.isValidSignature(signature, for: SHA512.hash(data: bytes), padding: padding)
            }
        // RFC 7518 section 3.4: R and S concatenated, each at full length, which is the format of a raw signature.
        case .p256(let key):
            guard let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature) else { return false }
            return key.isValidSignature(signature, for: SHA256.hash(data: bytes))
        case .p384(let key):
            guard let signature = try? P384.Signing.ECDSASignature(rawRepresentation: signature) else { return false }
            return key.isValidSignature(signature, for: SHA384.hash(data: bytes))
        case .p521(let key):
            guard let signature = try? P521.Signing.ECDSASignature(rawRepresentation: signature) else { return false }
            return key.isValidSignature(signature, for: SHA512.hash(data: bytes))
        case .ed25519(let key): return key.isValidSignature(signature, for: bytes)
        }
    }
}
