package import AuthFlowEssentials
package import AuthFlowHTTP
package import AuthFlowJSON

/// An access token for one of several resources of a grant (RFC 8707 section 2.2), stored with the grant's main token.
package struct ResourceToken: Sendable, Hashable {
    /// The resource that it was asked for.
    package let resource: String
    /// The scopes that it was asked for; nil for all of the grant.
    package let requestedScopes: [String]?
    package let accessToken: Secret
    package let tokenType: String
    package let expiresAt: Date?
    package let obtainedAt: Date
    /// The scopes that it has.
    package let scopes: [String]

    /// The most that one grant keeps.
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

    /// Reads what ``json`` wrote; nil when something is missing.
    package init?(_ json: JSON) {
        guard let resource = json["resource"]?.string, let accessToken = json["access_token"]?.string,
            let tokenType = json["token_type"]?.string, let obtainedAt = json["obtained_at"]?.number,
            let scopes = json["scopes"]?.strings
        else { return nil }
        self.resource = resource
        self.requestedScopes = json["requested_scopes"]?.strings
        self.accessToken = Secret(accessToken)
        self.tokenType = tokenType
        self.expiresAt = json["expires_at"]?.number.map(Date.init(timeIntervalSince1970:))
        self.obtainedAt = Date(timeIntervalSince1970: obtainedAt)
        self.scopes = scopes
    }

    /// The token as a part of a stored credential. It holds a secret.
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

    /// Whether it is for a resource, and was asked for with these scopes.
    package func isFor(_ resource: String, _ scopes: [String]?) -> Bool {
        self.resource.isIdentical(to: resource) && requestedScopes.map(Set.init) == scopes.map(Set.init)
    }
}
