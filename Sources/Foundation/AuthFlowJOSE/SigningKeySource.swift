public import AuthFlowHTTP

/// Where a client's signing key comes from: a value, or a file that is read again when it was replaced.
public struct SigningKeySource: Sendable {
    private let read: @Sendable () throws(AuthError) -> any SigningKey

    /// A key that stays the same.
    public init(_ key: any SigningKey) {
        self.init(isInToken: false) { () throws(AuthError) in key }
    }

    /// The key in a file: PEM, JWK or a JWK set. To rotate it, replace the file: the next signature uses the new key.
    /// - Parameters:
    ///   - path: The file. No other user may be able to read it.
    ///   - keyID: The `kid` that the key is registered by; in a set, the key to use. Default: that of the JWK, else the thumbprint.
    public static func file(path: String, keyID: String? = nil) -> SigningKeySource {
        SigningKeySource(
            PrivateKeyFile(path: path) { text throws(AuthError) in try PrivateKey(text: text, keyID: keyID) }
        )
    }

    /// Whether the key is in a hardware token, which need not be present before it is used.
    package let isInToken: Bool

    /// - Parameters:
    ///   - isInToken: Whether reading the key may block.
    ///   - read: Returns the key to sign with now.
    package init(isInToken: Bool, read: @escaping @Sendable () throws(AuthError) -> any SigningKey) {
        self.isInToken = isInToken
        self.read = read
    }

    private init(_ file: PrivateKeyFile<PrivateKey>) {
        self.init(isInToken: false) { () throws(AuthError) in try file.key() }
    }

    /// The key to sign with now. A key in a token may have to be found first, for which the thread waits.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the file cannot be used, `key_unavailable` when the token cannot.
    public func key() throws(AuthError) -> any SigningKey { try read() }

    /// The key to sign with now, without blocking the threads that tasks share.
    package func keyInTask() async throws -> any SigningKey {
        guard isInToken else { return try read() }
        return try await BlockingCall.run {
            try read()
        } onCancel: {
        }
    }
}
