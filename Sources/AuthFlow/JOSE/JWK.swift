import AuthFlowJSON
import Crypto
import CryptoExtras
import Foundation

/// A public key from a JWK set (RFC 7517) that can verify signatures.
public struct JWK: Sendable {
    /// The key's name within its set, when it has one.
    public let keyID: String?

    /// The only algorithm the key may be used with, when it names one.
    let algorithm: String?

    private let material: Material

    private enum Material: Sendable {
        case rsa(_RSA.Signing.PublicKey)
        case p256(P256.Signing.PublicKey)
    }

    /// Reads a key.
    /// - Returns: nil when the key is of a kind that is not known here, is not for verifying signatures, or is malformed:
    ///   such keys are skipped, as RFC 7517 section 5 asks ("Implementations SHOULD ignore JWKs within a JWK Set that
    ///   use "kty" ... values that are not understood").
    init?(_ json: JSON) {
        // RFC 7517 sections 4.2 and 4.3: a key marked for encryption never verifies a signature.
        if let use = json["use"], use.string != "sig" { return nil }
        if let operations = json["key_ops"], operations.strings?.contains("verify") != true { return nil }
        switch json["kty"]?.string {
        case "RSA":
            guard let modulus = Self.bytes(json["n"]), let exponent = Self.bytes(json["e"]),
                let key = try? _RSA.Signing.PublicKey(n: modulus, e: exponent),
                // RFC 7518 section 3.3: "A key of size 2048 bits or larger MUST be used".
                key.keySizeInBits >= 2048
            else { return nil }
            self.material = .rsa(key)
        case "EC":
            guard json["crv"]?.string == "P-256", let x = Self.bytes(json["x"]), let y = Self.bytes(json["y"]),
                // RFC 7518 section 6.2.1.2: coordinates have the full length of the curve.
                x.count == 32, y.count == 32,
                let key = try? P256.Signing.PublicKey(rawRepresentation: x + y)
            else { return nil }
            self.material = .p256(key)
        default:
            return nil
        }
        self.keyID = json["kid"]?.string
        self.algorithm = json["alg"]?.string
    }

    private static func bytes(_ json: JSON?) -> [UInt8]? {
        json?.string.flatMap { Base64URL.decode($0) }
    }

    /// Whether the key is of the kind that an algorithm needs, and does not name another.
    func fits(_ algorithm: SignatureAlgorithm) -> Bool {
        if let own = self.algorithm, own != algorithm.rawValue { return false }
        switch (material, algorithm) {
        case (.rsa, .rs256), (.p256, .es256): return true
        default: return false
        }
    }

    /// Whether this key made the signature over these bytes.
    func isValid(_ signature: [UInt8], for bytes: [UInt8], algorithm: SignatureAlgorithm) -> Bool {
        switch (material, algorithm) {
        case (.rsa(let key), .rs256):
            return key.isValidSignature(
                _RSA.Signing.RSASignature(rawRepresentation: signature),
                for: SHA256.hash(data: bytes),
                padding: .insecurePKCS1v1_5
            )
        case (.p256(let key), .es256):
            // RFC 7518 section 3.4: R and S side by side, 64 bytes.
            guard let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature) else { return false }
            return key.isValidSignature(signature, for: SHA256.hash(data: bytes))
        default:
            return false
        }
    }
}
