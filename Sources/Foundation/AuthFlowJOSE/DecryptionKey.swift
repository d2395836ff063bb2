import AuthFlowEssentials
public import AuthFlowHTTP
public import AuthFlowJSON
import Crypto
import CryptoExtras

/// A private key that tokens are encrypted to: RSA with 2048 bits or more, P-256, P-384, P-521, or X25519.
public struct DecryptionKey: Sendable {
    private enum Material: Sendable {
        /// The library's key for encryption is not `Sendable`, so one is made of this for each use.
        case rsa(_RSA.Signing.PrivateKey)
        case p256(P256.KeyAgreement.PrivateKey)
        case p384(P384.KeyAgreement.PrivateKey)
        case p521(P521.KeyAgreement.PrivateKey)
        case x25519(Curve25519.KeyAgreement.PrivateKey)
    }

    private let material: Material

    /// The public key (RFC 7517), to register: with `use` `enc`, its `kid` and, when it has one alone, its `alg`.
    public let publicJWK: JSON

    /// The algorithms that it is used with. A key that names its `alg` has that one alone; RSA-OAEP with SHA-1 has to be named.
    public let algorithms: [KeyManagementAlgorithm]

    /// The `kid`.
    public var keyID: String? { publicJWK["kid"]?.string }

    private init(_ material: Material, keyID: String?, algorithm: KeyManagementAlgorithm?) throws(AuthError) {
        self.material = material
        let able: [KeyManagementAlgorithm] =
            if case .rsa = material {
                [.rsaOAEP256, .rsaOAEP]
            } else {
                [.ecdhESA256KW, .ecdhESA192KW, .ecdhESA128KW, .ecdhES]
            }
        guard algorithm.map(able.contains) ?? true else {
            throw Self.refusal("its algorithm does not fit its type")
        }
        self.algorithms = algorithm.map { [$0] } ?? able.filter { $0 != .rsaOAEP }
        guard var members = Self.publicMembers(of: material), let thumbprint = JSON.object(members).jwkThumbprint else {
            throw Self.refusal("its public part cannot be derived")
        }
        members["kid"] = .string(keyID ?? thumbprint)
        members["use"] = "enc"
        if algorithms.count == 1 { members["alg"] = .string(algorithms[0].rawValue) }
        self.publicJWK = .object(members)
    }

    /// Generates a key.
    /// - Parameter algorithm: What it is used with; default: ECDH-ES+A256KW, on P-256. An RSA key has 3072 bits.
    /// - Throws: ``AuthError`` with `unsupported`.
    public init(generatedFor algorithm: KeyManagementAlgorithm = .ecdhESA256KW) throws(AuthError) {
        guard KeyManagementAlgorithm.all.contains(algorithm) else {
            throw AuthError(.unsupported, "No key can be generated for this algorithm.")
        }
        guard algorithm == .rsaOAEP || algorithm == .rsaOAEP256 else {
            try self.init(.p256(P256.KeyAgreement.PrivateKey()), keyID: nil, algorithm: algorithm)
            return
        }
        guard let key = try? _RSA.Signing.PrivateKey(keySize: .bits3072) else {
            throw AuthError(.unsupported, "No RSA key could be generated.")
        }
        try self.init(.rsa(key), keyID: nil, algorithm: algorithm)
    }

    /// The private key in PEM (PKCS #8); nil for X25519, which is kept as a JWK.
    public var pem: Secret? {
        switch material {
        case .rsa(let key): Secret(key.pkcs8PEMRepresentation)
        case .p256(let key): Secret(key.pemRepresentation)
        case .p384(let key): Secret(key.pemRepresentation)
        case .p521(let key): Secret(key.pemRepresentation)
        case .x25519: nil
        }
    }

    private static func publicMembers(of material: Material) -> [String: JSON]? {
        switch material {
        case .rsa(let key):
            guard let primitives = try? key.publicKey.getKeyPrimitives() else { return nil }
            return [
                "kty": "RSA", "n": .string(Base64URL.encode(primitives.modulus)),
                "e": .string(Base64URL.encode(primitives.publicExponent)),
            ]
        case .p256(let key): return JWKMembers.curve("P-256", key.publicKey.rawRepresentation)
        case .p384(let key): return JWKMembers.curve("P-384", key.publicKey.rawRepresentation)
        case .p521(let key): return JWKMembers.curve("P-521", key.publicKey.rawRepresentation)
        case .x25519(let key):
            return ["kty": "OKP", "crv": "X25519", "x": .string(Base64URL.encode(key.publicKey.rawRepresentation))]
        }
    }

    private static func refusal(_ reason: String) -> AuthError {
        AuthError(.invalidConfiguration, "The decryption key cannot be used: \(reason).")
    }
}

// MARK: Use

