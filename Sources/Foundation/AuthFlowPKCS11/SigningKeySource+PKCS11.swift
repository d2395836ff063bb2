#if os(Linux) || os(macOS)

public import AuthFlowHTTP
public import AuthFlowJOSE
import Synchronization

extension SigningKeySource {
    /// A non-exportable key in a PKCS #11 token. The token is opened when the key is first used.
    /// - Parameters:
    ///   - uri: The URI of the key (RFC 7512), such as `pkcs11:token=Work;object=signing?module-path=/usr/lib/softhsm/libsofthsm2.so`.
    ///     Without `module-path`, every module registered with p11-kit is searched.
    ///   - pin: The PIN of the token; nil for a token that requires none. A PIN that was rejected is not tried again.
    ///   - keyID: The `kid` under which the key is registered; default: its thumbprint.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the URI does not identify a private key.
    public static func pkcs11(
        _ uri: String,
        pin: Secret? = nil,
        keyID: String? = nil
    ) throws(AuthError) -> SigningKeySource {
        let reference = PKCS11KeyReference(uri: try PKCS11URI(uri), pin: pin, keyID: keyID)
        return SigningKeySource(isInHardwareToken: true) { () throws(AuthError) in try reference.key() }
    }
}

/// The location of a key in a hardware token, and the key once it has been opened.
private final class PKCS11KeyReference: Sendable {
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
