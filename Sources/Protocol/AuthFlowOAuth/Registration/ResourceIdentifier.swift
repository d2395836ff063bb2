import AuthFlowHTTP
import AuthFlowJSON

/// The identifier of a resource in a request (RFC 8707 section 2).
package enum ResourceIdentifier {
    /// Checks an identifier: "Its value MUST be an absolute URI, as specified by Section 4.3 of [RFC3986]. The URI MUST NOT include a fragment
    /// component." Some providers use URNs and custom schemes. An http URL must be a loopback URL, as for endpoints.
    /// - Returns: The identifier as it is sent.
    /// - Throws: ``AuthError`` with `invalid_configuration`.
    package static func checked(_ text: String) throws(AuthError) -> String {
        let scheme = text.prefix { $0 != ":" }
        guard scheme.count < text.count, !["http", "https"].contains(scheme.lowercased()) else {
            return try Endpoint(text, name: "resource").url
        }
        // RFC 3986 section 3.1: scheme = ALPHA *( ALPHA / DIGIT / "+" / "-" / "." )
        let isScheme =
            scheme.utf8.first?.isLetter == true
            && scheme.utf8.allSatisfy { $0.isLetterOrDigit || "+-.".utf8.contains($0) }
        // Section 2: a URI contains none of these characters; "#" begins a fragment.
        let excluded = Set("\"#<>\\^`{|}".utf8)
        let isURI = text.utf8.allSatisfy { (0x21...0x7E).contains($0) && !excluded.contains($0) }
        guard isScheme, isURI, text.utf8.count <= 2048, scheme.utf8.count + 1 < text.utf8.count else {
            throw AuthError(
                .invalidConfiguration,
                "The resource \"\(DisplayText.sanitized(text))\" is not an absolute URI without a fragment (RFC 8707 section 2), or exceeds 2048 bytes."
            )
        }
        return text
    }

    /// Checks the identifiers that a caller specifies for one request.
    /// - Throws: ``AuthError`` with `invalid_configuration`.
    static func check(_ resources: [String]) throws(AuthError) {
        for resource in resources { _ = try checked(resource) }
    }
}
