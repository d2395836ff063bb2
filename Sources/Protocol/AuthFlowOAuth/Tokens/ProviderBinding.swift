import AuthFlowIssuer

/// The origin of a credential, which determines where its tokens may be sent: the issuer, and the source of its endpoints.
///
/// The issuer alone is not sufficient. The author of a configuration could combine another party's issuer with their own
/// endpoints, and would then receive the tokens that are stored for that issuer.
struct ProviderBinding: Sendable, Hashable {
    /// The issuer, the URL of the metadata document if it is not derived from the issuer, and every endpoint that is
    /// not in that document.
    let json: JSON

    init(_ metadata: ProviderMetadata) {
        var members: [String: JSON] = ["issuer": .string(metadata.issuer)]
        if case .at(let address) = metadata.document { members["document"] = .string(address) }
        var endpoints: [String: JSON] = [:]
        for (name, endpoint) in metadata.endpoints {
            guard let url = endpoint?.url else { continue }
            // An mTLS endpoint alias (RFC 8705 section 5) is in the document too, and may change like other endpoints.
            let isDiscovered =
                metadata.json[name] == .string(url) || metadata.json["mtls_endpoint_aliases"]?[name] == .string(url)
            if metadata.document == nil || !isDiscovered { endpoints[name] = .string(url) }
        }
        if !endpoints.isEmpty { members["endpoints"] = .object(endpoints) }
        self.json = .object(members)
    }

    /// Decodes a stored binding; nil when no binding is stored.
    init?(stored: JSON) {
        guard stored["issuer"]?.string != nil else { return nil }
        self.json = stored
    }

    var issuer: String { json["issuer"]?.string ?? "" }

    /// The reason why tokens of this binding must not be sent to endpoints of another binding; nil when they may be.
    func mismatch(with other: ProviderBinding) -> String? {
        guard self != other else { return nil }
        return json["issuer"] == other.json["issuer"]
            ? "the sign-in used endpoints of \(issuer) that differ from the configured endpoints"
            : "the sign-in was at \(issuer), but the configured issuer is now \(other.issuer)"
    }
}
