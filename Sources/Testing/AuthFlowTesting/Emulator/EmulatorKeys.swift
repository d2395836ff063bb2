public import AuthFlow
import AuthFlowEssentials
import Crypto
import CryptoExtras

/// The signing keys of an emulated provider: one for each kind of asymmetric key. They are generated per provider,
/// except for the RSA key, which all providers in a process share.
public struct EmulatorKeys: Sendable {
    private let p256 = P256.Signing.PrivateKey()
    private let p384 = P384.Signing.PrivateKey()
    private let p521 = P521.Signing.PrivateKey()
    private let ed25519 = Curve25519.Signing.PrivateKey()
    private let rsa: _RSA.Signing.PrivateKey
    private let suffix: String
    private let areDecoys: Bool

    /// Generating an RSA key takes noticeable time in a test run, so it is generated only once per process.
    private static let sharedRSA = Result { try _RSA.Signing.PrivateKey(keySize: .bits2048) }
    /// The RSA key of ``decoys()`` of keys that are not decoys themselves.
    private static let decoyRSA = Result { try _RSA.Signing.PrivateKey(keySize: .bits2048) }

    /// Generates keys.
    public init() throws {
        self.init(rsa: try Self.sharedRSA.get(), suffix: Base64URL.encode(HostServices.systemRandomBytes(4)))
    }

    private init(rsa: _RSA.Signing.PrivateKey, suffix: String, areDecoys: Bool = false) {
        self.rsa = rsa
        self.suffix = suffix
        self.areDecoys = areDecoys
    }

    /// Other keys with the same IDs, for checking that a client distinguishes them.
    public func decoys() throws -> EmulatorKeys {
        // Decoys already have the shared RSA key, so their own decoys need another one.
        let rsa = try areDecoys ? _RSA.Signing.PrivateKey(keySize: .bits2048) : Self.decoyRSA.get()
        return EmulatorKeys(rsa: rsa, suffix: suffix, areDecoys: true)
    }

    /// The key set to publish (RFC 7517). The RSA key supports six algorithms, so it has no `alg`.
    public func jwks() throws -> JSON {
        let primitives = try rsa.publicKey.getKeyPrimitives()
        func curve(_ name: String, _ algorithm: SignatureAlgorithm, _ point: Data) -> JSON {
            [
                "kty": "EC", "crv": .string(name), "use": "sig", "alg": .string(algorithm.rawValue),
                "kid": .string(keyID(for: algorithm)),
                "x": .string(Base64URL.encode(point.prefix(point.count / 2))),
                "y": .string(Base64URL.encode(point.suffix(point.count / 2))),
            ]
        }
        return [
            "keys": [
                [
                    "kty": "RSA", "use": "sig", "kid": .string(keyID(for: .rs256)),
                    "n": .string(Base64URL.encode(primitives.modulus)),
                    "e": .string(Base64URL.encode(primitives.publicExponent)),
                ],
                curve("P-256", .es256, p256.publicKey.rawRepresentation),
                curve("P-384", .es384, p384.publicKey.rawRepresentation),
                curve("P-521", .es512, p521.publicKey.rawRepresentation),
                [
                    "kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": .string(keyID(for: .edDSA)),
                    "x": .string(Base64URL.encode(ed25519.publicKey.rawRepresentation)),
                ],
            ]
        ]
    }

    /// The ID of the key for an algorithm.
    public func keyID(for algorithm: SignatureAlgorithm) -> String {
        switch algorithm {
        case .es256: "p256-\(suffix)"
        case .es384: "p384-\(suffix)"
        case .es512: "p521-\(suffix)"
        case .edDSA, .ed25519: "ed25519-\(suffix)"
        default: "rsa-\(suffix)"
        }
    }

    /// The public key in PEM, which attackers use as an HMAC secret.
    var publicKeyText: String { rsa.publicKey.pemRepresentation }

    /// The header of a token that is signed with the key for an algorithm.
    func header(for algorithm: SignatureAlgorithm, type: String) -> [String: JSON] {
        ["alg": .string(algorithm.rawValue), "kid": .string(keyID(for: algorithm)), "typ": .string(type)]
    }

    /// Signs claims (RFC 7515).
    /// - Parameters:
    ///   - claims: The payload.
    ///   - header: The header; its `alg` may differ from the algorithm that is used.
    ///   - algorithm: The signature algorithm.
    ///   - secret: The key, for symmetric (HMAC) algorithms.
    public func sign(
        _ claims: JSON,
        header: JSON,
        with algorithm: SignatureAlgorithm,
        secret: String = ""
    ) throws -> String {
        let signed = Base64URL.encode(try header.serialized()) + "." + Base64URL.encode(try claims.serialized())
        return "\(signed).\(Base64URL.encode(try signature(over: Array(signed.utf8), algorithm, secret)))"
    }

    private func signature(over bytes: [UInt8], _ algorithm: SignatureAlgorithm, _ secret: String) throws -> [UInt8] {
        let key = SymmetricKey(data: Array(secret.utf8))
        switch algorithm {
        case .rs256: return try sign(SHA256.hash(data: bytes), .insecurePKCS1v1_5)
        case .rs384: return try sign(SHA384.hash(data: bytes), .insecurePKCS1v1_5)
        case .rs512: return try sign(SHA512.hash(data: bytes), .insecurePKCS1v1_5)
        case .ps256: return try sign(SHA256.hash(data: bytes), .PSS)
        case .ps384: return try sign(SHA384.hash(data: bytes), .PSS)
        case .ps512: return try sign(SHA512.hash(data: bytes), .PSS)
        case .es256: return Array(try p256.signature(for: SHA256.hash(data: bytes)).rawRepresentation)
        case .es384: return Array(try p384.signature(for: SHA384.hash(data: bytes)).rawRepresentation)
        case .es512: return Array(try p521.signature(for: SHA512.hash(data: bytes)).rawRepresentation)
        case .edDSA, .ed25519: return Array(try ed25519.signature(for: bytes))
        case .hs256: return Array(HMAC<SHA256>.authenticationCode(for: bytes, using: key))
        case .hs384: return Array(HMAC<SHA384>.authenticationCode(for: bytes, using: key))
        case .hs512: return Array(HMAC<SHA512>.authenticationCode(for: bytes, using: key))
        default: throw AuthError(.unsupported, "The emulator cannot sign with \(algorithm.rawValue).")
        }
    }

    private func sign(_ digest: some Digest, _ padding: _RSA.Signing.Padding) throws -> [UInt8] {
        Array(try rsa.signature(for: digest, padding: padding).rawRepresentation)
    }

    /// The left half of a hash, for `at_hash` and `c_hash` (OIDC Core sections 3.1.3.8 and 3.3.2.11).
    static func halfHash(_ text: String, for algorithm: SignatureAlgorithm) -> String {
        let bytes = Array(text.utf8)
        let digest: [UInt8] =
            if algorithm.rawValue.hasSuffix("256") {
                Array(SHA256.hash(data: bytes))
            } else if algorithm.rawValue.hasSuffix("384") {
                Array(SHA384.hash(data: bytes))
            } else {
                Array(SHA512.hash(data: bytes))
            }
        return Base64URL.encode(digest.prefix(digest.count / 2))
    }
}
