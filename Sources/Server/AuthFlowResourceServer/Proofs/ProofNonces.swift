import AuthFlowEssentials
public import AuthFlowHTTP
import Crypto

/// The key for an API's DPoP nonces (RFC 9449 section 9). It must be the same on every instance of the API.
public struct NonceKey: Sendable {
    /// The time for which a nonce is accepted; default: five minutes.
    public let lifetime: Duration

    let key: Secret

    /// Creates a key.
    /// - Parameters:
    ///   - key: At least 32 random bytes, base64url-encoded.
    ///   - lifetime: The lifetime of a nonce; default: five minutes.
    /// - Throws: ``/AuthFlow/AuthError`` with `invalid_configuration` for a shorter key.
    public init(_ key: Secret, lifetime: Duration = .seconds(300)) throws(AuthError) {
        guard let bytes = Base64URL.decode(key.exposed), bytes.count >= 32 else {
            throw AuthError(.invalidConfiguration, "The nonce key must be at least 32 bytes, base64url-encoded.")
        }
        self.key = key
        self.lifetime = lifetime
    }

    /// A random key, for an API that runs in a single process. Its nonces become invalid when the process exits;
    /// clients then receive a new nonce.
    public static func random(host: HostServices = .system, lifetime: Duration = .seconds(300)) -> NonceKey {
        NonceKey(Secret(Base64URL.encode(host.randomBytes(32))), checked: lifetime)
    }

    private init(_ key: Secret, checked lifetime: Duration) {
        self.key = key
        self.lifetime = lifetime
    }
}

/// An API's stateless nonces: each is a timestamp and its message authentication code (HMAC-SHA-256) under the key.
struct ProofNonces: Sendable {
    private let key: SymmetricKey
    private let lifetime: Double
    private let now: @Sendable () -> Date

    /// The size of the truncated authentication code, in bytes. A 128-bit code cannot be guessed.
    private static let codeSize = 16
    /// The allowed clock skew between two instances of the API, in seconds.
    private static let leeway = 30.0

    init(_ key: NonceKey, host: HostServices) {
        self.key = SymmetricKey(data: Base64URL.decode(key.key.exposed) ?? [])
        self.lifetime = key.lifetime.seconds
        self.now = host.now
    }

    /// A nonce for the current time.
    func next() -> String { nonce(at: Int64(now().timeIntervalSince1970)) }

    private func nonce(at time: Int64) -> String {
        let bytes = (0..<8).map { UInt8(truncatingIfNeeded: time >> (56 - 8 * $0)) }
        let code = Array(HMAC<SHA256>.authenticationCode(for: Array("AuthFlow DPoP nonce".utf8) + bytes, using: key))
        return Base64URL.encode(bytes + code.prefix(Self.codeSize))
    }

    /// Checks the nonce of a proof.
    /// - Returns: The nonce for the next proof, when this nonce is in the second half of its lifetime (section 8.2).
    /// - Throws: ``TokenFailure/requiresNonce`` if the nonce is missing, has expired, or was not issued by the API.
    func check(_ nonce: String?, at now: Date) throws(TokenFailure) -> String? {
        let nonce = nonce ?? ""
        let issued = (Base64URL.decode(nonce) ?? []).prefix(8).reduce(Int64(0)) { $0 << 8 | Int64($1) }
        // ``Secret`` compares in constant time.
        guard Secret(nonce) == Secret(self.nonce(at: issued)) else { throw .requiresNonce }
        let age = now.timeIntervalSince1970 - Double(issued)
        guard age >= -Self.leeway, age < lifetime else { throw .requiresNonce }
        return age > lifetime / 2 ? next() : nil
    }
}
