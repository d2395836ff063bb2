package import AuthFlowHTTP

/// The parameters of a redirect, before anything is checked.
package enum RedirectParameters {
    /// The parameters in a redirect, still encoded; nil when the URL is not the redirect URI with parameters behind it.
    ///
    /// RFC 9700 section 4.1.3: "exact string matching". What follows the redirect URI can only be its query, or its fragment.
    package static func encoded(in url: String, at redirectURI: String, _ mode: ResponseMode) -> Substring? {
        // RFC 3986 section 2: a URI is made of printable ASCII. To Swift's characters a combining mark would hide a separator.
        guard url.utf8.allSatisfy({ (0x21...0x7E).contains($0) }), url.utf8.starts(with: redirectURI.utf8)
        else { return nil }
        let rest = url.utf8.dropFirst(redirectURI.utf8.count)
        let separator = mode == .fragment ? "#" : redirectURI.utf8.contains(UInt8(ascii: "?")) ? "&" : "?"
        guard rest.starts(with: separator.utf8) else { return nil }
        return Substring(rest.dropFirst())
    }

    /// The only `state` in parameters; nil when there is none, or more than one. A signed response (JARM) has it inside. Nothing is
    /// believed yet: this only tells visits apart.
    /// - Throws: ``AuthError`` when a signed response cannot be read.
    package static func state(
        in parameters: Substring,
        _ claimedState: (String) throws(AuthError) -> String?
    ) throws(AuthError) -> String? {
        guard let decoded = FormURLEncoding.decode(parameters) else { return nil }
        let responses = decoded.values(for: "response")
        // JARM section 2.3 has one such parameter. Each of a stranger's would cost a private-key operation.
        guard responses.count <= 1 else { return nil }
        var states = decoded.values(for: "state")
        if let response = responses.first, let claimed = try claimedState(response) { states.append(claimed) }
        return states.count == 1 ? states[0] : nil
    }
}
