/// Makes untrusted text safe to display in a terminal, a log or a web page.
public enum DisplayText {
    /// Replaces control and format characters (which can move the cursor or reverse text) and truncates long text.
    /// - Parameters:
    ///   - text: Untrusted text.
    ///   - limit: The maximum number of characters; default: 300.
    public static func sanitized(_ text: String, limit: Int = 300) -> String {
        let shown = String.UnicodeScalarView(text.unicodeScalars.prefix(limit).map { isInvisible($0) ? " " : $0 })
        return String(shown) + (text.unicodeScalars.count > limit ? "…" : "")
    }

    /// Whether a character is invisible but affects the display of other text: it controls a terminal, changes the
    /// writing direction, or has no standard appearance.
    package static func isInvisible(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: true
        default: false
        }
    }

    /// Escapes the special characters of HTML, for use in text and in quoted attributes.
    ///
    /// It operates on code points, as HTML parsers do: in Swift a quotation mark followed by a combining mark is not
    /// equal to a quotation mark.
    public static func escapedForHTML(_ text: String) -> String {
        text.unicodeScalars.map { entities[$0] ?? String($0) }.joined()
    }

    private static let entities: [Unicode.Scalar: String] = [
        "&": "&amp;", "<": "&lt;", ">": "&gt;", "\"": "&quot;", "'": "&#39;",
    ]
}
