import AuthFlowEssentials
public import AuthFlowHTTP
public import AuthFlowJSON
import Crypto
import CryptoExtras

/// A private key for decrypting tokens: RSA with 2048 bits or more, P-256, P-384, P-521, or X25519.
public struct DecryptionKey: Sendable {
    private enum Material: Sendable {
        /// swift-crypto's RSA encryption key type is not `Sendable`, so an encryption key is created from this key for each use.
        case rsa(_RSA.Signing.PrivateKey)
        case p256(P256.KeyAgreement.PrivateKey)
        case p384(P384.KeyAgreement.PrivateKey)
        case p521(P521.KeyAgreement.PrivateKey)
        case x25519(Curve25519.KeyAgreement.PrivateKey)

        init?(_ parts: PrivateKeyMaterial) {
            switch parts {
            case .rsa(let key): self = .rsa(key)
            case .curve(let curve, let bytes):
                let made: Material? =
                    switch curve {
                    case .p256: try? .p256(.init(rawRepresentation: bytes))
                    case .p384: try? .p384(.init(rawRepresentation: bytes))
                    case .p521: try? .p521(.init(rawRepresentation: bytes))
                    case .x25519: try? .x25519(.init(rawRepresentation: bytes))
                    case .ed25519: nil
                    }
                guard let made else { return nil }
                self = made
            }
        }

        var publicPart: PublicKeyMaterial? {
            switch self {
            case .rsa(let key): PublicKeyMaterial(key.publicKey)
            case .p256(let key): .curve(.p256, Array(key.publicKey.rawRepresentation))
            case .p384(let key): .curve(.p384, Array(key.publicKey.rawRepresentation))
            case .p521(let key): .curve(.p521, Array(key.publicKey.rawRepresentation))
            case .x25519(let key): .curve(.x25519, Array(key.publicKey.rawRepresentation))
            }
        }
    }

    private let material: Material

    /// The public key (RFC 7517) to register: with `use` `enc`, its `kid` and, if it has only one algorithm, its `alg`.
    public let publicJWK: JSON

    /// The algorithms for which the key may be used. A key with an `alg` may be used only with that algorithm; RSA-OAEP
    /// with SHA-1 must be specified explicitly.
    package let algorithms: [KeyManagementAlgorithm]

    /// The `kid`.
    package var keyID: String? { publicJWK["kid"]?.string }

    private init(_ material: Material, keyID: String?, algorithm: KeyManagementAlgorithm?) throws(AuthError) {
        self.material = material
        let supported: [KeyManagementAlgorithm] =
            if case .rsa = material {
                [.rsaOAEP256, .rsaOAEP]
            } else {
                [.ecdhESA256KW, .ecdhESA192KW, .ecdhESA128KW, .ecdhES]
            }
        guard algorithm.map(supported.contains) ?? true else {
            throw Self.rejection("its algorithm does not match its key type")
        }
        self.algorithms = algorithm.map { [$0] } ?? supported.filter { $0 != .rsaOAEP }
        guard var members = material.publicPart?.members, let thumbprint = JSON.object(members).jwkThumbprint else {
            throw Self.rejection("its public key cannot be derived")
        }
        members["kid"] = .string(keyID ?? thumbprint)
        members["use"] = "enc"
        if algorithms.count == 1 { members["alg"] = .string(algorithms[0].rawValue) }
        self.publicJWK = .object(members)
    }

    /// Generates a key.
    /// - Parameter algorithm: The key's algorithm; default: ECDH-ES+A256KW, on P-256. RSA keys have 3072
    ///   bits.
    /// - Throws: ``AuthError`` with `unsupported`.
    public init(generatedFor algorithm: KeyManagementAlgorithm = .ecdhESA256KW) throws(AuthError) {
        guard KeyManagementAlgorithm.all.contains(algorithm) else {
            throw AuthError(.unsupported, "No key can be generated for this algorithm.")
        }
        guard algorithm.usesRSA else {
            try self.init(.p256(P256.KeyAgreement.PrivateKey()), keyID: nil, algorithm: algorithm)
            return
        }
        guard let key = try? _RSA.Signing.PrivateKey(keySize: .bits3072) else {
            throw AuthError(.unsupported, "No RSA key could be generated.")
        }
        try self.init(.rsa(key), keyID: nil, algorithm: algorithm)
    }

    /// The private key in PEM (PKCS #8); nil for X25519, which is stored as a JWK.
    public var pem: Secret? {
        switch material {
        case .rsa(let key): Secret(key.pkcs8PEMRepresentation)
        case .p256(let key): Secret(key.pemRepresentation)
        case .p384(let key): Secret(key.pemRepresentation)
        case .p521(let key): Secret(key.pemRepresentation)
        case .x25519: nil
        }
    }

