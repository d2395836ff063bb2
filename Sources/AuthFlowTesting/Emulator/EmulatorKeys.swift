public import AuthFlow
public import AuthFlowJSON
import Crypto
import CryptoExtras
import Foundation

/// The signing keys of an emulated provider, made anew for each.
public struct EmulatorKeys: Sendable {
    private let p256 = P256.Signing.PrivateKey()
    private let rsa: _RSA.Signing.PrivateKey
    private let suffix = Base64URL.encode(HostServices.systemRandomBytes(4))

    /// Making an RSA key takes long enough to be felt in a test run, so that one is made once a process.
    private static let sharedRSA = Result { try _RSA.Signing.PrivateKey(keySize: .bits2048) }

    /// Makes keys.
    public init() throws {
        self.rsa = try Self.sharedRSA.get()
    }

    /// The key set to publish (RFC 7517).
    public func jwks() throws -> JSON {
        let primitives = try rsa.publicKey.getKeyPrimitives()
        let point = p256.publicKey.rawRepresentation
        return [
            "keys": [
                [
                    "kty": "RSA", "use": "sig", "alg": "RS256", "kid": .string("rsa-\(suffix)"),
                    "n": .string(Base64URL.encode(primitives.modulus)),
                    "e": .string(Base64URL.encode(primitives.publicExponent)),
                ],
                [
                    "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": .string("ec-\(suffix)"),
                    "x": .string(Base64URL.encode(point.prefix(32))), "y": .string(Base64URL.encode(point.suffix(32))),
                ],
            ]
        ]
    }

    /// The ID of the key for an algorithm.
    public func keyID(for algorithm: SignatureAlgorithm) -> String {
        (algorithm == .rs256 ? "rsa-" : "ec-") + suffix
    }

    /// Signs claims (RFC 7515).
    /// - Parameters:
    ///   - claims: The payload.
    ///   - header: The header; its `alg` says nothing about how it is really signed.
    ///   - algorithm: How to sign.
    public func sign(_ claims: JSON, header: JSON, with algorithm: SignatureAlgorithm) throws -> String {
        let signed = Base64URL.encode(try header.serialized()) + "." + Base64URL.encode(try claims.serialized())
        let digest = SHA256.hash(data: Array(signed.utf8))
        let signature =
            algorithm == .rs256
            ? try rsa.signature(for: digest, padding: .insecurePKCS1v1_5).rawRepresentation
            : try p256.signature(for: digest).rawRepresentation
        return "\(signed).\(Base64URL.encode(signature))"
    }
}
