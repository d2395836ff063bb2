import AuthFlowHTTP

#if os(Linux) || os(macOS)
import CPKCS11
import Synchronization

/// A PKCS #11 library, which provides access to tokens. It stays loaded for the lifetime of the process.
///
/// Only one thread calls it at a time. The library is asked to perform its own locking (`CKF_OS_LOCKING_OK`), but not
/// every library does so: concurrent calls to tpm2-pkcs11 fail.
@safe final class PKCS11Module: @unchecked Sendable {  // the pointer is never freed, and is used only under the lock
    private let pointer: OpaquePointer
    private let lock = Mutex(())

    private init(pointer: OpaquePointer) {
        unsafe self.pointer = unsafe pointer
    }

    private static let opened = Mutex<[String: PKCS11Module]>([:])

    /// The return value of a function, other than CKR_OK.
    struct Failure: Error {
        let result: UInt

        /// Whether the session has been lost, in which case the call may succeed in a new session.
        var isLostSession: Bool {
            [
                AUTHFLOW_PKCS11_DEVICE_REMOVED, AUTHFLOW_PKCS11_SESSION_CLOSED,
                AUTHFLOW_PKCS11_SESSION_HANDLE_INVALID, AUTHFLOW_PKCS11_TOKEN_NOT_PRESENT,
                AUTHFLOW_PKCS11_USER_NOT_LOGGED_IN,
            ].contains { UInt($0) == result }
        }
    }

    /// Opens a library, once per process.
    /// - Throws: ``AuthError`` with `key_unavailable`.
    static func at(_ path: String) throws(AuthError) -> PKCS11Module {
        let known = opened.withLock { modules -> Result<PKCS11Module, AuthError> in
            if let module = modules[path] { return .success(module) }
            var pointer: OpaquePointer?
            let result = unsafe authflow_pkcs11_open(path, &pointer)
            guard result == AUTHFLOW_PKCS11_OK, let pointer = unsafe pointer else {
                let shown = DisplayText.sanitized(path)
                let reason =
                    switch result {
                    case UInt(AUTHFLOW_PKCS11_NO_LIBRARY): "it does not exist or cannot be loaded"
                    case UInt(AUTHFLOW_PKCS11_NO_FUNCTIONS): "it is not a PKCS #11 library"
                    default: "it cannot be initialized (error \(result))"
                    }
                return .failure(AuthError(.keyUnavailable, "The PKCS #11 library \(shown) cannot be used: \(reason)."))
            }
            let module = unsafe PKCS11Module(pointer: pointer)
            modules[path] = module
            return .success(module)
        }
        return try known.get()
    }

    private static func require(_ result: UInt) throws(Failure) {
        guard result == AUTHFLOW_PKCS11_OK else { throw Failure(result: result) }
    }

    /// A PKCS #11 token that is present in a slot.
    struct Token {
        let slot: UInt
        let label: String
        let serial: String
        let model: String
        let manufacturer: String
        let flags: UInt
    }

    func tokens() throws(Failure) -> [Token] {
        var tokens = [authflow_pkcs11_token](repeating: authflow_pkcs11_token(), count: 64)
        var count = UInt(tokens.count)
        try Self.require(lock.withLock { _ in unsafe authflow_pkcs11_tokens(pointer, &tokens, &count) })
        return tokens.prefix(Int(count)).map { token in
            // PKCS #11 requires these fields to be padded with spaces.
            func text<Bytes>(_ bytes: Bytes) -> String {
                let all = unsafe withUnsafeBytes(of: bytes) { unsafe Array($0) }
                return String(decoding: all, as: UTF8.self).trimmingSpaces()
            }
            return Token(
                slot: token.slot,
                label: text(token.label),
                serial: text(token.serial),
                model: text(token.model),
                manufacturer: text(token.manufacturer),
                flags: token.flags
            )
        }
    }

    func openSession(at slot: UInt) throws(Failure) -> UInt {
        var session: UInt = 0
        try Self.require(lock.withLock { _ in unsafe authflow_pkcs11_open_session(pointer, slot, &session) })
        return session
    }

    func closeSession(_ session: UInt) {
        lock.withLock { _ in _ = unsafe authflow_pkcs11_close_session(pointer, session) }
    }

    func login(_ session: UInt, pin: Secret) throws(Failure) {
        let bytes = Array(pin.exposed.utf8)
        let result = lock.withLock { _ in
            unsafe authflow_pkcs11_login(pointer, session, bytes, UInt(bytes.count))
        }
        guard result != AUTHFLOW_PKCS11_USER_ALREADY_LOGGED_IN else { return }
        try Self.require(result)
    }

    /// Returns at most two objects: one object is the expected result; two mean that the search is ambiguous.
    func objects(
        _ kind: Int,
        label: String?,
        identifier: [UInt8]?,
        in session: UInt
    ) throws(Failure) -> [UInt] {
        var objects: [UInt] = [0, 0]
        var count = UInt(objects.count)
        let text = label.map { Array($0.utf8) }
        try Self.require(
            lock.withLock { _ in
                unsafe authflow_pkcs11_find(
                    pointer,
                    session,
                    UInt(kind),
                    text,
                    UInt(text?.count ?? 0),
                    identifier,
                    UInt(identifier?.count ?? 0),
                    &objects,
                    &count
                )
            }
        )
        return Array(objects.prefix(Int(count)))
    }

    func attribute(_ type: Int, of object: UInt, in session: UInt) throws(Failure) -> [UInt8] {
        var value = [UInt8](repeating: 0, count: 4096)
        var length = UInt(value.count)
        try Self.require(
            lock.withLock { _ in
                unsafe authflow_pkcs11_attribute(pointer, session, object, UInt(type), &value, &length)
            }
        )
        return Array(value.prefix(Int(length)))
    }

    func sign(_ bytes: [UInt8], by mechanism: Int, key: UInt, in session: UInt) throws(Failure) -> [UInt8] {
        var signature = [UInt8](repeating: 0, count: 1024)
        var length = UInt(signature.count)
        try Self.require(
            lock.withLock { _ in
                unsafe authflow_pkcs11_sign(
                    pointer,
                    session,
                    key,
                    UInt(mechanism),
                    bytes,
                    UInt(bytes.count),
                    &signature,
                    &length
                )
            }
        )
        return Array(signature.prefix(Int(length)))
    }
}
#endif
