package import AuthFlowEssentials
package import AuthFlowHTTP
package import AuthFlowJSON

/// An access token for one of several resources of a grant (RFC 8707 section 2.2), stored with the grant's main token.
package struct ResourceToken: Sendable, Hashable {
    /// The requested resource.
    package let resource: String
    /// The requested scopes; nil for all scopes of the grant.
    package let requestedScopes: [String]?
    package let accessToken: Secret
    package let tokenType: String
    package let expiresAt: Date?
    package let obtainedAt: Date
    /// The granted scopes.
    package let scopes: [String]

    /// The maximum number of resource tokens per grant.
    package static let limit = 16

    package init(_ credential: Credential, resource: String, requestedScopes: [String]?) {
        self.resource = resource
        self.requestedScopes = requestedScopes
        self.accessToken = credential.tokens.accessToken
        self.tokenType = credential.tokens.tokenType
        self.expiresAt = credential.tokens.expiresAt
        self.obtainedAt = credential.obtainedAt
        self.scopes = credential.tokens.scopes
    }

    /// Decodes the stored form that ``json`` returned; nil when a member is missing.
    package init?(_ json: JSON) {
        guard let resource = json["resource"]?.string, let accessToken = json["access_token"]?.string,
            let tokenType = json["token_type"]?.string, let obtainedAt = json["obtained_at"]?.number,
            let scopes = json["scopes"]?.strings
        else { return nil }
        self.resource = resource
        self.requestedScopes = json["requested_scopes"]?.strings
        self.accessToken = Secret(accessToken)
        self.tokenType = tokenType
        self.expiresAt = json["expires_at"]?.number.map(Date.init(secondsSince1970:))
        self.obtainedAt = Date(secondsSince1970: obtainedAt)
        self.scopes = scopes
    }

    /// The token as part of a stored credential. It contains a secret.
    var json: JSON {
        var json: [String: JSON] = [
            "resource": .string(resource), "access_token": .string(accessToken.exposed),
            "token_type": .string(tokenType),
            "obtained_at": .double(obtainedAt.timeIntervalSince1970), "scopes": .array(scopes.map(JSON.string)),
        ]
        json["requested_scopes"] = requestedScopes.map { .array($0.map(JSON.string)) }
        json["expires_at"] = expiresAt.map { .double($0.timeIntervalSince1970) }
        return .object(json)
    }

    /// Whether the token is for this resource and was requested with these scopes.
    package func matches(_ resource: String, _ scopes: [String]?) -> Bool {
        self.resource.isIdentical(to: resource) && requestedScopes.map(Set.init) == scopes.map(Set.init)
    }
}
