/// Determines which parts of a URL may be shown. Only ``RedactedMessage`` shows more: the values of some parameters.
package enum Redaction {
    /// The URL with the values of its query and fragment, and any user name, replaced.
    ///
    /// Parameter names are retained, because they are needed for diagnosis. All values are removed, because no list of sensitive
    /// names is ever complete.
    package static func url(_ url: some StringProtocol) -> String {
        // Uses code points: as a Swift character, an equals sign followed by a combining mark is not an equals sign.
        // The user information is removed first, because a password may contain any of the separators.
        let url = withoutUser(String(url).unicodeScalars[...]).unicodeScalars[...]
        let beforeFragment = url.prefix { $0 != "#" }
        let base = beforeFragment.prefix { $0 != "?" }
        // Text after an equals sign in a path is redacted as if it were part of a query.
        let path = base.prefix { $0 != "=" }
        var result = String(path) + (path.endIndex < base.endIndex ? "=…" : "")
        if base.endIndex < beforeFragment.endIndex { result += "?" + values(of: beforeFragment[base.endIndex...]) }
        if beforeFragment.endIndex < url.endIndex { result += "#" + values(of: url[beforeFragment.endIndex...]) }
        return DisplayText.sanitized(result, limit: 2000)
    }

    private static func withoutUser(_ url: Substring.UnicodeScalarView) -> String {
        guard let separator = url.firstRange(of: "://".unicodeScalars) else { return String(url) }
        let rest = url[separator.upperBound...]
        let authority = rest.prefix { !["/", "?", "#"].contains($0) }
        // If the text after the last colon is not a port, it is part of a password, which may contain separators.
        let host = authority.lastIndex(of: "@").map { authority[$0...].dropFirst() } ?? authority
        let port = host.lastIndex(of: ":").map { String(host[$0...].dropFirst()) } ?? ""
        let isHost = host.first == "[" || port.allSatisfy { ("0"..."9").contains($0) }
        guard let at = isHost ? authority.lastIndex(of: "@") : rest.lastIndex(of: "@") else { return String(url) }
        return String(url[..<separator.upperBound]) + "<redacted>" + String(rest[at...])
    }

    private static func values(of part: Substring.UnicodeScalarView) -> String {
        part.dropFirst().split(separator: "&", omittingEmptySubsequences: false).map { field in
            field.contains("=") ? String(field.prefix { $0 != "=" }) + "=…" : field.isEmpty ? "" : "…"
        }.joined(separator: "&")
    }
}
