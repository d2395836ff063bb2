import AuthFlowEssentials
package import AuthFlowHTTP
import AuthFlowJSON
import Crypto

/// An encrypted token in the JWE Compact Serialization (RFC 7516 section 7.1).
package struct JWE: Sendable {
    private let algorithm: KeyManagementAlgorithm
    private let encryption: ContentEncryption
    private let header: JSON
    private let encryptedKey: [UInt8]
    private let initializationVector: [UInt8]
    private let ciphertext: [UInt8]
    private let tag: [UInt8]
    /// "ASCII(Encoded Protected Header)": the additional authenticated data.
    private let authenticated: [UInt8]

    /// The maximum number of keys tried for a token.
    private static let keyLimit = 4

    /// Whether a token has the five parts of an encrypted token.
    package static func isEncrypted(_ token: Secret) -> Bool {
        // An array is used, because iterating over the bytes of a `String` takes ten times as long.
        Array(token.exposed.utf8).count { $0 == UInt8(ascii: ".") } == 4
    }

    /// Whether decrypted content is a JSON object, and so consists of claims without a signature. A token does not contain a brace.
    package static func isUnsigned(_ content: Secret) -> Bool {
        // RFC 8259 section 2 allows whitespace before the value.
        content.exposed.utf8.first { !" \t\r\n".utf8.contains($0) } == UInt8(ascii: "{")
    }

    /// Parses a token.
    /// - Throws: ``AuthError`` with `invalid_id_token`, including for an unsupported algorithm.
    package init(_ compact: Secret) throws(AuthError) {
        guard compact.exposed.utf8.count <= JWS.maximumSize else {
            throw Self.rejection("it is larger than \(JWS.maximumSize) bytes")
        }
        let parts = Array(compact.exposed.utf8).split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 5 else { throw Self.rejection("it does not have five parts (RFC 7516 section 7.1)") }
        let decoded = parts.compactMap { Base64URL.decode(utf8: $0) }
        guard decoded.count == 5, let header = try? JSON(parsing: decoded[0]), header.object != nil else {
            throw Self.rejection("a part is not base64url, or its header is not a JSON object")
        }
        // RFC 7516 section 4.1.13: a critical extension that is not understood makes a token invalid. With jku or x5u,
        // the sender would choose the URL of a key. Compressed content can expand without limit, and its length can
        // reveal a secret that it contains (RFC 8725 section 3.6).
        for name in ["crit", "zip", "jku", "x5u", "p2c", "p2s"] where header.headerParameter(name) != nil {
            throw Self.rejection("its header has \"\(name)\", which is not accepted")
        }
        guard let name = header["alg"]?.string else {
            throw Self.rejection("its header has no \"alg\", or an \"alg\" that is not a string")
        }
        guard let algorithm = KeyManagementAlgorithm.all.first(where: { $0.rawValue == name }) else {
            throw Self.rejection(
                "it is encrypted with \"\(DisplayText.sanitized(name, limit: 20))\", which is not accepted (alg)"
            )
        }
        guard let encryption = header["enc"]?.string.flatMap(ContentEncryption.init(rawValue:)) else {
            throw Self.rejection("its content encryption algorithm is not supported (enc)")
        }
        self.algorithm = algorithm
        self.encryption = encryption
        self.header = header
        self.encryptedKey = decoded[1]
        self.initializationVector = decoded[2]
        self.ciphertext = decoded[3]
        self.tag = decoded[4]
        self.authenticated = Array(parts[0])
    }

    /// Decrypts the token with the key that its `kid` identifies or, without a `kid`, with each matching key in turn.
    /// - Parameter mayBeUnsigned: Whether the content may be unsigned claims (OIDC Core section 5.3.2 allows them for
    ///   UserInfo responses, which arrive over TLS from the server itself).
    /// - Returns: The decrypted content: a signed token, or claims.
    /// - Throws: ``AuthError`` with `invalid_id_token`. Every decryption failure throws the same error, because a
    ///   difference would reveal something about the key to an attacker (RFC 7516 section 11.5).
    package func decrypted(with keys: [DecryptionKey], mayBeUnsigned: Bool = false) throws(AuthError) -> Secret {
        // RFC 7519 section 5.2: a nested JWT has cty "JWT"; some servers omit it. The node-oidc-provider library sends "json" with unsigned claims.
        if let type = header.headerParameter("cty") {
            // RFC 7515 section 4.1.10: "application/" is prepended to a value without a slash.
            let name = type.string?.lowercased()
            let subtype = name.map { $0.hasPrefix("application/") ? String($0.dropFirst("application/".count)) : $0 }
            guard subtype == "jwt" || mayBeUnsigned && subtype == "json" else {
                throw Self.rejection("its content is not a JWT (cty)")
            }
        }
        let fitting = candidates(among: keys)
        guard !fitting.isEmpty else {
            let keyID = header["kid"]?.string
            throw Self.rejection(
                keyID == nil
                    ? "the client has no key for \(algorithm.rawValue); if its key is registered for this algorithm, set \"algorithm\" in \"decryption_key\""
                    : "the client has no key \"\(DisplayText.sanitized(keyID ?? "", limit: 60))\" for \(algorithm.rawValue)"
            )
        }
        for key in fitting {
            guard let content = try? content(with: key) else { continue }
            guard let text = String(validating: content, as: UTF8.self) else { break }
            let inner = Secret(text)
            // Claims may contain any number of dots, for example in an e-mail address and a URL.
            if mayBeUnsigned, Self.isUnsigned(inner) { return inner }
            // OIDC Core section 16.14 requires signing before encryption: one level of encryption, around a signed token.
            guard !Self.isEncrypted(inner) else { throw Self.rejection("it is encrypted twice") }
            let isSigned = !Self.isUnsigned(inner) && text.utf8.count { $0 == UInt8(ascii: ".") } == 2
            guard isSigned || mayBeUnsigned else {
                throw Self.rejection("its encrypted content is not signed (OpenID Connect Core section 16.14)")
            }
            return inner
        }
        throw Self.rejection("it cannot be decrypted with the client's key")
    }

    /// The keys with which ``decrypted(with:mayBeUnsigned:)`` tries to decrypt the token.
    package func candidates(among keys: [DecryptionKey]) -> [DecryptionKey] {
        let keyID = header["kid"]?.string
        let fitting = keys.filter { key in
            key.algorithms.contains(algorithm) && (keyID == nil || key.keyID == keyID)
        }
        return Array(fitting.prefix(Self.keyLimit))
    }

    private func content(with key: DecryptionKey) throws -> [UInt8] {
        // RFC 7516 section 11.5: it is "strongly RECOMMENDED" to "substitute a randomly generated CEK and proceed to the next step".
        let unwrapped = try? contentKey(with: key)
        return try encryption.decrypt(
            ciphertext,
            key: unwrapped ?? SymmetricKey(size: SymmetricKeySize(bitCount: encryption.keySize * 8)),
            initializationVector: initializationVector,
            tag: tag,
            authenticating: authenticated
        )
    }

    private func contentKey(with key: DecryptionKey) throws -> SymmetricKey {
        if algorithm.usesRSA { return try key.unwrap(encryptedKey, algorithm) }
        // RFC 7518 section 4.6: epk is REQUIRED, and is a public key on the same curve.
        let secret = try key.agreement(with: header["epk"] ?? .null)
        func partyInfo(_ name: String) throws -> [UInt8] {
            guard let value = header.headerParameter(name) else { return [] }
            guard let bytes = value.string.flatMap({ Base64URL.decode($0) }) else {
                throw CryptoKitError.incorrectParameterSize
            }
            return bytes
        }
        let wrappingKeySize = algorithm.wrappingKeySize
        let agreed = ConcatKDF.derive(
            from: secret,
            // Section 4.6.2: "enc" in direct key agreement, and "alg" when the key wraps another key.
            algorithm: wrappingKeySize == nil ? encryption.rawValue : algorithm.rawValue,
            partyU: try partyInfo("apu"),
            partyV: try partyInfo("apv"),
            size: wrappingKeySize ?? encryption.keySize
        )
        guard wrappingKeySize != nil else {
            // Section 4.6: in direct key agreement the encrypted key is empty.
            guard encryptedKey.isEmpty else { throw CryptoKitError.incorrectParameterSize }
            return agreed
        }
        return try AES.KeyWrap.unwrap(encryptedKey, using: agreed)
    }

    private static func rejection(_ reason: String) -> AuthError {
        AuthError(.invalidIDToken, "The encrypted token was rejected: \(reason).")
    }
}
