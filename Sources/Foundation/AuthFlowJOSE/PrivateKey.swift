import AuthFlowEssentials
public import AuthFlowHTTP
public import AuthFlowJSON
import Crypto
import CryptoExtras

/// A private key in memory: RSA with 2048 bits or more, P-256, P-384, P-521, or Ed25519.
public struct PrivateKey: SigningKey {
    private enum Material: Sendable {
        case rsa(_RSA.Signing.PrivateKey)
        case p256(P256.Signing.PrivateKey)
        case p384(P384.Signing.PrivateKey)
        case p521(P521.Signing.PrivateKey)
        case ed25519(Curve25519.Signing.PrivateKey)

        init?(_ parts: PrivateKeyMaterial) {
            switch parts {
            case .rsa(let key): self = .rsa(key)
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

        var publicPart: PublicKeyMaterial? {
            switch self {
            case .rsa(let key): PublicKeyMaterial(key.publicKey)
            case .p256(let key): .curve(.p256, Array(key.publicKey.rawRepresentation))
            case .p384(let key): .curve(.p384, Array(key.publicKey.rawRepresentation))
            case .p521(let key): .curve(.p521, Array(key.publicKey.rawRepresentation))
            case .ed25519(let key): .curve(.ed25519, Array(key.publicKey.rawRepresentation))
            }
        }
    }

    private let material: Material

    /// The public key (RFC 7517), with its `kid`: the given key ID, or else the thumbprint (RFC 7638).
    public let publicJWK: JSON

    /// The algorithms for signing, in order of preference. A key with an `alg` can sign only with that algorithm.
    public let algorithms: [SignatureAlgorithm]

    private init(
        _ material: Material,
        keyID: String?,
        algorithm: SignatureAlgorithm? = nil
    ) throws(AuthError) {
        self.material = material
        let supported = Self.algorithms(of: material)
        guard algorithm.map(supported.contains) ?? true else {
            throw Self.rejection("its \"alg\" does not match its key type")
        }
        self.algorithms = algorithm.map { [$0] } ?? supported
        guard var members = material.publicPart?.members, let thumbprint = JSON.object(members).jwkThumbprint else {
            throw Self.rejection("its public key cannot be derived")
        }
        members["kid"] = .string(keyID ?? thumbprint)
        members["use"] = "sig"
        // RFC 7517 section 4.4: a key with an `alg` must not be used with any other algorithm, so a key for several
        // algorithms has no `alg`.
        if self.algorithms.count == 1 { members["alg"] = .string(self.algorithms[0].rawValue) }
        self.publicJWK = .object(members)
    }

    /// Generates a key.
    /// - Parameter algorithm: The algorithm to sign with; default: ES256. RSA keys have 3072 bits.
    /// - Throws: ``AuthError`` with `unsupported` for an algorithm that is not asymmetric.
    public init(generatedFor algorithm: SignatureAlgorithm = .es256) throws(AuthError) {
        switch algorithm.definition?.scheme {
        case .rsaPKCS1, .rsaPSS:
            guard let key = try? _RSA.Signing.PrivateKey(keySize: .bits3072) else {
                throw AuthError(.unsupported, "No RSA key could be generated.")
            }
            try self.init(.rsa(key), keyID: nil, algorithm: algorithm)
        case .ecdsa:
            switch algorithm {
            case .es384: try self.init(.p384(P384.Signing.PrivateKey()), keyID: nil)
            case .es512: try self.init(.p521(P521.Signing.PrivateKey()), keyID: nil)
            default: try self.init(.p256(P256.Signing.PrivateKey()), keyID: nil)
            }
        case .eddsa: try self.init(.ed25519(Curve25519.Signing.PrivateKey()), keyID: nil)
        case .hmac, nil:
            let name = DisplayText.sanitized(algorithm.rawValue, limit: 20)
            throw AuthError(.unsupported, "No key can be generated for \(name): it is not an asymmetric algorithm.")
        }
    }

    /// The private key in PEM (PKCS #8).
    public var pem: Secret {
        switch material {
        case .rsa(let key): Secret(key.pkcs8PEMRepresentation)
        case .p256(let key): Secret(key.pemRepresentation)
        case .p384(let key): Secret(key.pemRepresentation)
        case .p521(let key): Secret(key.pemRepresentation)
        case .ed25519(let key): Secret(key.pemRepresentation)
        }
    }

    public func signature(over bytes: [UInt8], by algorithm: SignatureAlgorithm) throws -> [UInt8] {
        guard algorithms.contains(algorithm), let (scheme, hash) = algorithm.definition else {
            throw AuthError(.unsupported, "The client's key cannot sign with \(algorithm.rawValue).")
        }
        switch material {
        case .rsa(let key):
            let padding: _RSA.Signing.Padding = scheme == .rsaPSS ? .PSS : .insecurePKCS1v1_5
            switch hash {
            case .sha256:
                return Array(try key.signature(for: SHA256.hash(data: bytes), padding: padding).rawRepresentation)
            case .sha384:
                return Array(try key.signature(for: SHA384.hash(data: bytes), padding: padding).rawRepresentation)
            case .sha512:
                return Array(try key.signature(for: SHA512.hash(data: bytes), padding: padding).rawRepresentation)
            }
        case .p256(let key): return Array(try key.signature(for: SHA256.hash(data: bytes)).rawRepresentation)
        case .p384(let key): return Array(try key.signature(for: SHA384.hash(data: bytes)).rawRepresentation)
        case .p521(let key): return Array(try key.signature(for: SHA512.hash(data: bytes)).rawRepresentation)
        case .ed25519(let key): return Array(try key.signature(for: bytes))
        }
    }

    /// FAPI 2.0 section 5.4.1 allows PS256, ES256 and EdDSA; the RSASSA-PKCS1-v1_5 algorithms are the least preferred.
    private static func algorithms(of material: Material) -> [SignatureAlgorithm] {
        switch material {
        case .rsa: [.ps256, .ps384, .ps512, .rs256, .rs384, .rs512]
        case .p256: [.es256]
        case .p384: [.es384]
        case .p521: [.es512]
        case .ed25519: [.edDSA, .ed25519]
        }
    }

    private static func rejection(_ reason: String) -> AuthError {
        AuthError(.invalidConfiguration, "The private key cannot be used: \(reason).")
    }
}

// MARK: Reading

extension PrivateKey {
    /// Reads a key from PEM (RFC 7468): PKCS #8, PKCS #1 for RSA, or SEC 1 for elliptic curves.
    /// - Parameters:
    ///   - text: The text, which contains one private key. Other blocks may precede and follow it.
    ///   - keyID: The `kid` under which the key is registered; default: its thumbprint.
    /// - Throws: ``AuthError`` with `invalid_configuration` when there is no usable key.
    public init(pem text: Secret, keyID: String? = nil) throws(AuthError) {
        try self.init(block: try PEMBlock.privateKey(in: text.exposed), keyID: keyID)
    }

