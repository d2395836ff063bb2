/// Rewrites JSON text so that Jansson can parse it. The result is used to classify a message; unless the bridge edits the message, its
/// bytes pass through unchanged.
///
/// RFC 8259 section 7 allows `\u0000` and unpaired surrogates in strings, and section 6 allows numbers of any size.
/// Jansson rejects both.
enum ReadableJSON {
    /// Replaces what Jansson rejects: `\u0000` and unpaired surrogates with the escape of U+FFFD, and out-of-range
    /// numbers with floating-point numbers that are in range.
    static func bytes(_ text: [UInt8]) -> [UInt8] {
        var readable: [UInt8] = []
        readable.reserveCapacity(text.count)
        var index = 0
        var isString = false
        while index < text.count {
            let byte = text[index]
            var end = index + 1
            switch byte {
            case UInt8(ascii: "\""):
                isString.toggle()
                readable.append(byte)
            case UInt8(ascii: "\\") where isString:
                end = escape(text, at: index, into: &readable)
            // A `where` condition applies to only one pattern.
            case UInt8(ascii: "-") where !isString,
                UInt8(ascii: "0")...UInt8(ascii: "9") where !isString:
                end = text[index...].firstIndex { !"0123456789+-.eE".utf8.contains($0) } ?? text.count
                readable += number(text[index..<end])
            default: readable.append(byte)
            }
            index = end
        }
        return readable
    }

    private static let replacement = Array(#"\ufffd"#.utf8)

    /// - Returns: The index after the escape, or after the two escapes of a surrogate pair.
    private static func escape(_ text: [UInt8], at index: Int, into readable: inout [UInt8]) -> Int {
        guard let unit = unit(text, at: index) else {
            let end = min(index + 2, text.count)
            readable += text[index..<end]
            return end
        }
        let end = index + 6
        switch unit {
        case 0xD800..<0xDC00:
            guard let low = self.unit(text, at: end), 0xDC00..<0xE000 ~= low else {
                readable += replacement
                return end
            }
            readable += text[index..<end + 6]
            return end + 6
        case 0, 0xDC00..<0xE000: readable += replacement
        default: readable += text[index..<end]
        }
        return end
    }

    /// The UTF-16 code unit of a `\u` escape; nil for any other escape.
    private static func unit(_ text: [UInt8], at index: Int) -> UInt16? {
        guard index + 6 <= text.count, text[index] == UInt8(ascii: "\\"), text[index + 1] == UInt8(ascii: "u") else {
            return nil
        }
        let digits = text[index + 2..<index + 6]
        // The initializer below would also accept a sign.
        guard digits.allSatisfy({ "0123456789abcdefABCDEF".utf8.contains($0) }) else { return nil }
        return UInt16(String(decoding: digits, as: UTF8.self), radix: 16)
    }

    private static func number(_ digits: ArraySlice<UInt8>) -> [UInt8] {
        let text = String(decoding: digits, as: UTF8.self)
        guard let value = Double(text) else { return Array(digits) }
        guard value.isFinite else { return Array((value < 0 ? "-1e308" : "1e308").utf8) }
        let isInteger = !text.contains { ".eE".contains($0) }
        return isInteger && Int64(text) == nil ? Array(digits) + Array(".0".utf8) : Array(digits)
    }
}
