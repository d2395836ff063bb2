public import AuthFlowHTTP

/// Where a client's decryption keys come from: values, or files that are read again when they were replaced.
public struct DecryptionKeySource: Sendable {
    private let read: @Sendable () throws(AuthError) -> [DecryptionKey]

    /// Keys that stay the same. During a rotation there are several: the old one stays until no token for it is under way.
    public init(_ keys: [DecryptionKey]) {
        self.read = { () throws(AuthError) in keys }
    }

    /// The keys in a file: one in PEM, a JWK, or every private key for encryption of a JWK set.
    /// - Parameters:
    ///   - path: The file. No other user may be able to read it.
    ///   - keyID: The `kid` that the key is registered by; in a set, the only key to use. Default: that of the JWK, else the thumbprint.
    ///   - algorithm: The algorithm that the key is registered for; default: that of the JWK, else every one that fits it but
    ///     RSA-OAEP with SHA-1.
    public static func file(
        path: String,
        keyID: String? = nil,
        algorithm: KeyManagementAlgorithm? = nil
    ) -> DecryptionKeySource {
        let file = PrivateKeyFile(path: path) { text throws(AuthError) in
            try DecryptionKey.keys(text: text, keyID: keyID, algorithm: algorithm)
        }
        return DecryptionKeySource(file)
    }

    /// The keys of several sources.
    public init(_ sources: [DecryptionKeySource]) {
        self.read = { () throws(AuthError) in
            var keys: [DecryptionKey] = []
            for source in sources { keys += try source.keys() }
            return keys
        }
    }

    private init(_ file: PrivateKeyFile<[DecryptionKey]>) {
        self.read = { () throws(AuthError) in try file.key() }
    }

    /// The keys to decrypt with now.
    /// - Throws: ``AuthError`` with `invalid_configuration` when a file cannot be used.
    public func keys() throws(AuthError) -> [DecryptionKey] { try read() }
}
