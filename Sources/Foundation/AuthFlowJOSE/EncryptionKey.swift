import AuthFlowEssentials
import AuthFlowHTTP
package import AuthFlowJSON
import Crypto
import CryptoExtras

/// Another party's public key, for encrypting messages to that party (RFC 7516).
package struct EncryptionKey: Sendable {
    /// The `kid`.
    package let keyID: String?

    /// Whether the key is explicitly marked as an encryption key, by its `use`, its `key_ops` or its `alg`.
    package let isMarkedForEncryption: Bool

    /// The algorithms for which the key can be used, in order of preference. RSA-OAEP with SHA-1 is used only if
    /// the key, the provider's metadata or the client's configuration specifies it.
    package let algorithms: [KeyManagementAlgorithm]

    /// swift-crypto's RSA encryption key type is not `Sendable`, so a key is created from these bytes for each use.
    private enum Material: Sendable {
        case rsa(modulus: [UInt8], exponent: [UInt8])
        case p256(P256.KeyAgreement.PublicKey)
        case p384(P384.KeyAgreement.PublicKey)
        case p521(P521.KeyAgreement.PublicKey)
        case x25519(Curve25519.KeyAgreement.PublicKey)

        init?(_ parts: PublicKeyMaterial) {
            switch parts {
            case .rsa(let modulus, let exponent):
                guard let key = try? _RSA.Encryption.PublicKey(n: modulus, e: exponent), key.keySizeInBits >= 2048
                else { return nil }
                self = .rsa(modulus: modulus, exponent: exponent)
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
    }

    private let material: Material

    /// Reads a key.
    /// - Returns: nil when the key type or its `alg` is not supported, or the key is not for encryption, has a private part, or is malformed.
    package init?(_ json: JSON) {
        guard json.isKey(for: "enc", ["encrypt", "wrapKey", "deriveKey", "deriveBits"]), json.keyMember("d") == nil
        else { return nil }
        guard let parts = PublicKeyMaterial(json), let material = Material(parts) else { return nil }
        let isRSA = if case .rsa = material { true } else { false }
        let supported: [KeyManagementAlgorithm] = KeyManagementAlgorithm.all.filter { $0.usesRSA == isRSA }
        if let own = json.keyMember("alg") {
            guard let algorithm = own.string.map(KeyManagementAlgorithm.init(rawValue:)), supported.contains(algorithm)
            else { return nil }
            self.algorithms = [algorithm]
        } else {
            self.algorithms = supported
        }
        self.material = material
        self.keyID = json["kid"]?.string
        self.isMarkedForEncryption = ["use", "alg", "key_ops"].contains { json.keyMember($0) != nil }
    }

    /// Encrypts text for the owner of the key (JWE Compact Serialization, RFC 7516 section 7.1).
    /// - Parameters:
    ///   - text: The plaintext: a signed JWT, unless `header` changes `cty`.
    ///   - algorithm: One of ``algorithms``.
    ///   - producer: `apu`: the Agreement PartyUInfo, which identifies this party in the key derivation; default: none.
    ///   - header: Changes the header before it is authenticated.
    ///   - randomBytes: Generates the content encryption key and the initialization vector.
    package func encrypted(
        _ text: String,
        _ algorithm: KeyManagementAlgorithm,
        _ content: ContentEncryption,
        producer: [UInt8] = [],
        header: (inout [String: JSON]) -> Void = { _ in },
        randomBytes: (Int) -> [UInt8] = HostServices.systemRandomBytes
    ) throws -> String {
        guard algorithms.contains(algorithm) else { throw CryptoKitError.incorrectParameterSize }
        // RFC 7519 section 5.2: a nested JWT has cty "JWT".
        var members: [String: JSON] = [
            "alg": .string(algorithm.rawValue), "enc": .string(content.rawValue), "cty": "JWT",
        ]
        members["kid"] = keyID.map(JSON.string)
        let fresh = SymmetricKey(data: randomBytes(content.keySize))
        let (contentKey, encryptedKey): (SymmetricKey, [UInt8])
        if case .rsa(let modulus, let exponent) = material {
            let padding: _RSA.Encryption.Padding = algorithm == .rsaOAEP ? .PKCS1_OAEP : .PKCS1_OAEP_SHA256
            let key = try _RSA.Encryption.PublicKey(n: modulus, e: exponent)
            let plain = unsafe fresh.withUnsafeBytes { unsafe Array($0) }
            (contentKey, encryptedKey) = (fresh, Array(try key.encrypt(plain, padding: padding)))
        } else {
            let (secret, ephemeral) = try agreement()
            members["epk"] = ephemeral
            if !producer.isEmpty { members["apu"] = .string(Base64URL.encode(producer)) }
            let agreed = ConcatKDF.derive(
                from: secret,
                algorithm: algorithm.wrappingKeySize == nil ? content.rawValue : algorithm.rawValue,
                partyU: producer,
                partyV: [],
                size: algorithm.wrappingKeySize ?? content.keySize
            )
            // RFC 7518 section 4.6: in direct key agreement the encrypted key is empty.
            (contentKey, encryptedKey) =
                algorithm.wrappingKeySize == nil
                ? (agreed, []) : (fresh, Array(try AES.KeyWrap.wrap(fresh, using: agreed)))
        }
        header(&members)
        let head = Base64URL.encode(try JSON.object(members).serialized())
        let parts = try content.encrypt(
            Array(text.utf8),
            key: contentKey,
            authenticating: Array(head.utf8),
            randomBytes: randomBytes
        )
        return ([head] + ([encryptedKey] + parts).map { Base64URL.encode($0) }).joined(separator: ".")
    }

    /// The ECDH shared secret of a new ephemeral key and the recipient's key (RFC 7518 section 4.6.1.1), and the
    /// ephemeral public key.
    private func agreement() throws -> (secret: [UInt8], ephemeral: JSON) {
        let secret: SharedSecret
        let ephemeral: PublicKeyMaterial
        switch material {
        case .rsa: throw CryptoKitError.incorrectParameterSize
        case .p256(let key):
            let own = P256.KeyAgreement.PrivateKey()
            secret = try own.sharedSecretFromKeyAgreement(with: key)
            ephemeral = .curve(.p256, Array(own.publicKey.rawRepresentation))
        case .p384(let key):
            let own = P384.KeyAgreement.PrivateKey()
            secret = try own.sharedSecretFromKeyAgreement(with: key)
            ephemeral = .curve(.p384, Array(own.publicKey.rawRepresentation))
        case .p521(let key):
            let own = P521.KeyAgreement.PrivateKey()
            secret = try own.sharedSecretFromKeyAgreement(with: key)
            ephemeral = .curve(.p521, Array(own.publicKey.rawRepresentation))
        case .x25519(let key):
            let own = Curve25519.KeyAgreement.PrivateKey()
            secret = try own.sharedSecretFromKeyAgreement(with: key)
            ephemeral = .curve(.x25519, Array(own.publicKey.rawRepresentation))
        }
        return (unsafe secret.withUnsafeBytes { unsafe Array($0) }, .object(ephemeral.members))
    }
}
