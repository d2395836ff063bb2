public import AuthFlowEssentials
public import AuthFlowHTTP
public import AuthFlowJOSE
public import AuthFlowJSON

/// An ID Token (OIDC Core section 2) whose claims and signature have passed every check.
///
/// Only the engine can create an ID Token, so every instance has been verified.
public struct IDToken: Sendable, Hashable {
    /// The header of the signed token.
    public let header: JWSHeader

    /// All claims.
    public let claims: JSON

    /// `iss`: the provider.
    public let issuer: String

    /// `sub`: the user's identifier, which is unique at this issuer and never reassigned.
    public let subject: String

    /// `aud`: the clients for which the token is intended, including this client.
    public let audience: [String]

    /// `exp`: the expiry.
    public let expiresAt: Date

    /// `iat`: the time of issue.
    public let issuedAt: Date

    /// - Parameter verified: The claims of the token. Only the verifier creates it.
    init(_ verified: VerifiedJWT<IDTokenClaims>) {
        let token = verified.claims
        self.header = verified.header
        self.claims = token.json
        self.issuer = token.issuer
        self.subject = token.subject
        self.audience = token.audience
        self.expiresAt = token.expiresAt
        self.issuedAt = token.issuedAt
    }

    /// The value of a claim that binds a secret to this token: the left half of the secret's hash, computed as for
    /// `at_hash` (OIDC Core section 3.1.3.6).
    /// - Returns: nil when the token's algorithm has no hash.
    public func leftHash(of secret: Secret) -> String? { header.algorithm.definition?.hash.leftHalf(of: secret) }
}

/// An ID Token whose claims have passed every check, but whose signature has not been verified.
package struct IDTokenClaims: Sendable {
    let json: JSON
    let issuer: String
    let subject: String
    let audience: [String]
    let expiresAt: Date
    let issuedAt: Date
}

// MARK: - Stored form

extension IDToken {
    /// The token in its stored form.
    package var stored: JSON { ["header": header.json, "claims": claims] }

    /// Decodes a token from its ``stored`` form. The token was verified before it was stored, and the stored copy is as
    /// trustworthy as the refresh token stored with it.
    package init?(stored json: JSON) {
        guard let header = json["header"], let claims = json["claims"], let issuer = claims["iss"]?.string,
            let subject = claims["sub"]?.string, let expiry = claims["exp"]?.number, let issued = claims["iat"]?.number
        else { return nil }
        self.header = JWSHeader(header)
        self.claims = claims
        self.issuer = issuer
        self.subject = subject
        self.audience = claims["aud"]?.string.map { [$0] } ?? claims["aud"]?.strings ?? []
        self.expiresAt = Date(secondsSince1970: expiry)
        self.issuedAt = Date(secondsSince1970: issued)
    }
}
