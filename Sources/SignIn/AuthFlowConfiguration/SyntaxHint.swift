import AuthFlowHTTP
import AuthFlowJSON

/// The likely cause of a syntax error in a configuration file, as a sentence.
enum SyntaxHint {
    /// - Returns: The hint, with a leading separator and without a final period; an empty string when the cause is unknown.
    static func text(for syntaxError: JSONSyntaxError, in text: [UInt8]) -> String {
        if text.starts(with: [0xEF, 0xBB, 0xBF]) { return ". Save the file without a byte order mark" }
        let rest = text[min(syntaxError.offset, text.count)...]
        guard let byte = rest.first else {
            return text.allSatisfy { $0 <= UInt8(ascii: " ") } ? ". The file is empty" : ""
        }
        switch syntaxError.code {
        case .duplicateKey:
            let key = rest.dropFirst().prefix { $0 != UInt8(ascii: "\"") }
            return ": \"\(DisplayText.sanitized(String(decoding: key, as: UTF8.self), limit: 60))\""
        case .invalidSyntax: return cause(of: syntaxError, byte, before: text[..<rest.startIndex], rest)
        default: return ""
        }
    }

    private static func cause(
        of syntaxError: JSONSyntaxError,
        _ byte: UInt8,
        before: ArraySlice<UInt8>,
        _ rest: ArraySlice<UInt8>
    ) -> String {
        switch syntaxError.expected {
        case .closingQuote: return ". A string has no closing quote on its line"
        case .escape: return ". A backslash in a string must be escaped with another backslash"
        case .number:
            return
                ". A number must not have leading zeros, underscores or letters (except e); put other values in quotes"
        default: break
        }
        switch byte {
        case UInt8(ascii: "/"), UInt8(ascii: "#"): return ". JSON has no comments"
        case UInt8(ascii: "'"): return ". A string must be in double quotes"
        case UInt8(ascii: "}"), UInt8(ascii: "]"):
            let isAfterComma = before.last { $0 > UInt8(ascii: " ") } == UInt8(ascii: ",")
            return isAfterComma ? ". Remove the comma before this position" : ""
        default: break
        }
        // Curly quotation marks, as inserted by word processors.
        if ["\u{201C}", "\u{201D}", "\u{2018}", "\u{2019}"].contains(where: { rest.starts(with: $0.utf8) }) {
            return ". A string must be in straight double quotes"
        }
        return switch syntaxError.expected {
        case .colon: ". A colon is missing before this position"
        case .comma: ". A comma is missing before this position"
        case .end: ". The file continues after the end of its object"
        case .key, .closingQuote, .escape, .number, nil: ""
        }
    }
}
