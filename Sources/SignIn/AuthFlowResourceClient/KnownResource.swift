import AuthFlowJSON

/// The stored state of a protected resource from the last sign-in: the issuer of its tokens, and the parameters of the token request. It
/// contains no secrets.
struct KnownResource: Sendable, Hashable {
    /// The resource identifier in token requests.
    var resource: String
    /// The authorization server.
    var issuer: String
    /// The `client_id` at the authorization server.
    var clientID: String
    /// The method by which the client obtained its `client_id`.
    var identification: ClientIdentification
    /// The requested scopes, including the scopes of every step-up. The server may have granted fewer scopes.
    var scopes: [String]
    /// Whether tokens are bound to a key (RFC 9449).
    var usesDPoP: Bool
    /// The user authentication that the last sign-in requested.
    var authentication = RequiredAuthentication()
    /// Whether the resource's origin is only assumed to be an authorization server.
    var isAssumed = false
    /// Whether the resource identifier is a prefix of the URL, not the URL itself, according to the host's protected resource metadata.
    var coversHost = false
    /// The scopes in the resource's metadata that the authorization server has rejected.
    var rejectedScopes: [String] = []
}

extension KnownResource {
    /// Decodes the output of ``json``; nil when a required value is missing or invalid.
    init?(_ json: JSON) {
        guard let resource = json["resource"]?.string, let issuer = json["issuer"]?.string,
            let clientID = json["client_id"]?.string, !clientID.isEmpty, let scopes = json["scopes"]?.strings,
            let identification = json["identification"]?.string.flatMap(ClientIdentification.init)
        else { return nil }
        self.init(
            resource: resource,
            issuer: issuer,
            clientID: clientID,
            identification: identification,
            scopes: scopes,
            usesDPoP: json["dpop"]?.bool ?? false
        )
        authentication.acrValues = json["acr_values"]?.strings ?? []
        authentication.maxAge = json["max_age"]?.integer.map(Int.init).flatMap {
            ResourceClient.Options.maxAges.contains($0) ? $0 : nil
        }
        isAssumed = json["assumed"]?.bool ?? false
        coversHost = json["covers_host"]?.bool ?? false
        rejectedScopes = json["rejected_scopes"]?.strings ?? []
    }

    /// The store record.
    var json: JSON {
        var json: [String: JSON] = [
            "resource": .string(resource), "issuer": .string(issuer), "client_id": .string(clientID),
            "identification": .string(identification.rawValue), "scopes": .array(scopes.map(JSON.string)),
            "dpop": .bool(usesDPoP), "assumed": .bool(isAssumed), "covers_host": .bool(coversHost),
        ]
        if !authentication.acrValues.isEmpty { json["acr_values"] = .array(authentication.acrValues.map(JSON.string)) }
        json["max_age"] = authentication.maxAge.map { .integer(Int64($0)) }
        if !rejectedScopes.isEmpty { json["rejected_scopes"] = .array(rejectedScopes.map(JSON.string)) }
        return .object(json)
    }

    /// Whether the tokens of two sign-ins are stored in the same record.
    func sharesTokens(with other: KnownResource) -> Bool {
        issuer.isIdentical(to: other.issuer) && clientID.isIdentical(to: other.clientID)
            && resource.isIdentical(to: other.resource)
    }
}

/// The method by which a client obtains its `client_id` at an authorization server that a resource names.
package enum ClientIdentification: String, Sendable, Hashable {
    /// Pre-registration: the client was registered with the authorization server in advance.
    case registered
    /// A client ID metadata document, whose URL is the `client_id`.
    case metadataDocument = "metadata_document"
    /// Dynamic client registration (RFC 7591).
    case dynamic
}
