/// The only code that determines which parts of a URL may be shown.
package enum Redaction {
    /// The URL with the values of its query and fragment, and any user name, replaced.
    ///
    /// Parameter names are retained, because they show what happened. All values are removed, because no list of sensitive
    /// names is ever complete.
    package static func url(_ url: some StringProtocol) -> String {
        // Uses code points: as a Swift character, an equals sign followed by a combining mark is not an equals sign.
        let url = String(url).unicodeScalars[...]
        let beforeFragment = url.prefix { $0 != "#" }
        let base = beforeFragment.prefix { $0 != "?" }
        // Text after an equals sign in a path is redacted as if it were part of a query. A password may contain one, too.
        let shown = withoutUser(base).unicodeScalars
        let path = shown.prefix { $0 != "=" }
        var result = String(path) + (path.endIndex < shown.endIndex ? "=…" : "")
        if base.endIndex < beforeFragment.endIndex { result += "?" + values(of: beforeFragment[base.endIndex...]) }
        if beforeFragment.endIndex < url.endIndex { result += "#" + values(of: url[beforeFragment.endIndex...]) }
        return DisplayText.sanitized(result, limit: 2000)
    }

    private static func withoutUser(_ base: Substring.UnicodeScalarView) -> String {
        guard let authority = base.firstRange(of: "://".unicodeScalars) else { return String(base) }
        let rest = base[authority.upperBound...]
        let host = rest.prefix { $0 != "/" }
        guard let at = host.lastIndex(of: "@") else { return String(base) }
        return String(base[..<authority.upperBound]) + "<redacted>" + String(rest[at...])
    }

    private static func values(of part: Substring.UnicodeScalarView) -> String {
        part.dropFirst().split(separator: "&", omittingEmptySubsequences: false).map { field in
            field.contains("=") ? String(field.prefix { $0 != "=" }) + "=…" : field.isEmpty ? "" : "…"
        }.joined(separator: "&")
    }
}
