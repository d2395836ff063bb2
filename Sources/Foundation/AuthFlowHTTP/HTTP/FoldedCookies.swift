import AuthFlowJSON

/// Splits several `Set-Cookie` fields that Foundation has joined with commas.
package enum FoldedCookies {
    /// Splits at the commas that start a new cookie, but not at the comma in `Expires=Wed, 21 Oct 2026 ...`.
    ///
    /// A new cookie begins with `name=`, before any semicolon (RFC 6265 section 4.1.1); the text after the comma in a
    /// date begins with a number and a space.
    package static func split(_ field: String) -> [String] {
        var cookies: [String] = []
        for scalars in field.unicodeScalars.split(separator: ",", omittingEmptySubsequences: false) {
            let part = String(scalars)
            let rest = part.trimmingSpaces().unicodeScalars
            let name = rest.prefix { $0 != "=" && $0 != ";" }
            let startsCookie =
                !name.isEmpty && String(name).utf8.allSatisfy(\.isTokenCharacter)
                && rest.dropFirst(name.count).first == "="
            if startsCookie || cookies.isEmpty {
                cookies.append(part.trimmingSpaces())
            } else {
                cookies[cookies.count - 1] += "," + part
            }
        }
        return cookies
    }
}
