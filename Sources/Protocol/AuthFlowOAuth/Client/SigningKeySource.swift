public import AuthFlowHTTP
public import AuthFlowJOSE
import AuthFlowPKCS11
import Synchronization

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

    #if os(Linux) || os(macOS)
    /// A key that cannot be copied, in a PKCS #11 token. The token is opened when the key is first used.
    /// - Parameters:
    ///   - uri: Names the key (RFC 7512), such as `pkcs11:token=Work;object=signing?module-path=/usr/lib/softhsm/libsofthsm2.so`.
    ///     Without `module-path` it is looked for in every module that p11-kit knows.
    ///   - pin: The PIN of the token; nil for a token that asks for none. A PIN that was refused is not tried again.
    ///   - keyID: The `kid` that the key is registered by; default: its thumbprint.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the URI does not name a private key.
    public static func pkcs11(
        _ uri: String,
        pin: Secret? = nil,
        keyID: String? = nil
    ) throws(AuthError) -> SigningKeySource {
        let place = PKCS11Place(uri: try PKCS11URI(uri), pin: pin, keyID: keyID)
        return SigningKeySource(isInToken: true) { () throws(AuthError) in try place.key() }
    }
    #endif

    /// Whether the key is in a token, which need not be present before it is used.
    package let isInToken: Bool

    private init(isInToken: Bool, read: @escaping @Sendable () throws(AuthError) -> any SigningKey) {
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
    func keyInTask() async throws -> any SigningKey {
        guard isInToken else { return try read() }
        return try await BlockingCall.run {
            try read()
        } onCancel: {
        }
    }
}

#if os(Linux) || os(macOS)

/// The place of a key in a token, and the key once it was opened.
private final class PKCS11Place: Sendable {
    private let uri: PKCS11URI
    private let pin: Secret?
    private let keyID: String?
    private let opened = Mutex<PKCS11Key?>(nil)

    init(uri: PKCS11URI, pin: Secret?, keyID: String?) {
        self.uri = uri
        self.pin = pin
        self.keyID = keyID
    }

    func key() throws(AuthError) -> PKCS11Key {
        let result = opened.withLock { opened -> Result<PKCS11Key, AuthError> in
            if let opened { return .success(opened) }
            let key = Result { () throws(AuthError) in try PKCS11Key(uri, pin: pin, keyID: keyID) }
            opened = try? key.get()
            return key
        }
        return try result.get()
    }
}
#endif
