/// Scans JSON text and reports where each value begins. It rejects the same text as ``JSON/init(parsing:limits:)``, but ignores `maximumValues` and limits the total length of the paths.
///
/// It does not build values. The parsers that build values (libjansson, Foundation) do not report value positions,
/// and Foundation reports neither duplicate keys nor out-of-range integers.
struct JSONScanner {
    private let text: [UInt8]
    private let limits: JSONLimits
    /// The offset of the next byte; after an error, of the first unexpected byte, or of a duplicate key.
    private(set) var offset = 0
    /// The token that was expected at the offset of an error; nil if a value was expected, or for any other error.
    private(set) var expected: JSONSyntaxError.Expected?

    /// The paths of the numbers that are written with a fraction or an exponent. Foundation decodes 1.0 as the integer 1.
    private(set) var fractions: Set<JSONPath> = []

    /// The total length of the names in the paths of the values, in bytes. It is limited, because each path is hashed:
    /// otherwise a long name with many values in it would take minutes.
    private var pathBytes = 0
    private static let maximumPathBytes = 64 * 1024 * 1024

    init(_ text: [UInt8], limits: JSONLimits) {
        self.text = text
        self.limits = limits
    }

    /// Scans the entire text.
    /// - Parameter report: Called with the path of each value and the offset where it (or its key) begins.
    mutating func scan(_ report: (JSONPath, Int) -> Void) throws(JSONError) {
        guard text.count <= limits.maximumBytes else { throw JSONError(.sizeLimitExceeded) }
        guard String(validating: text, as: UTF8.self) != nil else {
            offset = validPrefix()
            throw error(.invalidUTF8)
        }
        skipSpace()
        try scanValue(at: JSONPath(), start: offset, depth: 0, report)
        skipSpace()
        guard offset == text.count else { throw error(.invalidSyntax, expected: .end) }
    }

    /// The length of the text before the first byte that is not UTF-8.
    private func validPrefix() -> Int {
        var decoder = UTF8()
        var bytes = text.makeIterator()
        var count = 0
        while case .scalarValue(let scalar) = decoder.decode(&bytes) { count += UTF8.width(scalar) }
        return count
    }

    private mutating func error(_ code: JSONError.Code, expected: JSONSyntaxError.Expected? = nil) -> JSONError {
        self.expected = expected
        return JSONError(code, in: text, at: offset)
    }

    private mutating func skipSpace() {
        while offset < text.count, [0x20, 0x09, 0x0A, 0x0D].contains(text[offset]) { offset += 1 }
    }

    private mutating func next() throws(JSONError) -> UInt8 {
        guard offset < text.count else { throw error(.prematureEndOfInput) }
        defer { offset += 1 }
        return text[offset]
    }

    private mutating func peek() throws(JSONError) -> UInt8 {
        guard offset < text.count else { throw error(.prematureEndOfInput) }
        return text[offset]
    }

    private mutating func expect(_ literal: StaticString, _ token: JSONSyntaxError.Expected? = nil) throws(JSONError) {
        for byte in String(describing: literal).utf8 {
            guard try peek() == byte else { throw error(.invalidSyntax, expected: token) }
            offset += 1
        }
    }

    private mutating func scanValue(
        at path: JSONPath,
        start: Int,
        depth: Int,
        _ report: (JSONPath, Int) -> Void
    ) throws(JSONError) {
        for case .member(let name) in path.steps { pathBytes += name.utf8.count }
        guard pathBytes <= Self.maximumPathBytes else { throw error(.sizeLimitExceeded) }
        report(path, start)
        switch try peek() {
        case UInt8(ascii: "{"): try scanObject(at: path, depth: depth + 1, report)
        case UInt8(ascii: "["): try scanArray(at: path, depth: depth + 1, report)
        case UInt8(ascii: "\""): _ = try scanString()
        case UInt8(ascii: "t"): try expect("true")
        case UInt8(ascii: "f"): try expect("false")
        case UInt8(ascii: "n"): try expect("null")
        default: try scanNumber(at: path)
        }
    }

    private mutating func scanObject(
        at path: JSONPath,
        depth: Int,
        _ report: (JSONPath, Int) -> Void
    ) throws(JSONError) {
        guard depth <= limits.maximumDepth else { throw error(.depthLimitExceeded) }
        offset += 1
        var names: Set<String> = []
        skipSpace()
        if try peek() == UInt8(ascii: "}") {
            offset += 1
            return
        }
        while true {
            skipSpace()
            let start = offset
            guard try peek() == UInt8(ascii: "\"") else { throw error(.invalidSyntax, expected: .key) }
            let name = try scanString()
            guard names.insert(name).inserted else {
                offset = start
                throw error(.duplicateKey)
            }
            skipSpace()
            try expect(":", .colon)
            skipSpace()
            try scanValue(at: path.member(name), start: start, depth: depth, report)
            skipSpace()
            switch try next() {
            case UInt8(ascii: ","): continue
            case UInt8(ascii: "}"): return
            default:
                offset -= 1
                throw error(.invalidSyntax, expected: .comma)
            }
        }
    }

