public import AuthFlowJSON

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// An ID Token (OIDC Core section 2) whose claims and signature have passed every check.
///
/// There is no way to make one outside the engine: holding one means it was verified.
public struct IDToken: Sendable, Hashable {
    /// The header it was signed under.
    public let header: JWSHeader

    /// All claims.
    public let claims: JSON

    /// `iss`: the provider.
    public let issuer: String

    /// `sub`: the user, by a name that is unique at this issuer and never given to another.
    public let subject: String

    /// `aud`: the clients it is for; this client is among them.
    public let audience: [String]

    /// `exp`: until when it may be accepted.
    public let expiresAt: Date

    /// `iat`: when it was made.
    public let issuedAt: Date

    /// - Parameters:
    ///   - token: The token, whose claims have been checked.
    ///   - proof: That its signature has been checked, too.
    init(_ token: UnverifiedIDToken, _ proof: SignatureProof) {
        self.header = token.header
        self.claims = token.claims
        self.issuer = token.issuer
        self.subject = token.subject
        self.audience = token.audience
        self.expiresAt = token.expiresAt
        self.issuedAt = token.issuedAt
    }

    /// What a claim that ties a secret to this token has to say: the left half of the secret's hash, made as `at_hash` is (OIDC
    /// Core section 3.1.3.6).
    /// - Returns: nil when the token's algorithm has no hash.
    public func leftHash(of secret: Secret) -> String? { header.algorithm.definition?.hash.leftHalf(of: secret) }
}

/// An ID Token whose claims have passed every check, and whose signature has not been looked at.
struct UnverifiedIDToken: Sendable {
    let header: JWSHeader
    let claims: JSON
    let issuer: String
    let subject: String
    let audience: [String]
    let expiresAt: Date
    let issuedAt: Date
}

// MARK: - Stored form

extension IDToken {
    /// The token as a store keeps it.
    var stored: JSON { ["header": header.json, "claims": claims] }

    /// Reads what ``stored`` wrote. It was verified before it was stored, and what the store returns is as trustworthy as the
    /// refresh token beside it.
    init?(stored json: JSON) {
        guard let header = json["header"], let claims = json["claims"], let issuer = claims["iss"]?.string,
            let subject = claims["sub"]?.string, let expiry = claims["exp"]?.number, let issued = claims["iat"]?.number
        else { return nil }
        self.header = JWSHeader(header)
        self.claims = claims
        self.issuer = issuer
        self.subject = subject
        self.audience = claims["aud"]?.string.map { [$0] } ?? claims["aud"]?.strings ?? []
        self.expiresAt = Date(timeIntervalSince1970: expiry)
        self.issuedAt = Date(timeIntervalSince1970: issued)
    }
}
