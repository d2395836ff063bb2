package import AuthFlowHTTP

/// The source of a client's signing key: a fixed value, a file that is reloaded after it has been replaced, or a hardware
/// token.
public struct SigningKeySource: Sendable {
    private let read: @Sendable () throws(AuthError) -> any SigningKey

    /// A fixed key.
    public init(_ key: any SigningKey) {
        self.init(isInHardwareToken: false) { () throws(AuthError) in key }
    }

    /// The key in a file: PEM, a JWK or a JWK Set. To rotate it, replace the file: the next signature uses the new key.
    /// - Parameters:
    ///   - path: The file. It must not be readable by other users.
    ///   - keyID: The `kid` under which the key is registered; in a set, the key to use. Default: the JWK's `kid` or thumbprint.
    public static func file(path: String, keyID: String? = nil) -> SigningKeySource {
        let file = PrivateKeyFile(path: path) { text throws(AuthError) in try PrivateKey(text: text, keyID: keyID) }
        return SigningKeySource(isInHardwareToken: false) { () throws(AuthError) in try file.key() }
    }

    /// Whether the key is in a hardware token, which is not required to be present until the key is used.
    package let isInHardwareToken: Bool

    /// - Parameters:
    ///   - isInHardwareToken: Whether reading the key may block.
    ///   - read: Returns the current signing key.
    package init(isInHardwareToken: Bool, read: @escaping @Sendable () throws(AuthError) -> any SigningKey) {
        self.isInHardwareToken = isInHardwareToken
        self.read = read
    }

    /// Returns the current signing key. Finding a key in a hardware token may block the thread.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the file cannot be used, or `key_unavailable` when the
    ///   hardware token cannot be used.
    package func key() throws(AuthError) -> any SigningKey { try read() }

    /// The current signing key, without blocking a thread of the cooperative pool.
    package func loadKey() async throws -> any SigningKey {
        guard isInHardwareToken else { return try read() }
        return try await BlockingCall.run { try read() }
    }
}
