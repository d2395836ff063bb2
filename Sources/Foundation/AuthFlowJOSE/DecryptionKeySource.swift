package import AuthFlowHTTP

/// The source of a client's decryption keys: fixed values, or files that are reloaded after they have been replaced.
public struct DecryptionKeySource: Sendable {
    private let read: @Sendable () throws(AuthError) -> [DecryptionKey]

    /// Fixed keys. During a rotation there are several keys: keep the old key until no token encrypted with it is in transit.
    public init(_ keys: [DecryptionKey]) {
        self.read = { () throws(AuthError) in keys }
    }

    /// The keys in a file: a key in PEM, a JWK, or every private encryption key of a JWK Set.
    /// - Parameters:
    ///   - path: The file. It must not be readable by other users.
    ///   - keyID: The `kid` under which the key is registered; in a set, the only key to use. Default: the JWK's `kid`, or the
    ///     thumbprint.
    ///   - algorithm: The key's registered algorithm; default: the JWK's `alg`, or else every algorithm
    ///     that the key supports, except RSA-OAEP with SHA-1.
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

    /// The keys from several sources.
    package init(_ sources: [DecryptionKeySource]) {
        self.read = { () throws(AuthError) in
            var keys: [DecryptionKey] = []
            for source in sources { keys += try source.keys() }
            return keys
        }
    }

    private init(_ file: PrivateKeyFile<[DecryptionKey]>) {
        self.read = { () throws(AuthError) in try file.key() }
    }

    /// The current decryption keys.
    /// - Throws: ``AuthError`` with `invalid_configuration` when a file cannot be used.
    package func keys() throws(AuthError) -> [DecryptionKey] { try read() }
}
