import AuthFlowEssentials
package import Crypto
import CryptoExtras

/// The content encryption algorithm of an encrypted token (`enc`, RFC 7518 section 5).
public enum ContentEncryption: String, Sendable, CaseIterable {
    /// AES GCM with a 256-bit key.
    case a256GCM = "A256GCM"
    /// AES CBC with a 256-bit key, authenticated with HMAC SHA-512.
    case a256CBCHS512 = "A256CBC-HS512"
    /// AES GCM with a 192-bit key.
    case a192GCM = "A192GCM"
    /// AES CBC with a 192-bit key, authenticated with HMAC SHA-384.
    case a192CBCHS384 = "A192CBC-HS384"
    /// AES GCM with a 128-bit key.
    case a128GCM = "A128GCM"
    /// AES CBC with a 128-bit key, authenticated with HMAC SHA-256.
    case a128CBCHS256 = "A128CBC-HS256"

    /// The size of the key, in bytes.
    var keySize: Int {
        switch self {
        case .a128GCM: 16
        case .a192GCM: 24
        case .a256GCM, .a128CBCHS256: 32
        case .a192CBCHS384: 48
        case .a256CBCHS512: 64
        }
    }

    /// Verifies the authentication tag, then decrypts the ciphertext.
    /// - Throws: An error that the caller must not report, because it reveals the reason for the failure.
    func decrypt(
        _ ciphertext: [UInt8],
        key: SymmetricKey,
        initializationVector: [UInt8],
        tag: [UInt8],
        authenticating header: [UInt8]
    ) throws -> [UInt8] {
        guard key.bitCount == keySize * 8 else { throw CryptoKitError.incorrectKeySize }
        switch self {
        case .a128GCM, .a192GCM, .a256GCM:
            // Section 5.3: "Use of an Initialization Vector (IV) of size 96 bits is REQUIRED", as is a 128-bit tag.
            guard initializationVector.count == 12, tag.count == 16 else { throw CryptoKitError.incorrectParameterSize }
            let box = try AES.GCM.SealedBox(
                nonce: try AES.GCM.Nonce(data: initializationVector),
                ciphertext: ciphertext,
                tag: tag
            )
            return Array(try AES.GCM.open(box, using: key, authenticating: header))
        case .a128CBCHS256, .a192CBCHS384, .a256CBCHS512:
            let bytes = unsafe key.withUnsafeBytes { unsafe Array($0) }
            let (authenticationKey, encryptionKey) = (bytes.prefix(keySize / 2), bytes.suffix(keySize / 2))
            let expected = code(
                of: Self.authenticated(header, initializationVector, ciphertext),
                key: SymmetricKey(data: authenticationKey)
            )
            // The tags are compared in constant time, so that the duration does not reveal which byte differs first.
            let difference = zip(tag, expected).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) }
            guard tag.count == keySize / 2, difference == 0 else { throw CryptoKitError.authenticationFailure }
            return Array(
                try AES._CBC.decrypt(
                    ciphertext,
                    using: SymmetricKey(data: encryptionKey),
                    iv: try AES._CBC.IV(ivBytes: initializationVector)
                )
            )
        }
    }

    /// Encrypts and authenticates plaintext.
    /// - Returns: The initialization vector, the ciphertext and the authentication tag.
    func encrypt(
        _ plain: [UInt8],
        key: SymmetricKey,
        authenticating header: [UInt8],
        randomBytes: (Int) -> [UInt8]
    ) throws -> [[UInt8]] {
        switch self {
        case .a128GCM, .a192GCM, .a256GCM:
            let vector = randomBytes(12)
            let nonce = try AES.GCM.Nonce(data: vector)
            let box = try AES.GCM.seal(plain, using: key, nonce: nonce, authenticating: header)
            return [vector, Array(box.ciphertext), Array(box.tag)]
        case .a128CBCHS256, .a192CBCHS384, .a256CBCHS512:
            let bytes = unsafe key.withUnsafeBytes { unsafe Array($0) }
            let vector = randomBytes(16)
            let ciphertext = Array(
                try AES._CBC.encrypt(
                    plain,
                    using: SymmetricKey(data: bytes.suffix(keySize / 2)),
                    iv: try AES._CBC.IV(ivBytes: vector)
                )
            )
            let tag = code(
                of: Self.authenticated(header, vector, ciphertext),
                key: SymmetricKey(data: bytes.prefix(keySize / 2))
            )
            return [vector, ciphertext, Array(tag.prefix(keySize / 2))]
        }
    }

    /// The input of the HMAC in the CBC modes (section 5.2.2.1): the additional authenticated data (the encoded
    /// header), the initialization vector, the ciphertext, and the length of the additional authenticated data in bits.
    static func authenticated(
        _ header: [UInt8],
        _ initializationVector: [UInt8],
        _ ciphertext: [UInt8]
    ) -> [UInt8] {
        header + initializationVector + ciphertext + BigEndian.bytes(of: UInt64(header.count) * 8)
    }

    /// The message authentication code of the CBC modes, before it is truncated to half its length.
    func code(of bytes: [UInt8], key: SymmetricKey) -> [UInt8] {
        switch self {
        case .a192CBCHS384: Array(HMAC<SHA384>.authenticationCode(for: bytes, using: key))
        case .a256CBCHS512: Array(HMAC<SHA512>.authenticationCode(for: bytes, using: key))
        default: Array(HMAC<SHA256>.authenticationCode(for: bytes, using: key))
        }
    }
}

/// The key derivation of ECDH-ES key agreement (RFC 7518 section 4.6.2).
package enum ConcatKDF {
    /// Derives a key with the Concat KDF of NIST SP 800-56A, using SHA-256.
    /// - Parameters:
    ///   - secret: The shared secret, Z.
    ///   - algorithm: `AlgorithmID`: `enc` when the key encrypts content, `alg` when it wraps another key.
    ///   - partyU: `apu`, decoded.
    ///   - partyV: `apv`, decoded.
    ///   - size: The size of the key, in bytes.
    package static func derive(
        from secret: [UInt8],
        algorithm: String,
        partyU: [UInt8],
        partyV: [UInt8],
        size: Int
    ) -> SymmetricKey {
        var information: [UInt8] = []
        for part in [Array(algorithm.utf8), partyU, partyV] {
            information += BigEndian.bytes(of: UInt32(part.count)) + part
        }
        information += BigEndian.bytes(of: UInt32(size * 8))
        var key: [UInt8] = []
        var round: UInt32 = 1
        while key.count < size {
            key += SHA256.hash(data: BigEndian.bytes(of: round) + secret + information)
            round += 1
        }
        return SymmetricKey(data: key.prefix(size))
    }
}

/// Integers in network byte order.
private enum BigEndian {
    static func bytes(of number: some FixedWidthInteger) -> [UInt8] {
        stride(from: number.bitWidth - 8, through: 0, by: -8).map { UInt8(truncatingIfNeeded: number >> $0) }
    }
}
