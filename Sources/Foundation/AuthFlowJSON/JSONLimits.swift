/// The limits on the documents that the parser accepts.
///
/// OAuth documents are a few kilobytes and a few levels deep. A much larger document is a mistake or an attack, and is
/// rejected before it consumes memory or stack space.
public struct JSONLimits: Sendable, Hashable {
    /// The maximum size of the text, in bytes.
    public let maximumBytes: Int

    /// The maximum nesting depth of arrays and objects.
    public let maximumDepth: Int

    /// The maximum number of values, estimated from the number of commas and opening brackets.
    public let maximumValues: Int

    /// Creates limits.
    /// - Parameters:
    ///   - maximumBytes: The maximum size of the text, in bytes; default: 4 MiB.
    ///   - maximumDepth: The maximum nesting depth; default: 64. Values above 512 are reduced to 512, which keeps the
    ///     recursive copy within the smallest thread stack in use (512 KiB on Apple platforms).
    ///   - maximumValues: The maximum number of values; default: 200,000. A value that
    ///     occupies two bytes of text occupies many times as much memory once it has been parsed.
    public init(maximumBytes: Int = 4 * 1024 * 1024, maximumDepth: Int = 64, maximumValues: Int = 200_000) {
        self.maximumBytes = maximumBytes
        self.maximumDepth = min(maximumDepth, 512)
        self.maximumValues = maximumValues
    }

    /// Checks the size of a document and, if it is long, its nesting depth and number of values, before it is parsed.
    func check(_ text: [UInt8]) throws(JSONError) {
        guard text.count <= maximumBytes else { throw JSONError(.sizeLimitExceeded) }
        // The number of values cannot exceed the number of bytes.
        guard text.count > maximumValues else { return }
        var (count, depth, isInString, isEscaped) = (1, 0, false, false)
        for byte in text {
            if isInString {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isInString = false
                }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""): isInString = true
            case UInt8(ascii: "["), UInt8(ascii: "{"): (count, depth) = (count + 1, depth + 1)
            case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
            case UInt8(ascii: ","): count += 1
            default: break
            }
            guard depth <= maximumDepth else { throw JSONError(.depthLimitExceeded) }
        }
        guard count <= maximumValues else { throw JSONError(.valueLimitExceeded) }
    }

    /// Checks a string in a document.
    static func check(_ text: String) throws(JSONError) {
        guard !text.hasTooManyCombiningMarks else { throw JSONError(.tooManyMarks) }
    }
}
