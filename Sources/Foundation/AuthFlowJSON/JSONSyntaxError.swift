/// An error in JSON text that a user has written: the position of the unexpected text, and the expected token.
///
/// JSON parsers report different positions for the same error; this position does not depend on the parser.
package struct JSONSyntaxError: Sendable {
    /// The token that was expected.
    package enum Expected: Sendable {
        case key, colon, comma, end, closingQuote, escape, number
    }

    /// The kind of error.
    package let code: JSONError.Code
    /// The expected token; nil if a value was expected, or if the error is not a syntax error.
    package let expected: Expected?
    /// The offset of the first unexpected byte, or of a duplicate key.
    package let offset: Int
    /// The line and the column of ``offset``.
    package let position: JSONPosition

    /// Finds the first error.
    /// - Returns: nil when there is none.
    package init?(in text: [UInt8]) {
        var scanner = JSONScanner(text, limits: JSONLimits())
        do throws(JSONError) {
            try scanner.scan { _, _ in }
            return nil
        } catch {
            (self.code, self.expected, self.offset) = (error.code, scanner.expected, scanner.offset)
            self.position = JSONPosition(of: scanner.offset, in: text)
        }
    }
}