    private static func rejection(_ reason: String) -> AuthError {
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

    /// The ECDH shared secret for a public key on the same curve. A point that is not on the curve would leak the
    /// private key bit by bit (an invalid curve attack); the initializers reject such points.
    func agreement(with jwk: JSON) throws -> [UInt8] {
        let secret: SharedSecret
        switch (material, PublicKeyMaterial(jwk)) {
        case (.p256(let key), .curve(.p256, let point)):
            secret = try key.sharedSecretFromKeyAgreement(with: .init(rawRepresentation: point))
        case (.p384(let key), .curve(.p384, let point)):
            secret = try key.sharedSecretFromKeyAgreement(with: .init(rawRepresentation: point))
        case (.p521(let key), .curve(.p521, let point)):
            secret = try key.sharedSecretFromKeyAgreement(with: .init(rawRepresentation: point))
        case (.x25519(let key), .curve(.x25519, let bytes)):
            secret = try key.sharedSecretFromKeyAgreement(with: .init(rawRepresentation: bytes))
        default: throw CryptoKitError.incorrectParameterSize
        }
        return unsafe secret.withUnsafeBytes { unsafe Array($0) }
    }
}

// MARK: Reading

extension DecryptionKey {
    /// Reads a key from PEM (RFC 7468): PKCS #8, PKCS #1 for RSA, or SEC 1 for elliptic curves.
    /// - Parameters:
    ///   - text: The text, which contains one private key.
    ///   - keyID: The `kid` under which the key is registered; default: its thumbprint.
    ///   - algorithm: The key's registered algorithm; default: every algorithm that the key supports, except
    ///     RSA-OAEP with SHA-1.
    /// - Throws: ``AuthError`` with `invalid_configuration`.
    public init(pem text: Secret, keyID: String? = nil, algorithm: KeyManagementAlgorithm? = nil) throws(AuthError) {
        try self.init(block: try PEMBlock.privateKey(in: text.exposed), keyID: keyID, algorithm: algorithm)
    }

    private init(block: PEMBlock, keyID: String?, algorithm: KeyManagementAlgorithm?) throws(AuthError) {
        let parts = try PrivateKeyMaterial(block, kinds: "P-256, P-384 and P-521", rejection: Self.rejection)
        guard let material = Material(parts) else { throw Self.rejection("its type or curve is not supported") }
        try self.init(material, keyID: keyID, algorithm: algorithm)
    }

    /// Reads a key in JWK form (RFC 7517), with its private part.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the key has no private part, is not for encryption (`use`, `key_ops`), or is malformed.
    public init(jwk json: JSON) throws(AuthError) {
        guard json["d"] == nil || Self.isForEncryption(json) else {
            throw Self.rejection("its \"use\" or \"key_ops\" does not allow decryption")
        }
        let parts = try PrivateKeyMaterial(json, rejection: Self.rejection)
        guard let material = Material(parts) else {
            throw Self.rejection("it is damaged, or its curve cannot be used for encryption")
        }
        try self.init(
            material,
            keyID: json["kid"]?.string,
            algorithm: json["alg"]?.string.map(KeyManagementAlgorithm.init(rawValue:))
        )
        guard json.hasPublicMembers(of: publicJWK) else {
            throw Self.rejection("its private part does not match its public part")
        }
    }

    /// Whether a JWK may be used for decryption.
    static func isForEncryption(_ json: JSON) -> Bool {
        json.isKey(for: "enc", ["decrypt", "unwrapKey", "deriveKey", "deriveBits"])
    }

    /// Parses decryption keys: a key in PEM, a JWK, or every private encryption key of a JWK Set.
    /// - Throws: ``AuthError`` with `invalid_configuration`.
    static func keys(
        text: Secret,
        keyID: String?,
        algorithm: KeyManagementAlgorithm?
    ) throws(AuthError) -> [DecryptionKey] {
        func read(_ json: JSON) throws(AuthError) -> DecryptionKey {
            var members = json.object ?? [:]
            if members["alg"] == nil { members["alg"] = algorithm.map { .string($0.rawValue) } }
            return try DecryptionKey(jwk: .object(members))
        }
        let set: [JSON]
        switch try KeyText(text, keyID: keyID, rejection: rejection) {
        case .pem(let block): return [try DecryptionKey(block: block, keyID: keyID, algorithm: algorithm)]
        case .key(let json):
            if let algorithm, let own = json["alg"]?.string, own != algorithm.rawValue {
                throw rejection(
                    "its alg is \(DisplayText.sanitized(own, limit: 40)), but the configured algorithm is \(algorithm.rawValue)"
                )
            }
            return [try read(json)]
        case .set(let keys): set = keys
        }
        // The set may also contain signing keys, and keys for other algorithms.
        let isRSA = algorithm?.usesRSA
        var keys: [DecryptionKey] = []
        for member in set where member["d"] != nil && isForEncryption(member) {
            let own = member["alg"]?.string.map(KeyManagementAlgorithm.init(rawValue:))
            guard keyID == nil || member["kid"]?.string == keyID,
                own.map(KeyManagementAlgorithm.all.contains) ?? true,
                own == nil || algorithm == nil || own == algorithm,
                isRSA == nil || isRSA == (member["kty"] == "RSA"),
                keyID != nil || !["Ed25519", "Ed448", "secp256k1"].contains(member["crv"]?.string)
            else { continue }
            keys.append(try read(member))
        }
        guard !keys.isEmpty else { throw rejection("the set contains no private decryption key") }
        return keys
    }
}

extension DecryptionKey: CustomStringConvertible, NonReflectable {
    /// The `kid`.
    public var description: String { keyID ?? "a decryption key" }
}
