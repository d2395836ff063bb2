import AuthFlowHTTP
package import AuthFlowJSON
import Crypto
import CryptoExtras

/// A public key from a JWK set (RFC 7517) that can verify signatures.
package struct JWK: Sendable {
    /// The key ID, when it has one.
    package let keyID: String?

    /// The issuer whose tokens it signs, where a key set is of several (`issuer`, which some servers for many tenants add).
    package let issuer: String?

    /// The only algorithm the key may be used with, when it names one.
    private let algorithm: String?

    private let material: Material

    private enum Material: Sendable {
        case rsa(_RSA.Signing.PublicKey)
        case p256(P256.Signing.PublicKey)
        case p384(P384.Signing.PublicKey)
        case p521(P521.Signing.PublicKey)
        case ed25519(Curve25519.Signing.PublicKey)
    }

    /// The longest RSA key that is accepted, in bits: verifying with a longer one would cost too much.
    private static let maximumRSASize = 8192

    /// Reads a key.
    /// - Returns: nil when the key is of an unsupported type, is not for verifying signatures, or is malformed:
    ///   such keys are skipped, as RFC 7517 section 5 asks ("Implementations SHOULD ignore JWKs within a JWK Set that
    ///   use "kty" ... values that are not understood").
    package init?(_ json: JSON) {
        // RFC 7517 sections 4.2 and 4.3: a key marked for encryption never verifies a signature.
        guard json["use"] == nil || json["use"]?.string == "sig" else { return nil }
        guard json["key_ops"] == nil || json["key_ops"]?.strings?.contains("verify") == true else { return nil }
        // A key whose private part is published proves nothing about the signer.
        guard json["d"] == nil else { return nil }
        switch (json["kty"]?.string, json["crv"]?.string) {
        case ("RSA", _):
            guard let modulus = Self.bytes(json["n"]), let exponent = Self.bytes(json["e"]),
                modulus.count <= Self.maximumRSASize / 8 + 1,
                let key = try? _RSA.Signing.PublicKey(n: modulus, e: exponent)
            else { return nil }
            // RFC 7518 section 3.3: "A key of size 2048 bits or larger MUST be used with these algorithms."
            guard key.keySizeInBits >= 2048 else { return nil }
            self.material = .rsa(key)
        case ("EC", "P-256"):
            guard let point = JWKMembers.point(json, 32),
                let key = try? P256.Signing.PublicKey(rawRepresentation: point)
            else { return nil }
            self.material = .p256(key)
        case ("EC", "P-384"):
            guard let point = JWKMembers.point(json, 48),
                let key = try? P384.Signing.PublicKey(rawRepresentation: point)
            else { return nil }
            self.material = .p384(key)
        case ("EC", "P-521"):
            guard let point = JWKMembers.point(json, 66),
                let key = try? P521.Signing.PublicKey(rawRepresentation: point)
            else { return nil }
            self.material = .p521(key)
        case ("OKP", "Ed25519"):
            // RFC 8037 section 2.
            guard let bytes = Self.bytes(json["x"]), bytes.count == 32,
                let key = try? Curve25519.Signing.PublicKey(rawRepresentation: bytes)
            else { return nil }
            self.material = .ed25519(key)
        default:
            return nil
        }
        self.keyID = json["kid"]?.string
        self.issuer = json["issuer"]?.string
        self.algorithm = json["alg"]?.string
    }

    private static func bytes(_ json: JSON?) -> [UInt8]? {
        json?.string.flatMap { Base64URL.decode($0) }
    }

    /// Whether the key has the type that an algorithm needs, and does not name another algorithm.
    func fits(_ algorithm: SignatureAlgorithm) -> Bool {
        guard self.algorithm == nil || self.algorithm == algorithm.rawValue else { return false }
        switch (material, algorithm) {
        case (.rsa, .rs256), (.rsa, .rs384), (.rsa, .rs512), (.rsa, .ps256), (.rsa, .ps384), (.rsa, .ps512),
            (.p256, .es256), (.p384, .es384), (.p521, .es512), (.ed25519, .edDSA), (.ed25519, .ed25519):
            return true
        default:
            return false
        }
    }

    /// Whether this key made the signature over these bytes. False for an algorithm that does not match the key.
    package func isValid(_ signature: [UInt8], for bytes: [UInt8], algorithm: SignatureAlgorithm) -> Bool {
        guard fits(algorithm), let definition = algorithm.definition else { return false }
        switch material {
        case .rsa(let key):
            let padding: _RSA.Signing.Padding = definition.scheme == .rsaPSS ? .PSS : .insecurePKCS1v1_5
            let signature = _RSA.Signing.RSASignature(rawRepresentation: signature)
            switch definition.hash {
            case .sha256: return key.isValidSignature(signature, for: SHA256.hash(data: bytes), padding: padding)
            case .sha384: return key.isValidSignature(signature, for: SHA384.hash(data: bytes), padding: padding)
            case .sha512: return key.isValidSignature(signature, for: SHA512.hash(data: bytes), padding: padding)
            }
        // RFC 7518 section 3.4: R and S side by side, each of the full length, which is what a raw signature is.
        case .p256(let key):
            guard let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature) else { return false }
            return key.isValidSignature(signature, for: SHA256.hash(data: bytes))
        case .p384(let key):
            guard let signature = try? P384.Signing.ECDSASignature(rawRepresentation: signature) else { return false }
            return key.isValidSignature(signature, for: SHA384.hash(data: bytes))
        case .p521(let key):
            guard let signature = try? P521.Signing.ECDSASignature(rawRepresentation: signature) else { return false }
            return key.isValidSignature(signature, for: SHA512.hash(data: bytes))
        case .ed25519(let key):
            return key.isValidSignature(signature, for: bytes)
        }
    }
}
