package import AuthFlowHTTP
import AuthFlowIssuer
public import AuthFlowJSON

/// Rich authorization requests (RFC 9396): the requested authorization as structured data, in addition to scopes.
package enum AuthorizationDetails {
    /// The name of the parameter, and of the member of the token response.
    static let name = "authorization_details"

    /// Checks that a value can be sent: an array of objects, each with a type (RFC 9396 section 2).
    /// - Throws: ``AuthError`` with `invalid_configuration`.
    package static func check(_ json: JSON) throws(AuthError) {
        guard let elements = json.array, !elements.isEmpty,
            elements.allSatisfy({ $0["type"]?.string?.isEmpty == false })
        else {
            throw AuthError(
                .invalidConfiguration,
                "\"authorization_details\" must be a non-empty array of objects with a \"type\" (RFC 9396 section 2)."
            )
        }
    }

    /// Checks that the server advertises the types (`authorization_details_types_supported`, section 10).
    /// - Throws: ``AuthError`` with `unsupported`.
    static func check(_ json: JSON, at metadata: ProviderMetadata) throws(AuthError) {
        try check(json)
        guard let known = metadata.json["authorization_details_types_supported"]?.strings else { return }
        let types = (json.array ?? []).compactMap { $0["type"]?.string }
        if let type = types.first(where: { !known.contains($0) }) {
            throw metadata.unsupported(
                "does not support authorization details of type \"\(DisplayText.sanitized(type, limit: 60))\"."
            )
        }
    }

    /// The requested elements that no granted element covers (``AuthorizationRequest/missingAuthorizationDetails(in:)``). A server may add members
    /// (section 7.1), and their meaning depends on the type. No element covers more than one requested element.
    static func missing(_ asked: JSON, from granted: JSON?) -> [JSON] {
        let (asked, granted) = (asked.array ?? [], granted?.array ?? [])
        // The requested element that each granted element covers. An element that covers several is reassigned if another needs it.
        var covered: [Int: Int] = [:]
        func assign(_ element: Int, _ visited: inout Set<Int>) -> Bool {
            for index in granted.indices
            where covers(granted[index], asked[element]) && visited.insert(index).inserted {
                if let other = covered[index], !assign(other, &visited) { continue }
                covered[index] = element
                return true
            }
            return false
        }
        return asked.indices.filter { element in
            var visited: Set<Int> = []
            return !assign(element, &visited)
        }.map { asked[$0] }
    }

    private static func covers(_ granted: JSON, _ asked: JSON) -> Bool {
        (asked.object ?? [:]).allSatisfy { name, value in
            guard let other = granted[name] else { return false }
            guard let wanted = value.array, let given = other.array else { return canonical(value) == canonical(other) }
            let known = Set(given.map(canonical))
            return wanted.allSatisfy { known.contains(canonical($0)) }
        }
    }

    /// Whether exactly the requested elements were granted, in any order.
    static func areEqual(_ asked: JSON, _ granted: JSON?) -> Bool {
        granted.map { canonical($0) == canonical(asked) } ?? false
    }

    /// The canonical text of a value: equal for values that differ only in the order of members and of elements.
    private static func canonical(_ json: JSON) -> String {
        if let object = json.object {
            let members = object.map { "\(canonical(.string($0.key))):\(canonical($0.value))" }
            return "{\(members.sorted().joined(separator: ","))}"
        }
        if let array = json.array { return "[\(array.map(canonical).sorted().joined(separator: ","))]" }
        // Numbers are compared by value, regardless of notation. A `Double` does not distinguish all integers of more than 53 bits.
        if let integer = json.wholeNumber { return "\(integer)" }
        if let number = json.number { return "\(number)" }
        // Written as a list of code points, so that no string can be mistaken for another value.
        if let text = json.string { return "\"\(Array(text.unicodeScalars.map(\.value)))\"" }
        return json.bool.map { "\($0)" } ?? "null"
    }

    /// Compares the granted details with the requested ones, and rejects the tokens if they differ and the registration requires an exact match.
    /// - Returns: The requested elements that are not covered.
    /// - Throws: ``AuthError`` with `provider_rejected`.
    static func compare(
        _ asked: JSON?,
        _ tokens: TokenSet,
        _ registration: ClientRegistration
    ) throws(AuthError) -> [JSON] {
        guard let asked else { return [] }
        let granted = tokens.authorizationDetails
        guard !registration.requiresExactAuthorizationDetails || areEqual(asked, granted) else {
            throw AuthError(
                .providerRejected,
                "The granted authorization details differ from the requested ones (RFC 9396 section 7), but the client requires an exact match. Granted: \(types(granted))."
            )
        }
        return missing(asked, from: granted)
    }

    /// The types of the authorization details, as text for error messages and events.
    static func types(_ details: JSON?) -> String {
        let names = (details?.array ?? []).compactMap { $0["type"]?.string }
        return names.isEmpty ? "none" : DisplayText.sanitized(names.joined(separator: ", "))
    }
}

extension TokenSet {
    /// `authorization_details` as granted (RFC 9396 section 7); nil when the response has none. The server may have granted less
    /// than requested, or more: ``AuthorizationRequest/missingAuthorizationDetails(in:)`` compares the two.
    public var authorizationDetails: JSON? {
        // Some servers send null instead of omitting the member.
        parameters.exposed[AuthorizationDetails.name].flatMap { $0 == .null ? nil : $0 }
    }
}

extension ProviderRequest {
    /// Adds authorization details, if there are any, to the request, in addition to its scopes.
    mutating func addAuthorizationDetails(_ details: JSON?, at metadata: ProviderMetadata) throws(AuthError) {
        guard let details else { return }
        try AuthorizationDetails.check(details, at: metadata)
        guard let bytes = try? details.serialized() else {
            throw AuthError(.invalidConfiguration, "\"authorization_details\" cannot be encoded as JSON.")
        }
        parameters[AuthorizationDetails.name] = String(decoding: bytes, as: UTF8.self)
    }
}
