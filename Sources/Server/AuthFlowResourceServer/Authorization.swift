public import AuthFlowEssentials
import AuthFlowHTTP
import AuthFlowJOSE
public import AuthFlowJSON
public import HTTPTypes

/// The authorization of one request: the subject, the scopes and the other claims of its access token.
public struct Authorization: Sendable {
    let token: AccessToken
    /// The API that authorized the request.
    private let server: ObjectIdentifier
    private let nonce: String?
    private let isExposed: Bool
    /// Whether the request is a HEAD request.
    let isHead: Bool

    init(_ token: AccessToken, by server: ResourceServer, nonce: String?, isHead: Bool) {
        self.token = token
        self.server = ObjectIdentifier(server)
        self.nonce = nonce
        self.isExposed = server.rules.exposesChallengesToBrowsers
        self.isHead = isHead
    }

    /// Whether the given API created this authorization.
    func isMade(by other: ResourceServer) -> Bool { server == ObjectIdentifier(other) }

    /// The issuer of the token.
    public var issuer: String { token.issuer }

    /// `sub`: the user, or the client if no user is involved. Unique only together with the issuer. nil if the token or
    /// the introspection response has no `sub`.
    public var subject: String? { token.subject }

    /// `client_id`: the client; in a JWT without the type `at+jwt`, otherwise `azp`, `cid` or `appid`. nil if the token has none of them.
    public var clientID: String? { token.clientID }

    /// The scopes.
    public var scopes: Set<String> { token.scopes }

    /// The expiry of the token; nil if the introspection response has no `exp`.
    public var expiresAt: Date? { token.end.map(Date.init(secondsSince1970:)) }

    /// `authorization_details` (RFC 9396), as in the token; nil for none.
    public var authorizationDetails: JSON? { token.claims["authorization_details"] }

    /// Whether the token is bound to a DPoP key. If so, the request contained a valid proof.
    public var isDPoPBound: Bool { token.binding.key != nil }

    /// Whether the token is bound to a client certificate. If so, the client presented the certificate.
    public var isCertificateBound: Bool { token.binding.certificate != nil }

    /// All claims of the token, or all members of the introspection response.
    public var claims: JSON { token.claims }

    /// Header fields to add to every response, including errors: the next DPoP nonce (RFC 9449 section 8.2). Usually empty.
    public var responseFields: HTTPFields {
        guard let nonce else { return [:] }
        var fields: HTTPFields = [.dpopNonce: nonce]
        if isExposed { fields[.accessControlExposeHeaders] = "DPoP-Nonce" }
        return fields
    }
}

extension Authorization: CustomStringConvertible, NonReflectable {
    /// The subject, its client and the scopes.
    public var description: String {
        DisplayText.sanitized(
            "\(subject ?? "no subject") by \(clientID ?? "no client"): \(scopes.sorted().joined(separator: " "))",
            limit: 500
        )
    }
}
