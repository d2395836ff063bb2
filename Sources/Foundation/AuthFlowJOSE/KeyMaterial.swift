import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowJSON
import Crypto
import CryptoExtras

/// The supported elliptic curves (RFC 7518 section 6.2.1.1, RFC 8037 section 2).
enum KeyCurve: String {
    case p256 = "P-256"
    case p384 = "P-384"
    case p521 = "P-521"
    case ed25519 = "Ed25519"
    case x25519 = "X25519"

    /// `kty`.
    var keyType: String { isOctetKeyPair ? "OKP" : "EC" }

    /// Whether keys are byte strings rather than scalars and points (RFC 8037 section 2).
    var isOctetKeyPair: Bool { self == .ed25519 || self == .x25519 }

    /// The length of a coordinate, a scalar, or the key of an octet key pair, in bytes.
    var size: Int {
        switch self {
        case .p256, .ed25519, .x25519: 32
        case .p384: 48
        case .p521: 66
        }
    }
}

/// The parts of a public key, regardless of its use.
enum PublicKeyMaterial {
    case rsa(modulus: [UInt8], exponent: [UInt8])
    /// The two concatenated coordinates, or the public key of an octet key pair.
    case curve(KeyCurve, [UInt8])

    /// The maximum size of an RSA key, in bits. Verification with a larger key would be too expensive.
    static let maximumRSASize = 8192

    /// Reads the public members of a JWK.
    /// - Returns: nil when the type or curve is not supported, or a member is missing, not base64url or too long. The initializers of the
    ///   keys check whether a point is on its curve.
    init?(_ jwk: JSON) {
        if jwk["kty"] == "RSA" {
            guard let modulus = jwk.bytes("n"), let exponent = jwk.bytes("e"),
                modulus.count <= Self.maximumRSASize / 8 + 1
            else { return nil }
            self = .rsa(modulus: modulus, exponent: exponent)
            return
        }
        guard let curve = KeyCurve(jwk) else { return nil }
        guard curve.isOctetKeyPair else {
            guard let x = jwk.number("x", curve.size), let y = jwk.number("y", curve.size) else { return nil }
            self = .curve(curve, x + y)
            return
        }
        guard let bytes = jwk.bytes("x"), bytes.count == curve.size else { return nil }
        self = .curve(curve, bytes)
    }

    /// The public part of an RSA key; nil when it cannot be derived.
    init?(_ key: _RSA.Signing.PublicKey) {
        guard let primitives = try? key.getKeyPrimitives() else { return nil }
        self = .rsa(modulus: Array(primitives.modulus), exponent: Array(primitives.publicExponent))
    }

    /// The members of the JWK (RFC 7518 section 6).
    var members: [String: JSON] {
        func encoded(_ bytes: some Sequence<UInt8>) -> JSON { .string(Base64URL.encode(bytes)) }
        switch self {
        case .rsa(let modulus, let exponent): return ["kty": "RSA", "n": encoded(modulus), "e": encoded(exponent)]
        case .curve(let curve, let bytes):
            var members: [String: JSON] = ["kty": .string(curve.keyType), "crv": .string(curve.rawValue)]
            members["x"] = encoded(bytes.prefix(curve.size))
            if !curve.isOctetKeyPair { members["y"] = encoded(bytes.suffix(curve.size)) }
            return members
        }
    }
}

/// The parts of a private key, regardless of its use.
enum PrivateKeyMaterial {
    case rsa(_RSA.Signing.PrivateKey)
    /// The private scalar, or the private key of an octet key pair.
    case curve(KeyCurve, [UInt8])

    /// Reads the private members of a JWK.
    /// - Parameter rejection: Creates the error to throw, given the last part of its message.
    init(_ jwk: JSON, rejection: (String) -> AuthError) throws(AuthError) {
        guard jwk["d"] != nil else { throw rejection("it is a public key: the member \"d\" is missing") }
        if jwk["kty"] == "RSA" {
            // RFC 7518 section 6.3.2: a producer SHOULD include the primes. Recovering them from d is too expensive,
            // and does not terminate for a damaged key.
            let parts = ["n", "e", "d", "p", "q"].compactMap(jwk.bytes)
            guard parts.count == 5 else {
                throw rejection("a member of the RSA key (n, e, d, p, q) is missing or not base64url")
            }
            guard parts[0].count <= PublicKeyMaterial.maximumRSASize / 8 + 1,
                let key = try? _RSA.Signing.PrivateKey(n: parts[0], e: parts[1], d: parts[2], p: parts[3], q: parts[4])
            else { throw rejection("the RSA key is damaged, too long, or has fewer than 2048 bits") }
            try self.init(key, rejection)
            return
        }
        guard let curve = KeyCurve(jwk) else { throw rejection("its type or curve is not supported") }
        // RFC 8037 section 2: the bytes of the key, not a number whose leading zeros could be missing.
        guard let bytes = curve.isOctetKeyPair ? jwk.bytes("d") : jwk.number("d", curve.size) else {
            throw rejection("it is damaged")
        }
        self = .curve(curve, bytes)
    }

