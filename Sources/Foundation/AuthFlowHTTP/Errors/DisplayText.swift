/// Makes untrusted text safe to display in a terminal, a log or a web page.
public enum DisplayText {
    /// Replaces control and format characters (which can move the cursor or reverse text) and truncates long text.
    /// - Parameters:
    ///   - text: Untrusted text.
    ///   - limit: The maximum number of characters; default: 300.
    public static func sanitized(_ text: String, limit: Int = 300) -> String {
        var result = ""
        for scalar in text.unicodeScalars.prefix(limit) {
            result.unicodeScalars.append(isInvisible(scalar) ? " " : scalar)
        }
        return text.unicodeScalars.count > limit ? result + "…" : result
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
        var result = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": result.append(contentsOf: "&amp;".unicodeScalars)
            case "<": result.append(contentsOf: "&lt;".unicodeScalars)
            case ">": result.append(contentsOf: "&gt;".unicodeScalars)
            case "\"": result.append(contentsOf: "&quot;".unicodeScalars)
            case "'": result.append(contentsOf: "&#39;".unicodeScalars)
            default: result.append(scalar)
            }
        }
        return String(result)
    }
}
