/// A JWS signature algorithm (RFC 7518 section 3.1), by its registered name.
///
/// Only asymmetric algorithms have names here: `none` and the HMAC family are not verified anywhere in this file's
/// folder, so a token that claims them can only be refused.
public struct SignatureAlgorithm: RawRepresentable, Sendable, Hashable {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public let rawValue: String
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public init(rawValue: String) { self.rawValue = rawValue }

    /// RSASSA-PKCS1-v1_5 with SHA-256. What OpenID providers use unless something else was agreed.
    public static let rs256 = Self(rawValue: "RS256")
    /// ECDSA on P-256 with SHA-256.
    public static let es256 = Self(rawValue: "ES256")

    /// The algorithms that ID Tokens are verified with.
    public static let supported: [SignatureAlgorithm] = [.rs256, .es256]
}
