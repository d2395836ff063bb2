/// Encoding of the characters that browsers and servers write in URLs although RFC 3986 does not allow them, such as `[` in a query. If a path or a
/// query contains such a character, Foundation would encode all of it, including the percent signs of characters that are already encoded.
package enum URLReference {
    /// A URL or relative reference in whose path, query and fragment these characters and stray percent signs are encoded. A host is encoded
    /// differently.
    package static func percentEncoded(_ reference: String) -> String {
        let bytes = Array(reference.utf8)
        func isDelimiter(_ byte: UInt8) -> Bool { "/?#".utf8.contains(byte) }
        let first = bytes.firstIndex(where: isDelimiter) ?? bytes.startIndex
        let hasHost = bytes[first...].starts(with: "//".utf8)
        let path = hasHost ? bytes[(first + 2)...].firstIndex(where: isDelimiter) ?? bytes.endIndex : bytes.startIndex
        return String(decoding: bytes[..<path], as: UTF8.self)
            + percentEncodedTarget(encodingStrayPercentSigns(bytes[path...]))
    }

    /// A path, query or fragment in which a percent sign without two hexadecimal digits is encoded. If Foundation finds such a percent sign in
    /// a URL, it encodes every percent sign, so that all encoded characters would be encoded twice.
    private static func encodingStrayPercentSigns(_ target: ArraySlice<UInt8>) -> String {
        var text: [UInt8] = []
        for (index, byte) in zip(target.indices, target) {
            text.append(byte)
            let digits = target[(index + 1)...].prefix(2)
            let isEncoded = digits.count == 2 && digits.allSatisfy { Character(Unicode.Scalar($0)).isHexDigit }
            if byte == UInt8(ascii: "%"), !isEncoded { text += "25".utf8 }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// A path, query or fragment in which these characters are encoded.
    package static func percentEncodedTarget(_ target: String) -> String {
        guard !target.utf8.allSatisfy(isAllowed) else { return target }
        return target.unicodeScalars.map { scalar in
            let text = String(scalar)
            return text.utf8.allSatisfy(isAllowed) ? text : FormURLEncoding.encodeWithoutPlus(text)
        }
        .joined()
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        (0x21...0x7E).contains(byte) && !#""<>[\]^`{|}"#.utf8.contains(byte)
    }
}
