public import AuthFlow

/// The encryption of an emulated provider's tokens and responses to a client (RFC 7516).
public struct EmulatedEncryption: Sendable {
    /// The client's public key (RFC 7517), as returned by `DecryptionKey.publicJWK`.
    public var key: JSON
    /// `alg`.
    public var algorithm: KeyManagementAlgorithm
    /// `enc`.
    public var encryption: ContentEncryption
    /// The kinds of responses to encrypt.
    public var responses: Set<EncryptedResponse>
    /// Changes the header before it is authenticated.
    public var header: EmulatorFault.Change = { _ in }
    /// Changes the plaintext.
    public var content: @Sendable (String) -> String = { $0 }
    /// Changes the JWE after encryption.
    public var text: @Sendable (String) -> String = { $0 }

    /// Creates encryption settings.
    public init(
        to key: JSON,
        algorithm: KeyManagementAlgorithm,
        encryption: ContentEncryption = .a128CBCHS256,
        responses: Set<EncryptedResponse> = [.idToken]
    ) {
        self.key = key
        self.algorithm = algorithm
        self.encryption = encryption
        self.responses = responses
    }

    /// Encrypts text.
    /// - Throws: `AuthError` with `unsupported` when the key cannot be used; `CryptoKitError` when the key does not support the algorithm.
    public func encrypted(_ plain: String) throws -> String {
        guard let key = EncryptionKey(key) else {
            throw AuthError(.unsupported, "The emulator cannot encrypt to this key.")
        }
        return text(
            try key.encrypted(
                content(plain),
                algorithm,
                encryption,
                producer: Array("AuthFlow".utf8),
                header: { header(&$0) }
            )
        )
    }
}

extension OIDCEmulator.Client {
    /// The text to send to the client, encrypted if the client is registered for encryption of this kind of response.
    func received(_ text: String, _ kind: EncryptedResponse) throws -> String {
        guard let encryption, encryption.responses.contains(kind) else { return text }
        return try encryption.encrypted(text)
    }
}
