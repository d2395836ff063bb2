public import AuthFlow
public import AuthFlowJSON
import Crypto
import CryptoExtras

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// How an emulated provider encrypts what it sends to a client (RFC 7516).
public struct EmulatedEncryption: Sendable {
    /// The client's public key (RFC 7517), as `DecryptionKey.publicJWK` has it.
    public var key: JSON
    /// `alg`.
    public var algorithm: KeyManagementAlgorithm
    /// `enc`, by its registered name.
    public var encryption: String
    /// What is encrypted.
    public var responses: Set<EncryptedResponse>
    /// Changes the header before it is authenticated.
    public var header: EmulatorFault.Change = { _ in }
    /// Changes what is encrypted.
    public var content: @Sendable (String) -> String = { $0 }
    /// Changes the finished token.
    public var text: @Sendable (String) -> String = { $0 }

    /// Creates an encryption.
    public init(
        to key: JSON,
        algorithm: KeyManagementAlgorithm,
        encryption: String = "A128CBC-HS256",
        responses: Set<EncryptedResponse> = [.idToken]
    ) {
        self.key = key
        self.algorithm = algorithm
        self.encryption = encryption
        self.responses = responses
    }

    /// Encrypts text.
    /// - Throws: `AuthError` with `unsupported` when the key or an algorithm cannot be used.
    public func encrypted(_ plain: String) throws -> String {
        guard let enc = ContentEncryption(rawValue: encryption) else {
            throw AuthError(.unsupported, "The emulator cannot encrypt with \(encryption).")
        }
        var members: [String: JSON] = [
            "alg": .string(algorithm.rawValue), "enc": .string(encryption), "cty": "JWT",
        ]
        members["kid"] = key["kid"]
        let (contentKey, encryptedKey) = try keys(for: enc, &members)
        header(&members)
        let head = Base64URL.encode(try JSON.object(members).serialized())
        let parts = try seal(Array(content(plain).utf8), enc, contentKey, authenticating: Array(head.utf8))
        return text(([head] + ([encryptedKey] + parts).map { Base64URL.encode($0) }).joined(separator: "."))
    }

    private func keys(
        for enc: ContentEncryption,
        _ members: inout [String: JSON]
    ) throws -> (content: SymmetricKey, encrypted: [UInt8]) {
        let fresh = SymmetricKey(size: SymmetricKeySize(bitCount: enc.keySize * 8))
        func bytes(_ name: String) throws -> [UInt8] {
            guard let bytes = key[name]?.string.flatMap({ Base64URL.decode($0) }) else {
                throw AuthError(.unsupported, "The client's key has no \(name).")
            }
            return bytes
        }
        if key["kty"] == "RSA" {
            let rsa = try _RSA.Encryption.PublicKey(n: try bytes("n"), e: try bytes("e"))
            let padding: _RSA.Encryption.Padding = algorithm == .rsaOAEP ? .PKCS1_OAEP : .PKCS1_OAEP_SHA256
            let plain = unsafe fresh.withUnsafeBytes { unsafe Array($0) }
            return (fresh, Array(try rsa.encrypt(plain, padding: padding)))
        }
        let (secret, ephemeral) = try agreement(try bytes("x"), key["y"] == nil ? [] : try bytes("y"))
        members["epk"] = ephemeral
        members["apu"] = .string(Base64URL.encode(Array("AuthFlow".utf8)))
        let sizes: [KeyManagementAlgorithm: Int] = [.ecdhESA128KW: 16, .ecdhESA192KW: 24, .ecdhESA256KW: 32]
        let wrapping = sizes[algorithm]
        let agreed = AgreedKey.derive(
            from: secret,
            algorithm: wrapping == nil ? encryption : algorithm.rawValue,
            partyU: Array("AuthFlow".utf8),
            partyV: [],
            size: wrapping ?? enc.keySize
        )
        return wrapping == nil ? (agreed, []) : (fresh, Array(try AES.KeyWrap.wrap(fresh, using: agreed)))
    }

    /// A shared secret with the client, and the public key of the other side.
    private func agreement(_ x: [UInt8], _ y: [UInt8]) throws -> (secret: [UInt8], ephemeral: JSON) {
        func jwk(_ raw: Data) -> JSON {
            var members: [String: JSON] = ["kty": key["kty"] ?? .null, "crv": key["crv"] ?? .null]
            members["x"] = .string(Base64URL.encode(y.isEmpty ? raw : raw.prefix(raw.count / 2)))
            if !y.isEmpty { members["y"] = .string(Base64URL.encode(raw.suffix(raw.count / 2))) }
            return .object(members)
        }
        let secret: SharedSecret
        let ephemeral: JSON
        switch key["crv"]?.string {
        case "P-256":
            let own = P256.KeyAgreement.PrivateKey()
            secret = try own.sharedSecretFromKeyAgreement(with: .init(rawRepresentation: x + y))
            ephemeral = jwk(own.publicKey.rawRepresentation)
        case "P-384":
            let own = P384.KeyAgreement.PrivateKey()
            secret = try own.sharedSecretFromKeyAgreement(with: .init(rawRepresentation: x + y))
            ephemeral = jwk(own.publicKey.rawRepresentation)
        case "P-521":
            let own = P521.KeyAgreement.PrivateKey()
            secret = try own.sharedSecretFromKeyAgreement(with: .init(rawRepresentation: x + y))
            ephemeral = jwk(own.publicKey.rawRepresentation)
        case "X25519":
            let own = Curve25519.KeyAgreement.PrivateKey()
            secret = try own.sharedSecretFromKeyAgreement(with: .init(rawRepresentation: x))
            ephemeral = jwk(own.publicKey.rawRepresentation)
        default: throw AuthError(.unsupported, "The client's key is on no known curve.")
        }
        return (unsafe secret.withUnsafeBytes { unsafe Array($0) }, ephemeral)
    }

    /// The initialization vector, the ciphertext and the tag.
    private func seal(
        _ plain: [UInt8],
        _ enc: ContentEncryption,
        _ key: SymmetricKey,
        authenticating header: [UInt8]
    ) throws -> [[UInt8]] {
        switch enc {
        case .a128GCM, .a192GCM, .a256GCM:
            let box = try AES.GCM.seal(plain, using: key, authenticating: header)
            return [Array(box.nonce), Array(box.ciphertext), Array(box.tag)]
        case .a128CBCHS256, .a192CBCHS384, .a256CBCHS512:
            let bytes = unsafe key.withUnsafeBytes { unsafe Array($0) }
            let vector = HostServices.systemRandomBytes(16)
            let ciphertext = Array(
                try AES._CBC.encrypt(
                    plain,
                    using: SymmetricKey(data: bytes.suffix(enc.keySize / 2)),
                    iv: try AES._CBC.IV(ivBytes: vector)
                )
            )
            let code = enc.code(
                of: ContentEncryption.authenticated(header, vector, ciphertext),
                key: SymmetricKey(data: bytes.prefix(enc.keySize / 2))
            )
            return [vector, ciphertext, Array(code.prefix(enc.keySize / 2))]
        }
    }
}

extension OIDCEmulator.Client {
    /// What is sent to the client for a response: encrypted, when it is registered for that.
    func received(_ text: String, _ kind: EncryptedResponse) throws -> String {
        guard let encryption, encryption.responses.contains(kind) else { return text }
        return try encryption.encrypted(text)
    }
}