    /// Reads a PEM block (RFC 7468): PKCS #8, PKCS #1 for RSA, or SEC 1 for elliptic curves.
    /// - Parameters:
    ///   - kinds: The kinds of keys that the caller can use, for the message.
    ///   - rejection: Creates the error to throw, given the last part of its message.
    init(_ block: PEMBlock, kinds: String, rejection: (String) -> AuthError) throws(AuthError) {
        // swift-crypto does not check curve names, and would interpret the scalar of a key for a different curve as a
        // key for the requested curve.
        let named = KeyAlgorithm.of(block)
        if block.label != "EC PRIVATE KEY", let key = try? _RSA.Signing.PrivateKey(pemRepresentation: block.text) {
            try self.init(key, rejection)
        } else if named == KeyAlgorithm.p256, let key = try? P256.Signing.PrivateKey(pemRepresentation: block.text) {
            self = .curve(.p256, Array(key.rawRepresentation))
        } else if named == KeyAlgorithm.p384, let key = try? P384.Signing.PrivateKey(pemRepresentation: block.text) {
            self = .curve(.p384, Array(key.rawRepresentation))
        } else if named == KeyAlgorithm.p521, let key = try? P521.Signing.PrivateKey(pemRepresentation: block.text) {
            self = .curve(.p521, Array(key.rawRepresentation))
        } else if named == KeyAlgorithm.ed25519,
            let key = try? Curve25519.Signing.PrivateKey(pemRepresentation: block.text)
        {
            self = .curve(.ed25519, Array(key.rawRepresentation))
        } else {
            throw rejection(
                "it is damaged, or of an unsupported type (supported: RSA with 2048 bits or more, \(kinds))"
            )
        }
    }

    private init(_ key: _RSA.Signing.PrivateKey, _ rejection: (String) -> AuthError) throws(AuthError) {
        // RFC 7518 sections 3.3 and 4.3: "A key of size 2048 bits or larger MUST be used with these algorithms."
        guard key.keySizeInBits >= 2048 else {
            throw rejection("it has fewer than 2048 bits (RFC 7518 sections 3.3 and 4.3)")
        }
        self = .rsa(key)
    }
}

/// The parsed text of a key file: PEM, a JWK, or a JWK Set.
enum KeyText {
    case pem(PEMBlock)
    case key(JSON)
    case set([JSON])

    /// Parses text that contains a private key.
    /// - Parameter keyID: The `kid` under which the key is registered, which is added to a JWK without a `kid`; nil to
    ///   use the key's own `kid`.
    init(_ text: Secret, keyID: String?, rejection: (String) -> AuthError) throws(AuthError) {
        let start = text.exposed.utf8.first { !" \t\r\n".utf8.contains($0) }
        guard start == UInt8(ascii: "{") else {
            self = .pem(try PEMBlock.privateKey(in: text.exposed))
            return
        }
        guard let json = try? JSON(parsing: Array(text.exposed.utf8)) else { throw rejection("its file is not JSON") }
        if let keys = json["keys"]?.array {
            self = .set(keys)
            return
        }
        guard keyID == nil || json["kid"] == nil || json["kid"]?.string == keyID else {
            throw rejection("its \"kid\" differs from the configured key ID")
        }
        var members = json.object ?? [:]
        if let keyID { members["kid"] = .string(keyID) }
        self = .key(.object(members))
    }
}

extension KeyCurve {
    /// The curve of a JWK; nil when the curve is not supported, or does not match the key type.
    fileprivate init?(_ jwk: JSON) {
        guard let curve = jwk["crv"]?.string.flatMap(KeyCurve.init(rawValue:)), jwk["kty"]?.string == curve.keyType
        else { return nil }
        self = curve
    }
}

extension JSON {
    /// The decoded value of a base64url member.
    fileprivate func bytes(_ name: String) -> [UInt8]? { self[name]?.string.flatMap { Base64URL.decode($0) } }

    /// A numeric member at its full length; nil when it is missing or too long. RFC 7518 sections 6.2.1.2 and 6.2.2.1: the length "MUST be
    /// the full size"; some implementations omit leading zeros (in about one of every 128 P-256 keys), which does not change the number.
    fileprivate func number(_ name: String, _ size: Int) -> [UInt8]? {
        guard let bytes = bytes(name), 1...size ~= bytes.count else { return nil }
        return [UInt8](repeating: 0, count: size - bytes.count) + bytes
    }

    /// Whether the public members of a key match the public key that was derived from its private part.
    func hasPublicMembers(of derived: JSON) -> Bool {
        ["x", "y", "n", "e"].allSatisfy { name in
            guard self[name] != nil else { return true }
            guard let own = bytes(name), let other = derived.bytes(name) else { return false }
            // Leading zeros are ignored: some implementations omit them, which section 6.2.1.2 does not allow.
            return own.drop { $0 == 0 }.elementsEqual(other.drop { $0 == 0 })
        }
    }
}
