import AuthFlowJSON

/// What is known about a protected resource from the last sign-in: where its tokens come from, and what was asked for. Nothing in it
/// is secret.
struct KnownResource: Sendable, Hashable {
    /// The resource identifier that tokens are asked for by.
    var resource: String
    /// The authorization server.
    var issuer: String
    /// The client there.
    var clientID: String
    /// How the client came by its identifier.
    var identification: ClientIdentification
    /// The scopes that were asked for, those of every step-up included. The server may have granted fewer.
    var scopes: [String]
    /// Whether tokens are bound to a key (RFC 9449).
    var usesDPoP: Bool
    /// Whether the authorization server is only assumed to be one.
    var isAssumed = false
    /// Whether the resource identifier covers more of the host than the address, by the host's own well-known document.
    var coversHost = false

    init(
        resource: String,
        issuer: String,
        clientID: String,
        identification: ClientIdentification,
        scopes: [String],
        usesDPoP: Bool
    ) {
        self.resource = resource
        self.issuer = issuer
        self.clientID = clientID
        self.identification = identification
        self.scopes = scopes
        self.usesDPoP = usesDPoP
    }

    /// Reads what ``json`` wrote; nil when something is missing.
    init?(_ json: JSON) {
        guard let resource = json["resource"]?.string, let issuer = json["issuer"]?.string,
            let clientID = json["client_id"]?.string, let scopes = json["scopes"]?.strings,
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
        isAssumed = json["assumed"]?.bool ?? false
        coversHost = json["covers_host"]?.bool ?? false
    }

    /// The record of a store.
    var json: JSON {
        [
            "resource": .string(resource), "issuer": .string(issuer), "client_id": .string(clientID),
            "identification": .string(identification.rawValue), "scopes": .array(scopes.map(JSON.string)),
            "dpop": .bool(usesDPoP), "assumed": .bool(isAssumed), "covers_host": .bool(coversHost),
        ]
    }
}

/// How a client comes by its identifier at an authorization server that a resource names.
public enum ClientIdentification: String, Sendable, Hashable {
    /// It was registered there beforehand.
    case registered
    /// Its identifier is the address of its own description.
    case metadataDocument = "metadata_document"
    /// It has registered itself (RFC 7591).
    case dynamic
}