    private mutating func scanArray(
        at path: JSONPath,
        depth: Int,
        _ report: (JSONPath, Int) -> Void
    ) throws(JSONError) {
        guard depth <= limits.maximumDepth else { throw error(.depthLimitExceeded) }
        offset += 1
        skipSpace()
        if try peek() == UInt8(ascii: "]") {
            offset += 1
            return
        }
        var index = 0
        while true {
            skipSpace()
            try scanValue(at: path.element(index), start: offset, depth: depth, report)
            index += 1
            skipSpace()
            switch try next() {
            case UInt8(ascii: ","): continue
            case UInt8(ascii: "]"): return
            default:
                offset -= 1
                throw error(.invalidSyntax, expected: .comma)
            }
        }
    }

    /// Scans a string and returns it decoded, so that `"a"` and `"\u0061"` are recognized as the same key.
    private mutating func scanString() throws(JSONError) -> String {
        offset += 1
        var decoded: [UInt16] = []
        var plainStart = offset
        func plain(_ end: Int) -> [UInt16] { Array(String(decoding: text[plainStart..<end], as: UTF8.self).utf16) }
        while true {
            let byte = try next()
            switch byte {
            case UInt8(ascii: "\""):
                decoded += plain(offset - 1)
                guard let string = String(validating: decoded, as: UTF16.self) else { throw error(.invalidSyntax) }
                // The check of the whole text does not detect combining marks that are written as escapes.
                try JSONLimits.check(string)
                return string
            case UInt8(ascii: "\\"):
                decoded += plain(offset - 1)
                decoded.append(try scanEscape())
                plainStart = offset
            case 0..<0x20:
                offset -= 1
                throw error(.invalidSyntax, expected: .closingQuote)
            default: continue
            }
        }
    }

    private mutating func scanEscape() throws(JSONError) -> UInt16 {
        switch try next() {
        case UInt8(ascii: "\""): return 0x22
        case UInt8(ascii: "\\"): return 0x5C
        case UInt8(ascii: "/"): return 0x2F
        case UInt8(ascii: "b"): return 0x08
        case UInt8(ascii: "f"): return 0x0C
        case UInt8(ascii: "n"): return 0x0A
        case UInt8(ascii: "r"): return 0x0D
        case UInt8(ascii: "t"): return 0x09
        case UInt8(ascii: "u"):
            var unit: UInt16 = 0
            for _ in 0..<4 {
                guard let digit = Character(Unicode.Scalar(try next())).hexDigitValue else {
                    offset -= 1
                    throw error(.invalidSyntax, expected: .escape)
                }
                unit = unit << 4 | UInt16(digit)
            }
            guard unit != 0 else { throw error(.nullCharacter) }
            return unit
        default:
            offset -= 1
            throw error(.invalidSyntax, expected: .escape)
        }
    }

    private mutating func scanNumber(at path: JSONPath) throws(JSONError) {
        let start = offset
        var isInteger = true
        if try peek() == UInt8(ascii: "-") { offset += 1 }
        if try peek() == UInt8(ascii: "0") { offset += 1 } else { try scanDigits() }
        if offset < text.count, text[offset] == UInt8(ascii: ".") {
            isInteger = false
            offset += 1
            try scanDigits()
        }
        if offset < text.count, text[offset] | 0x20 == UInt8(ascii: "e") {
            isInteger = false
            offset += 1
            if [UInt8(ascii: "+"), UInt8(ascii: "-")].contains(try peek()) { offset += 1 }
            try scanDigits()
        }
        if !isInteger { fractions.insert(path) }
        let literal = String(decoding: text[start..<offset], as: UTF8.self)
        let fits = isInteger ? Int64(literal) != nil : Double(literal)?.isFinite == true
        guard fits else {
            offset = start
            throw error(.numberOutOfRange)
        }
        // A digit (as in 01), a letter or an underscore must not directly follow a number.
        guard offset < text.count else { return }
        if text[offset].isLetterOrDigit || text[offset] == UInt8(ascii: "_") {
            throw error(.invalidSyntax, expected: .number)
        }
    }

    private mutating func scanDigits() throws(JSONError) {
        let start = offset
        while offset < text.count, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(text[offset]) { offset += 1 }
        guard offset > start else { throw error(offset < text.count ? .invalidSyntax : .prematureEndOfInput) }
    }
}
