package import AuthFlowHTTP
import Crypto

/// A JWS signature algorithm, by its registered name (RFC 7518 section 3.1, RFC 8037, RFC 9864).
///
/// There is no constant for `none`, because it provides no signature: a token with that algorithm is rejected.
public struct SignatureAlgorithm: RawRepresentable, Sendable, Hashable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// RSASSA-PKCS1-v1_5 with SHA-256. The default for OpenID providers.
    public static let rs256 = Self(rawValue: "RS256")
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    public static let rs384 = Self(rawValue: "RS384")
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    public static let rs512 = Self(rawValue: "RS512")
    /// RSASSA-PSS with SHA-256.
    public static let ps256 = Self(rawValue: "PS256")
    /// RSASSA-PSS with SHA-384.
    public static let ps384 = Self(rawValue: "PS384")
    /// RSASSA-PSS with SHA-512.
    public static let ps512 = Self(rawValue: "PS512")
    /// ECDSA on P-256 with SHA-256.
    public static let es256 = Self(rawValue: "ES256")
    /// ECDSA on P-384 with SHA-384.
    public static let es384 = Self(rawValue: "ES384")
    /// ECDSA on P-521 with SHA-512.
    public static let es512 = Self(rawValue: "ES512")
    /// EdDSA; only the curve Ed25519 is supported.
    public static let edDSA = Self(rawValue: "EdDSA")
    /// EdDSA with the curve Ed25519, under the name defined in RFC 9864.
    public static let ed25519 = Self(rawValue: "Ed25519")
    /// HMAC with SHA-256 and the client secret: for confidential clients that request it, never by default.
    public static let hs256 = Self(rawValue: "HS256")
    /// HMAC with SHA-384 and the client secret.
    public static let hs384 = Self(rawValue: "HS384")
    /// HMAC with SHA-512 and the client secret.
    public static let hs512 = Self(rawValue: "HS512")

    /// The asymmetric algorithms; by default, a provider may choose any of them.
    public static let asymmetric: [SignatureAlgorithm] = [
        .rs256, .rs384, .rs512, .ps256, .ps384, .ps512, .es256, .es384, .es512, .edDSA, .ed25519,
    ]

    /// The symmetric (HMAC) algorithms.
    package static let symmetric: [SignatureAlgorithm] = [.hs256, .hs384, .hs512]
}

extension SignatureAlgorithm {
    /// The hash functions from the table in RFC 7518 section 3.1.
    package enum Hash: Sendable {
        case sha256
        case sha384
        case sha512

        /// The length of a digest in bytes.
        var byteCount: Int {
            switch self {
            case .sha256: 32
            case .sha384: 48
            case .sha512: 64
            }
        }

        /// The left half of a digest, in base64url, as in `at_hash` (OIDC Core section 3.1.3.6).
        package func leftHalf(of secret: Secret) -> String {
            Base64URL.encode(digest(of: Array(secret.exposed.utf8)).prefix(byteCount / 2))
        }

        func digest(of bytes: [UInt8]) -> [UInt8] {
            switch self {
            case .sha256: Array(SHA256.hash(data: bytes))
            case .sha384: Array(SHA384.hash(data: bytes))
            case .sha512: Array(SHA512.hash(data: bytes))
            }
        }
    }

    /// The signature scheme.
    package enum Scheme: Sendable {
        case rsaPKCS1
        case rsaPSS
        case ecdsa
        case eddsa
        case hmac
    }

    /// The scheme and the hash; nil for an unknown name.
    package var definition: (scheme: Scheme, hash: Hash)? {
        switch self {
        case .rs256: (.rsaPKCS1, .sha256)
        case .rs384: (.rsaPKCS1, .sha384)
        case .rs512: (.rsaPKCS1, .sha512)
        case .ps256: (.rsaPSS, .sha256)
        case .ps384: (.rsaPSS, .sha384)
        case .ps512: (.rsaPSS, .sha512)
        case .es256: (.ecdsa, .sha256)
        case .es384: (.ecdsa, .sha384)
        case .es512: (.ecdsa, .sha512)
        // RFC 8032 section 5.1: Ed25519 hashes with SHA-512, so at_hash uses SHA-512 as well.
        case .edDSA, .ed25519: (.eddsa, .sha512)
        case .hs256: (.hmac, .sha256)
        case .hs384: (.hmac, .sha384)
        case .hs512: (.hmac, .sha512)
        default: nil
        }
    }
}
