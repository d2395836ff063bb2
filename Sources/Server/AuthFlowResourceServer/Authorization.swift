public import AuthFlowEssentials
public import AuthFlowJSON
public import HTTPTypes

/// The authorization of one request: whom its token is for, and what it permits.
public struct Authorization: Sendable, Hashable {
    /// The issuer of the token.
    public let issuer: String

    /// `sub`: the user, or the client where no user is involved. Unique with the issuer, and not by itself. nil: an introspection that
    /// does not say.
    public let subject: String?

    /// `client_id`: the client; nil where the issuer does not say.
    public let clientID: String?

    /// The scopes.
    public let scopes: Set<String>

    /// The end of the token; nil: an introspection that does not say.
    public let expiresAt: Date?

    /// `authorization_details` (RFC 9396), as the token has them; nil for none.
    public let authorizationDetails: JSON?

    /// Whether the token is bound to a DPoP key, whose proof came with the request.
    public let isBoundToKey: Bool

    /// Whether the token is bound to a certificate, which the client has shown.
    public let isBoundToCertificate: Bool

    /// All claims of the token, or members of the introspection.
    public let claims: JSON

    /// The fields for the response, whatever it is: the nonce of the next proof (RFC 9449 section 8.2). Mostly empty.
    public let responseFields: HTTPFields

    init(_ token: AccessToken, _ binding: TokenBinding, nonce: String?, isExposed: Bool) {
        self.issuer = token.issuer
        self.subject = token.claims["sub"]?.string
        self.clientID = token.clientID
        self.scopes = token.scopes
        self.expiresAt = token.expiresAt
        self.authorizationDetails = token.claims["authorization_details"]
        self.isBoundToKey = binding.key != nil
        self.isBoundToCertificate = binding.certificate != nil
        self.claims = token.claims
        var fields = HTTPFields()
        if let nonce {
            fields[.dpopNonce] = nonce
            if isExposed { fields[.accessControlExposeHeaders] = "DPoP-Nonce" }
        }
        self.responseFields = fields
    }
}
