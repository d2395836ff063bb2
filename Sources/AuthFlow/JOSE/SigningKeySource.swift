/// Where a client's signing key comes from: a value, or a file that is read again when it was replaced.
public struct SigningKeySource: Sendable {
    private let read: @Sendable () throws(AuthError) -> any SigningKey

    /// A key that stays the same.
    public init(_ key: any SigningKey) {
        self.read = { () throws(AuthError) in key }
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

    private init(_ file: PrivateKeyFile<PrivateKey>) {
        self.read = { () throws(AuthError) in try file.key() }
    }

    /// The key to sign with now.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the file cannot be used.
    public func key() throws(AuthError) -> any SigningKey { try read() }
}
