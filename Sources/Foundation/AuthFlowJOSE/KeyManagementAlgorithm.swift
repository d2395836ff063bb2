/// The key management algorithm of an encrypted token (`alg`, RFC 7518 section 4), from an extensible set.
public struct KeyManagementAlgorithm: RawRepresentable, Sendable, Hashable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// RSA-OAEP with SHA-256.
    public static let rsaOAEP256 = Self(rawValue: "RSA-OAEP-256")
    /// RSA-OAEP with SHA-1. It is secure, because OAEP does not require a collision-resistant hash, but is used only if
    /// specified explicitly, because newer servers support SHA-256.
    public static let rsaOAEP = Self(rawValue: "RSA-OAEP")
    /// The agreed key is the content encryption key.
    public static let ecdhES = Self(rawValue: "ECDH-ES")
    /// A 128-bit agreed key wraps the content encryption key.
    public static let ecdhESA128KW = Self(rawValue: "ECDH-ES+A128KW")
    /// A 192-bit agreed key wraps the content encryption key.
    public static let ecdhESA192KW = Self(rawValue: "ECDH-ES+A192KW")
    /// A 256-bit agreed key wraps the content encryption key.
    public static let ecdhESA256KW = Self(rawValue: "ECDH-ES+A256KW")

    /// The implemented algorithms. RSA1_5 is not implemented, because its errors can reveal whether the padding is
    /// valid (a padding oracle), which discloses the content encryption key (RFC 8725 section 3.2: "avoid all
    /// RSA-PKCS1 v1.5 encryption algorithms").
    package static let all: [KeyManagementAlgorithm] = [
        .ecdhESA256KW, .ecdhESA192KW, .ecdhESA128KW, .ecdhES, .rsaOAEP256, .rsaOAEP,
    ]

    /// Whether the content encryption key is encrypted with an RSA key.
    var usesRSA: Bool { self == .rsaOAEP || self == .rsaOAEP256 }

    /// The size, in bytes, of the agreed key that wraps the content encryption key; nil when no key is wrapped.
    var wrappingKeySize: Int? {
        switch self {
        case .ecdhESA128KW: 16
        case .ecdhESA192KW: 24
        case .ecdhESA256KW: 32
        default: nil
        }
    }
}
