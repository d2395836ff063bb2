public import AuthFlowJSON
public import Foundation

/// An ID Token (OIDC Core section 2) whose signature and claims have passed every check.
///
/// There is no way to make one outside the engine: holding one means it was verified.
public struct IDToken: Sendable, Hashable {
    /// The header it was signed under.
    public let header: JWSHeader

    /// All claims.
    public let claims: JSON

    /// `iss`: the provider.
    public let issuer: String

    /// `sub`: the person, by a name that is unique at this issuer and never given to another.
    public let subject: String

    /// `aud`: the clients it is for; this client is among them.
    public let audience: [String]

    /// `exp`: until when it may be accepted.
    public let expiresAt: Date

    /// `iat`: when it was made.
    public let issuedAt: Date

    /// What a claim that ties a secret to this token has to say: the left half of the secret's hash, made as `at_hash` is (OIDC
    /// Core section 3.1.3.6).
    /// - Returns: nil when the token's algorithm has no hash.
    public func leftHash(of secret: Secret) -> String? { header.algorithm.definition?.hash.leftHalf(of: secret) }
}
