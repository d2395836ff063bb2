/// Text that somebody else wrote, made fit for a terminal, a log or a page.
public enum DisplayText {
    /// Replaces control and format characters (which can move a cursor or reverse a line) and cuts what is too long.
    /// - Parameters:
    ///   - text: Anybody's text.
    ///   - limit: The most characters that are kept.
    public static func sanitized(_ text: String, limit: Int = 300) -> String {
        var result = ""
        for scalar in text.unicodeScalars.prefix(limit) {
            result.unicodeScalars.append(isInvisible(scalar) ? " " : scalar)
        }
        return text.unicodeScalars.count > limit ? result + "…" : result
    }

    /// Whether a character is not shown itself but changes how others are: what steers a terminal, turns the direction of
    /// writing, or has no agreed appearance.
    public static func isInvisible(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: true
        default: false
        }
    }

    /// Escapes what HTML gives a meaning to, for use in text and in quoted attributes.
    ///
    /// It goes by code points, as readers of HTML do: in Swift a quotation mark with a combining mark behind it is another
    /// character than a quotation mark.
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
