import AuthFlowHTTP
import AuthFlowJSON

/// Where a credential came from, and so where its tokens may go: the issuer, and how its endpoints were known.
///
/// An issuer's name alone would not do. The author of a configuration can write the name of another's issuer beside
/// endpoints of their own, and would be sent what is stored for that name.
struct ProviderBinding: Sendable, Hashable {
    /// The issuer, the address of the document when the issuer's own name does not lead there, and every endpoint that is
    /// not in that document.
    let json: JSON

    init(_ metadata: ProviderMetadata) {
        var members: [String: JSON] = ["issuer": .string(metadata.issuer)]
        if case .at(let address) = metadata.document { members["document"] = .string(address) }
        var endpoints: [String: JSON] = [:]
        for (name, endpoint) in metadata.endpoints {
            guard let url = endpoint?.url else { continue }
            // An alias for clients with a certificate is in the document too, and may move as the others do.
            let isDiscovered =
                metadata.json[name] == .string(url) || metadata.json["mtls_endpoint_aliases"]?[name] == .string(url)
            if metadata.document == nil || !isDiscovered { endpoints[name] = .string(url) }
        }
        if !endpoints.isEmpty { members["endpoints"] = .object(endpoints) }
        self.json = .object(members)
    }

    /// Reads a stored binding; nil when there is none.
    init?(stored: JSON) {
        guard stored["issuer"]?.string != nil else { return nil }
        self.json = stored
    }

    var issuer: String { json["issuer"]?.string ?? "" }

    /// Why tokens of this binding may not go to endpoints of another; nil when they may.
    func obstacle(to other: ProviderBinding) -> String? {
        guard self != other else { return nil }
        return json["issuer"] == other.json["issuer"]
            ? "the credential belongs to other endpoints of \(issuer) than the configuration names now"
            : "the credential belongs to \(issuer), and the configuration now says \(other.issuer)"
    }
}
