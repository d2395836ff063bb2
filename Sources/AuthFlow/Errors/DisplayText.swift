/// Text that somebody else wrote, made fit for a terminal, a log or a page.
public enum DisplayText {
    /// Replaces control and format characters (which can move a cursor or reverse a line) and cuts what is too long.
    /// - Parameters:
    ///   - text: Anybody's text.
    ///   - limit: The most characters that are kept.
    public static func sanitized(_ text: String, limit: Int = 300) -> String {
        var result = ""
        for scalar in text.unicodeScalars.prefix(limit) {
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned:
                result.unicodeScalars.append(" ")
            default:
                result.unicodeScalars.append(scalar)
            }
        }
        return text.unicodeScalars.count > limit ? result + "…" : result
    }

    /// Escapes what HTML gives a meaning to, for use in text and in quoted attributes.
    public static func escapedForHTML(_ text: String) -> String {
        var result = ""
        for character in text {
            switch character {
            case "&": result += "&amp;"
            case "<": result += "&lt;"
            case ">": result += "&gt;"
            case "\"": result += "&quot;"
            case "'": result += "&#39;"
            default: result.append(character)
            }
        }
        return result
    }
}