extension DecryptionKey {
    /// Decrypts a content encryption key.
    func unwrap(_ encrypted: [UInt8], _ algorithm: KeyManagementAlgorithm) throws -> SymmetricKey {
        guard case .rsa(let key) = material else { throw CryptoKitError.incorrectParameterSize }
        let padding: _RSA.Encryption.Padding = algorithm == .rsaOAEP ? .PKCS1_OAEP : .PKCS1_OAEP_SHA256
        let own = try _RSA.Encryption.PrivateKey(derRepresentation: key.derRepresentation)
        return SymmetricKey(data: try own.decrypt(encrypted, padding: padding))
    }

    /// The secret that is shared with the holder of a public key on the same curve. A point that is not on the curve would give the
    /// key away bit by bit; the initializers refuse one.
    func agreement(with jwk: JSON) throws -> [UInt8] {
        func bytes(_ name: String) throws -> [UInt8] {
            guard let bytes = jwk[name]?.string.flatMap({ Base64URL.decode($0) }) else {
                throw CryptoKitError.incorrectParameterSize
            }
            return bytes
        }
        func point(_ curve: String, _ size: Int) throws -> [UInt8] {
            guard jwk["kty"] == "EC", jwk["crv"]?.string == curve, let point = JWKMembers.point(jwk, size) else {
                throw CryptoKitError.incorrectParameterSize
            }
            return point
        }
        let secret: SharedSecret
        switch material {
        case .rsa: throw CryptoKitError.incorrectParameterSize
        case .p256(let key):
            secret = try key.sharedSecretFromKeyAgreement(with: .init(rawRepresentation: try point("P-256", 32)))
        case .p384(let key):
            secret = try key.sharedSecretFromKeyAgreement(with: .init(rawRepresentation: try point("P-384", 48)))
        case .p521(let key):
            secret = try key.sharedSecretFromKeyAgreement(with: .init(rawRepresentation: try point("P-521", 66)))
        case .x25519(let key):
            guard jwk["kty"] == "OKP", jwk["crv"] == "X25519" else { throw CryptoKitError.incorrectParameterSize }
            secret = try key.sharedSecretFromKeyAgreement(with: .init(rawRepresentation: try bytes("x")))
        }
        return unsafe secret.withUnsafeBytes { unsafe Array($0) }
    }
}

// MARK: Reading

extension DecryptionKey {
    /// Reads a key from PEM (RFC 7468): PKCS #8, PKCS #1 for RSA, or SEC 1 for elliptic curves.
    /// - Parameters:
    ///   - text: The text, with one private key.
    ///   - keyID: The `kid` that the key is registered by; default: its thumbprint.
    ///   - algorithm: The algorithm that it is registered for; default: every one that fits it but RSA-OAEP with SHA-1.
    /// - Throws: ``AuthError`` with `invalid_configuration`.
    public init(pem text: Secret, keyID: String? = nil, algorithm: KeyManagementAlgorithm? = nil) throws(AuthError) {
        let block = try PEMBlock.privateKey(in: text.exposed)
        let named = KeyAlgorithm.of(block)
        if block.label != "EC PRIVATE KEY", let key = try? _RSA.Signing.PrivateKey(pemRepresentation: block.text) {
            guard key.keySizeInBits >= 2048 else {
                throw Self.refusal("it has less than 2048 bits (RFC 7518 section 4.3)")
            }
            try self.init(.rsa(key), keyID: keyID, algorithm: algorithm)
        } else if named == KeyAlgorithm.p256, let key = try? P256.KeyAgreement.PrivateKey(pemRepresentation: block.text)
        {
            try self.init(.p256(key), keyID: keyID, algorithm: algorithm)
        } else if named == KeyAlgorithm.p384, let key = try? P384.KeyAgreement.PrivateKey(pemRepresentation: block.text)
        {
            try self.init(.p384(key), keyID: keyID, algorithm: algorithm)
        } else if named == KeyAlgorithm.p521, let key = try? P521.KeyAgreement.PrivateKey(pemRepresentation: block.text)
        {
            try self.init(.p521(key), keyID: keyID, algorithm: algorithm)
        } else {
            throw Self.refusal("it is none of RSA with 2048 bits or more, P-256, P-384 and P-521, or it is damaged")
        }
    }

