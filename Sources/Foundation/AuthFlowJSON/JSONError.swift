/// An error that explains why a document was rejected as JSON, or why a value cannot be serialized as JSON.
///
/// It states the violated rule and, if known, the position. It never quotes the document, which may contain a
/// token.
public struct JSONError: Error, Sendable, Hashable {
    /// The kind of error, from an extensible set.
    public struct Code: RawRepresentable, Sendable, Hashable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The text does not follow the grammar.
        public static let invalidSyntax = Self(rawValue: "invalid syntax")
        /// The text ends inside a value, or is empty.
        public static let prematureEndOfInput = Self(rawValue: "the text ends too early")
        /// The text is not UTF-8 (RFC 8259 section 8.1).
        public static let invalidUTF8 = Self(rawValue: "the text is not valid UTF-8")
        /// An object has duplicate keys (RFC 8259 section 4: the behavior is "unpredictable"; RFC 7519 section 4 lets a parser reject it).
        public static let duplicateKey = Self(rawValue: "an object has a duplicate key")
        /// A string contains U+0000, which C libraries treat as its end.
        public static let nullCharacter = Self(rawValue: "a string contains U+0000")
        /// A number does not fit in 64 bits, or is not finite.
        public static let numberOutOfRange = Self(rawValue: "a number is out of range")
        /// Arrays and objects are nested deeper than ``JSONLimits/maximumDepth``.
        public static let depthLimitExceeded = Self(rawValue: "values are nested too deeply")
        /// The text is longer than ``JSONLimits/maximumBytes``.
        public static let sizeLimitExceeded = Self(rawValue: "the text is too large")
        /// The text has more values than ``JSONLimits/maximumValues``.
        public static let valueLimitExceeded = Self(rawValue: "there are too many values")
        /// A string has more consecutive combining marks than any writing system uses.
        public static let tooManyMarks = Self(rawValue: "a string has too many combining marks in a row")
        /// There was not enough memory.
        public static let outOfMemory = Self(rawValue: "memory ran out")
        /// The parser failed with an error that has no specific code.
        public static let other = Self(rawValue: "the JSON library failed")
    }

    /// The kind of error.
    public let code: Code

    /// The one-based line number of the error; nil when the position is unknown.
    public let line: Int?

    /// The one-based column of the error, in bytes; nil when the position is unknown.
    public let column: Int?

    init(_ code: Code, in text: [UInt8] = [], at offset: Int? = nil) {
        self.code = code
        let position = offset.flatMap { text.isEmpty ? nil : JSONPosition(of: $0, in: text) }
        (self.line, self.column) = (position?.line, position?.column)
    }
}

extension JSONError: CustomStringConvertible {
    public var description: String {
        if let line, let column { "\(code.rawValue) (line \(line), column \(column))" } else { code.rawValue }
    }
}
