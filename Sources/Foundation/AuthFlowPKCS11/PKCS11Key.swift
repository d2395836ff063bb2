package import AuthFlowHTTP
import AuthFlowJOSE

#if os(Linux) || os(macOS)
import AuthFlowJSON
import CPKCS11
import Crypto
import Synchronization

/// A non-exportable private key, which signs inside a PKCS #11 token.
package final class PKCS11Key: SigningKey {
    let publicJWK: JSON
    let algorithms: [SignatureAlgorithm]
    private let signatureSize: Int

    /// The public key as read from the token.
    private let foundJWK: JSON
    private let uri: PKCS11URI
    private let pin: Secret?
    /// The session; nil after it has been lost, until the next signature opens a new session.
    private let session: Mutex<Session?>

    /// An open session, and the key in it. The session is closed when this object is released.
    private final class Session: Sendable {
        let module: PKCS11Module
        let number: UInt
        let key: UInt

        init(module: PKCS11Module, number: UInt, key: UInt) {
            self.module = module
            self.number = number
            self.key = key
        }

        deinit { module.closeSession(number) }
    }

    /// Serializes logins, because concurrent logins would each find that the token still allows another attempt.
    private static let logins = Mutex(())

    /// The PINs that a token has rejected, as hashes of PIN and token, because a second attempt could lock the token.
    private static let rejectedPINs = Mutex<Set<String>>([])

    /// Opens a session, and finds the key.
    /// - Throws: ``AuthError`` with `key_unavailable`, whose message states the reason.
    package init(_ uri: PKCS11URI, pin: Secret?, keyID: String? = nil) throws(AuthError) {
        let session = try Self.open(uri, pin)
        self.uri = uri
        self.pin = pin
        let (jwk, algorithms, signatureSize) = try Self.publicKey(of: session, uri)
        self.foundJWK = jwk
        var members = jwk.object ?? [:]
        if let keyID { members["kid"] = .string(keyID) }
        self.publicJWK = .object(members)
        self.algorithms = algorithms
        self.signatureSize = signatureSize
        self.session = Mutex(session)
    }

    func signature(over bytes: [UInt8], by algorithm: SignatureAlgorithm) async throws -> [UInt8] {
        guard algorithms.contains(algorithm) else {
            throw AuthError(.unsupported, "The key in the hardware token cannot sign with \(algorithm.rawValue).")
        }
        // Smart cards are slow, and the call blocks the calling thread.
        let isCancelled = Mutex(false)
        return try await BlockingCall.run {
            try self.sign(bytes, algorithm) { isCancelled.withLock { $0 } }
        } onCancel: {
            isCancelled.withLock { $0 = true }
        }
    }

    private func sign(
        _ bytes: [UInt8],
        _ algorithm: SignatureAlgorithm,
        isCancelled: () -> Bool
    ) throws -> [UInt8] {
        let (input, mechanism): ([UInt8], Int) =
            switch algorithm {
            case .es256: (Array(SHA256.hash(data: bytes)), Int(AUTHFLOW_PKCS11_ECDSA))
            case .es384: (Array(SHA384.hash(data: bytes)), Int(AUTHFLOW_PKCS11_ECDSA))
            case .es512: (Array(SHA512.hash(data: bytes)), Int(AUTHFLOW_PKCS11_ECDSA))
            case .ps256: (bytes, Int(AUTHFLOW_PKCS11_SHA256_RSA_PSS))
            default: (bytes, Int(AUTHFLOW_PKCS11_SHA256_RSA))
            }
        let signature = try session.withLock { session in
            // A signature whose caller was cancelled must not delay others.
            guard !isCancelled() else { throw CancellationError() }
            if let open = session {
                do throws(PKCS11Module.Failure) {
                    return try open.module.sign(input, by: mechanism, key: open.key, in: open.number)
                } catch {
                    guard error.isLostSession else {
                        throw Self.rejection("signing failed (error \(error.result))", uri)
                    }
                }
                // The token was removed and inserted again, or its session was closed by another part of the program.
                session = nil
            }
            let opened = try Self.open(uri, pin)
            guard try Self.publicKey(of: opened, uri).jwk == foundJWK else {
                throw Self.rejection("it is not the same key as before", uri)
            }
            session = opened
            return try Self.translatingFailures(uri) { () throws(PKCS11Module.Failure) in
                try opened.module.sign(input, by: mechanism, key: opened.key, in: opened.number)
            }
        }
        // PKCS #11 requires the concatenation of r and s, each as long as the order of the curve. Some modules return a DER encoding instead.
        guard signature.count == signatureSize else {
            throw Self.rejection("its signature has \(signature.count) bytes instead of \(signatureSize)", uri)
        }
        return signature
    }

    // MARK: Opening

    /// Computes the HMAC-SHA-256 of bytes with a secret key on the PKCS #11 token. Blocks the calling thread.
    /// - Returns: The 32-byte authentication code, which is always the same for the same input.
    /// - Throws: ``AuthError`` with `key_unavailable`.
    package static func authenticationCode(for bytes: [UInt8], by uri: PKCS11URI, pin: Secret?) throws(AuthError)
        -> [UInt8]
    {
        let session = try open(uri, pin, Int(AUTHFLOW_PKCS11_SECRET_KEY))
        let code = try translatingFailures(uri) { () throws(PKCS11Module.Failure) in
            let mechanism = Int(AUTHFLOW_PKCS11_SHA256_HMAC)
            return try session.module.sign(bytes, by: mechanism, key: session.key, in: session.number)
        }
        guard code.count == SHA256.byteCount else { throw rejection("it does not support HMAC-SHA-256", uri) }
        return code
    }

    private static func open(
        _ uri: PKCS11URI,
        _ pin: Secret?,
        _ kind: Int = Int(AUTHFLOW_PKCS11_PRIVATE_KEY)
    ) throws(AuthError) -> Session {
        let module = try PKCS11Module.at(uri.module)
        let present = try translatingFailures(uri) { () throws(PKCS11Module.Failure) in try module.tokens() }
        let tokens = present.filter { token in
            token.flags & UInt(AUTHFLOW_PKCS11_INITIALIZED) != 0
                && (uri.token ?? token.label) == token.label && (uri.serial ?? token.serial) == token.serial
                && (uri.model ?? token.model) == token.model
                && (uri.manufacturer ?? token.manufacturer) == token.manufacturer
        }
        guard let token = tokens.first else {
            let labels = present.filter { !$0.label.isEmpty }.map {
                "\"\(DisplayText.sanitized($0.label, limit: 40))\""
            }
            throw rejection(
                "the token is not present. Tokens present: \(labels.isEmpty ? "none" : labels.joined(separator: ", "))",
                uri
            )
        }
        guard tokens.count == 1 else {
            throw rejection("several tokens match; select one by its label or serial number", uri)
        }
        let number = try translatingFailures(uri) { () throws(PKCS11Module.Failure) in
            try module.openSession(at: token.slot)
        }
        var isReturned = false
        defer { if !isReturned { module.closeSession(number) } }
        if token.flags & UInt(AUTHFLOW_PKCS11_LOGIN_REQUIRED) != 0 { try login(module, number, token, uri, pin) }
        let keys = try translatingFailures(uri) { () throws(PKCS11Module.Failure) in
            try module.objects(kind, label: uri.object, identifier: uri.identifier, in: number)
        }
        guard let key = keys.first else {
            throw rejection(
                "the token has no such \(kind == AUTHFLOW_PKCS11_SECRET_KEY ? "secret" : "private") key",
                uri
            )
        }
        guard keys.count == 1 else { throw rejection("the token has several such keys; select one by its id", uri) }
        isReturned = true
        return Session(module: module, number: number, key: key)
    }

    private static func login(
        _ module: PKCS11Module,
        _ session: UInt,
        _ token: PKCS11Module.Token,
        _ uri: PKCS11URI,
        _ pin: Secret?
    ) throws(AuthError) {
        guard let pin else { throw rejection("the token requires a PIN, but none is configured", uri) }
        let result = logins.withLock { _ in
            Result { () throws(AuthError) in try loginSerially(module, session, token.slot, uri, pin) }
        }
        try result.get()
    }

    private static func loginSerially(
        _ module: PKCS11Module,
        _ session: UInt,
        _ slot: UInt,
        _ uri: PKCS11URI,
        _ pin: Secret
    ) throws(AuthError) {
        // Reads the current state of the token, because another login may have failed since it was listed.
        let tokens = try translatingFailures(uri) { () throws(PKCS11Module.Failure) in try module.tokens() }
        guard let token = tokens.first(where: { $0.slot == slot }) else {
            throw rejection("the hardware token is no longer present", uri)
        }
        guard token.flags & UInt(AUTHFLOW_PKCS11_PIN_IS_LOCKED) == 0 else {
            throw rejection("the token is locked after too many wrong PINs", uri)
        }
        let digest = Base64URL.encode(
            SHA256.hash(data: Array("\(uri.module)\u{0}\(token.serial)\u{0}\(pin.exposed)".utf8))
        )
        guard !rejectedPINs.withLock({ $0.contains(digest) }) else {
            throw rejection(
                "the token has rejected this PIN. It is not retried, because another attempt could lock the token",
                uri
            )
        }
        // Otherwise, a program that is started repeatedly would lock a PKCS #11 token whose PIN has changed.
        guard token.flags & UInt(AUTHFLOW_PKCS11_PIN_FINAL_TRY) == 0 else {
            throw rejection(
                "one more wrong PIN would lock the token; enter the correct PIN with another program first",
                uri
            )
        }
        do throws(PKCS11Module.Failure) {
            try module.login(session, pin: pin)
        } catch {
            switch error.result {
            case UInt(AUTHFLOW_PKCS11_PIN_INCORRECT):
                rejectedPINs.withLock { _ = $0.insert(digest) }
                throw rejection("the PIN is wrong", uri)
            case UInt(AUTHFLOW_PKCS11_PIN_LOCKED): throw rejection("the token is locked after too many wrong PINs", uri)
            default: throw rejection("the login to the token failed (error \(error.result))", uri)
            }
        }
    }

    private static func publicKey(
        of session: Session,
        _ uri: PKCS11URI
    ) throws(AuthError) -> (jwk: JSON, algorithms: [SignatureAlgorithm], signatureSize: Int) {
        func attribute(_ type: Int, of object: UInt? = nil) throws(AuthError) -> [UInt8] {
            try translatingFailures(uri) { () throws(PKCS11Module.Failure) in
                try session.module.attribute(type, of: object ?? session.key, in: session.number)
            }
        }
        let type = try attribute(AUTHFLOW_PKCS11_KEY_TYPE).enumerated()
            .reduce(0) { $0 | UInt($1.element) << (UInt($1.offset) * 8) }
        var members: [String: JSON]
        let algorithms: [SignatureAlgorithm]
        let signatureSize: Int
        switch type {
        case UInt(AUTHFLOW_PKCS11_RSA):
            let modulus = Array(try attribute(AUTHFLOW_PKCS11_MODULUS).drop { $0 == 0 })
            // RFC 7518 section 3.3: "A key of size 2048 bits or larger MUST be used with these algorithms."
            guard modulus.count >= 256 else { throw rejection("it has fewer than 2048 bits", uri) }
            members = [
                "kty": "RSA", "n": .string(Base64URL.encode(modulus)),
                "e": .string(Base64URL.encode(try attribute(AUTHFLOW_PKCS11_PUBLIC_EXPONENT).drop { $0 == 0 })),
            ]
            algorithms = [.ps256, .rs256]
            signatureSize = modulus.count
        case UInt(AUTHFLOW_PKCS11_EC):
            let parameters = try attribute(AUTHFLOW_PKCS11_EC_PARAMS)
            guard let curve = curves.first(where: { $0.parameters == parameters }) else {
                throw rejection("its curve is not P-256, P-384 or P-521", uri)
            }
            // The point is an attribute of the public key, which has the same identifier as the private key.
            let identifier = try attribute(AUTHFLOW_PKCS11_ID)
            let publicKeys = try translatingFailures(uri) { () throws(PKCS11Module.Failure) in
                try session.module.objects(
                    AUTHFLOW_PKCS11_PUBLIC_KEY,
                    label: identifier.isEmpty ? uri.object : nil,
                    identifier: identifier.isEmpty ? nil : identifier,
                    in: session.number
                )
            }
            guard let publicKey = publicKeys.first else {
                throw rejection("the token has no matching public key", uri)
            }
            // An octet string with an uncompressed point; some tokens omit the octet string.
            let encoded = try attribute(AUTHFLOW_PKCS11_EC_POINT, of: publicKey)
            let point = Array(encoded.suffix(2 * curve.size))
            guard point.count == 2 * curve.size, encoded.dropLast(point.count).last == 4 else {
                throw rejection("its public key cannot be read", uri)
            }
            members = [
                "kty": "EC", "crv": .string(curve.name), "x": .string(Base64URL.encode(point.prefix(curve.size))),
                "y": .string(Base64URL.encode(point.suffix(curve.size))),
            ]
            algorithms = [curve.algorithm]
            signatureSize = 2 * curve.size
        default: throw rejection("it is neither an RSA key nor an elliptic curve key", uri)
        }
        members["kid"] = JSON.object(members).jwkThumbprint.map(JSON.string)
        members["use"] = "sig"
        if algorithms.count == 1 { members["alg"] = .string(algorithms[0].rawValue) }
        return (.object(members), algorithms, signatureSize)
    }

    /// The curves by their object identifiers in DER (RFC 5480 section 2.1.1.1).
    private static let curves: [(name: String, size: Int, algorithm: SignatureAlgorithm, parameters: [UInt8])] = [
        ("P-256", 32, .es256, [0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07]),
        ("P-384", 48, .es384, [0x06, 0x05, 0x2B, 0x81, 0x04, 0x00, 0x22]),
        ("P-521", 66, .es512, [0x06, 0x05, 0x2B, 0x81, 0x04, 0x00, 0x23]),
    ]

    private static func translatingFailures<Value>(
        _ uri: PKCS11URI,
        _ body: () throws(PKCS11Module.Failure) -> Value
    ) throws(AuthError) -> Value {
        do throws(PKCS11Module.Failure) {
            return try body()
        } catch {
            throw rejection("the token returned an unexpected error (\(error.result))", uri)
        }
    }

    private static func rejection(_ reason: String, _ uri: PKCS11URI) -> AuthError {
        let name = uri.object ?? uri.identifier.map { Base64URL.encode($0) } ?? ""
        return AuthError(
            .keyUnavailable,
            "The key \"\(DisplayText.sanitized(name, limit: 60))\" in the hardware token \"\(DisplayText.sanitized(uri.token ?? "", limit: 60))\" cannot be used: \(reason)."
        )
    }
}
#endif
