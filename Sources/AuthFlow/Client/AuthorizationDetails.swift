import AuthFlowJSON

/// Rich authorization requests (RFC 9396): what is asked for, in a structure of its own beside scopes.
enum AuthorizationDetails {
    /// The parameter, and the member of the token response.
    static let name = "authorization_details"

    /// Passes what can be sent: an array of objects, each with a type (RFC 9396 section 2).
    /// - Throws: ``AuthError`` with `invalid_configuration`.
    static func check(_ json: JSON) throws(AuthError) {
        guard let elements = json.array, !elements.isEmpty,
            elements.allSatisfy({ $0["type"]?.string?.isEmpty == false })
        else {
            throw AuthError(
                .invalidConfiguration,
                "\"authorization_details\" is an array of objects, each with a \"type\" (RFC 9396 section 2)."
            )
        }
    }

    /// Passes types that the server announces (`authorization_details_types_supported`, section 10).
    /// - Throws: ``AuthError`` with `unsupported`.
    static func check(_ json: JSON, at metadata: ProviderMetadata) throws(AuthError) {
        try check(json)
        guard let known = metadata.json["authorization_details_types_supported"]?.strings else { return }
        let types = (json.array ?? []).compactMap { $0["type"]?.string }
        if let type = types.first(where: { !known.contains($0) }) {
            throw AuthError(
                .unsupported,
                "The provider \(metadata.issuer) knows no authorization details of the type \"\(DisplayText.sanitized(type, limit: 60))\"."
            )
        }
    }

    /// The text to send.
    static func text(_ json: JSON) throws(AuthError) -> String {
        guard let bytes = try? json.serialized() else {
            throw AuthError(.invalidConfiguration, "\"authorization_details\" cannot be written as JSON.")
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

extension TokenSet {
    /// `authorization_details` as granted (RFC 9396 section 7); nil when the response has none. The server may have granted less
    /// than was asked for, or have added to it: compare it with what the application needs.
    public var authorizationDetails: JSON? { parameters.exposed[AuthorizationDetails.name] }
}