    private init(block: PEMBlock, keyID: String?) throws(AuthError) {
        let parts = try PrivateKeyMaterial(block, kinds: "P-256, P-384, P-521 and Ed25519", rejection: Self.rejection)
        guard let material = Material(parts) else { throw Self.rejection("its type or curve is not supported") }
        try self.init(material, keyID: keyID)
    }

    /// Reads a key in JWK form (RFC 7517), with its private part.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the key has no private part, is not for signing, or is damaged.
    public init(jwk json: JSON) throws(AuthError) {
        guard json["d"] == nil || Self.isForSigning(json) else {
            throw Self.rejection("its \"use\" or \"key_ops\" does not allow signing")
        }
        let parts = try PrivateKeyMaterial(json, rejection: Self.rejection)
        guard let material = Material(parts) else {
            throw Self.rejection("it is damaged, or its curve cannot be used for signing")
        }
        try self.init(
            material,
            keyID: json["kid"]?.string,
            algorithm: json["alg"]?.string.map(SignatureAlgorithm.init(rawValue:))
        )
        // A private part that does not match the public part would produce signatures that no server accepts.
        guard json.hasPublicMembers(of: publicJWK) else {
            throw Self.rejection("its private part does not match its public part")
        }
    }

    /// Whether a JWK may be used for signing.
    static func isForSigning(_ json: JSON) -> Bool { json.isKey(for: "sig", ["sign"]) }

    /// Parses a private key: PEM, a JWK, or a JWK Set with exactly one signing key (with this `kid`, if specified).
    /// - Throws: ``AuthError`` with `invalid_configuration`.
    package init(text: Secret, keyID: String? = nil) throws(AuthError) {
        let keys: [JSON]
        switch try KeyText(text, keyID: keyID, rejection: Self.rejection) {
        case .pem(let block):
            try self.init(block: block, keyID: keyID)
            return
        case .key(let json):
            try self.init(jwk: json)
            return
        case .set(let found): keys = found
        }
        // The set may also contain decryption keys.
        let candidates = keys.filter {
            $0["d"] != nil && Self.isForSigning($0) && (keyID == nil || $0["kid"]?.string == keyID)
                && (keyID != nil || !["X25519", "X448", "Ed448", "secp256k1"].contains($0["crv"]?.string))
                && ($0["alg"]?.string.map { SignatureAlgorithm(rawValue: $0).definition != nil } ?? true)
        }
        guard let first = candidates.first else {
            throw Self.rejection(
                keyID == nil
                    ? "the set contains no private signing key"
                    : "the set contains no private signing key with this kid"
            )
        }
        guard candidates.count == 1 else {
            let names = candidates.map { $0["kid"]?.string ?? "(no kid)" }.joined(separator: ", ")
            throw Self.rejection(
                "the set contains several private signing keys; select one by its kid: \(DisplayText.sanitized(names))"
            )
        }
        try self.init(jwk: first)
    }
}

extension PrivateKey: CustomStringConvertible, NonReflectable {
    /// The `kid`.
    public var description: String { keyID ?? "a private key" }
}