    /// Reads a key in JWK form (RFC 7517), with its private part.
    /// - Throws: ``AuthError`` with `invalid_configuration` when it has no private part, is not for encryption, or is damaged.
    public init(jwk json: JSON) throws(AuthError) {
        guard json["d"] != nil else { throw Self.refusal("it is a public key: the member \"d\" is missing") }
        guard Self.isForEncryption(json) else { throw Self.refusal("its \"use\" or \"key_ops\" is not for encryption") }
        let keyID = json["kid"]?.string
        let algorithm = json["alg"]?.string.map(KeyManagementAlgorithm.init(rawValue:))
        func made(_ material: Material?) throws(AuthError) -> DecryptionKey {
            guard let material else { throw Self.refusal("it is damaged, or a part of it is missing") }
            return try DecryptionKey(material, keyID: keyID, algorithm: algorithm)
        }
        let read: DecryptionKey
        switch (json["kty"]?.string, json["crv"]?.string) {
        case ("RSA", _):
            let parts = ["n", "e", "d", "p", "q"].compactMap { json[$0]?.string.flatMap { Base64URL.decode($0) } }
            guard parts.count == 5, parts[0].count <= PrivateKey.maximumRSASize / 8 + 1 else {
                throw Self.refusal("a member of the RSA key (n, e, d, p, q) is missing, not base64url or too long")
            }
            let key = try? _RSA.Signing.PrivateKey(n: parts[0], e: parts[1], d: parts[2], p: parts[3], q: parts[4])
            guard let key, key.keySizeInBits >= 2048 else {
                throw Self.refusal("the RSA key is damaged, or has less than 2048 bits (RFC 7518 section 4.3)")
            }
            read = try made(.rsa(key))
        case ("EC", "P-256"):
            read = try made(
                JWKMembers.scalar(json, 32).flatMap { try? .init(rawRepresentation: $0) }.map(Material.p256)
            )
        case ("EC", "P-384"):
            read = try made(
                JWKMembers.scalar(json, 48).flatMap { try? .init(rawRepresentation: $0) }.map(Material.p384)
            )
        case ("EC", "P-521"):
            read = try made(
                JWKMembers.scalar(json, 66).flatMap { try? .init(rawRepresentation: $0) }.map(Material.p521)
            )
        case ("OKP", "X25519"):
            // RFC 8037 section 2: no number, of which zeros could be missing, but the bytes of the key.
            let bytes = json["d"]?.string.flatMap { Base64URL.decode($0) }
            read = try made(bytes.flatMap { try? .init(rawRepresentation: $0) }.map(Material.x25519))
        default: throw Self.refusal("its type or curve is not supported")
        }
        guard JWKMembers.fits(json, read.publicJWK) else {
            throw Self.refusal("its private part does not belong to its public part")
        }
        self = read
    }

    /// Whether a JWK may decrypt (RFC 7517 sections 4.2 and 4.3).
    static func isForEncryption(_ json: JSON) -> Bool {
        let operations = json["key_ops"]?.strings
        return (json["use"] == nil || json["use"] == "enc")
            && operations.map { !Set($0).isDisjoint(with: ["decrypt", "unwrapKey", "deriveKey", "deriveBits"]) } ?? true
    }

    /// Reads the keys in a text: one in PEM, a JWK, or every private key for encryption of a JWK set.
    /// - Throws: ``AuthError`` with `invalid_configuration`.
    static func keys(
        text: Secret,
        keyID: String?,
        algorithm: KeyManagementAlgorithm?
    ) throws(AuthError) -> [DecryptionKey] {
        let start = text.exposed.utf8.first { !" \t\r\n".utf8.contains($0) }
        guard start == UInt8(ascii: "{") else {
            return [try DecryptionKey(pem: text, keyID: keyID, algorithm: algorithm)]
        }
        guard let json = try? JSON(parsing: Array(text.exposed.utf8)) else { throw refusal("its file is not JSON") }
        func read(_ json: JSON) throws(AuthError) -> DecryptionKey {
            var members = json.object ?? [:]
            if members["alg"] == nil { members["alg"] = algorithm.map { .string($0.rawValue) } }
            return try DecryptionKey(jwk: .object(members))
        }
        guard let set = json["keys"]?.array else {
            guard keyID == nil || json["kid"] == nil || json["kid"]?.string == keyID else {
                throw refusal("its \"kid\" is not the one that the configuration names")
            }
            var members = json.object ?? [:]
            if let keyID { members["kid"] = .string(keyID) }
            return [try read(.object(members))]
        }
        // What is for something else stands beside them: keys to sign with, and those of other algorithms.
        let isRSA = algorithm.map { $0 == .rsaOAEP || $0 == .rsaOAEP256 }
        var keys: [DecryptionKey] = []
        for member in set where member["d"] != nil && isForEncryption(member) {
            let own = member["alg"]?.string.map(KeyManagementAlgorithm.init(rawValue:))
            guard keyID == nil || member["kid"]?.string == keyID,
                own.map(KeyManagementAlgorithm.all.contains) ?? true,
                own == nil || algorithm == nil || own == algorithm,
                isRSA == nil || isRSA == (member["kty"] == "RSA")
            else { continue }
            keys.append(try read(member))
        }
        guard !keys.isEmpty else { throw refusal("no key of the set is private and for encryption") }
        return keys
    }
}

extension DecryptionKey: CustomStringConvertible, WithoutReflection {
    /// The `kid`.
    public var description: String { keyID ?? "a decryption key" }
}
