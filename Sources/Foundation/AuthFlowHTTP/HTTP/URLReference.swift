/// Encoding of the characters that browsers and servers write in URLs although RFC 3986 does not allow them, such as `[` in a query. If a path or a
/// query contains such a character, Foundation would encode all of it, including the percent signs of characters that are already encoded.
package enum URLReference {
    /// A URL or relative reference in whose path, query and fragment these characters are encoded. A host is encoded differently.
    package static func percentEncoded(_ reference: String) -> String {
        let bytes = Array(reference.utf8)
        func isDelimiter(_ byte: UInt8) -> Bool { "/?#".utf8.contains(byte) }
        let first = bytes.firstIndex(where: isDelimiter) ?? bytes.startIndex
        let hasHost = bytes[first...].starts(with: "//".utf8)
        let path = hasHost ? bytes[(first + 2)...].firstIndex(where: isDelimiter) ?? bytes.endIndex : bytes.startIndex
        return String(decoding: bytes[..<path], as: UTF8.self)
            + percentEncodedTarget(String(decoding: bytes[path...], as: UTF8.self))
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
