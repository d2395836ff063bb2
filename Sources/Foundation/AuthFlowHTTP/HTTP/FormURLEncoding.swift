import AuthFlowJSON

/// `application/x-www-form-urlencoded` (RFC 6749 Appendix B, WHATWG URL section 5).
public enum FormURLEncoding {
    /// Encodes for a form body: a space becomes `+`.
    package static func encodeForm(_ parameters: FormParameters) -> String { encode(parameters, space: "+") }

    /// Encodes for the query of a URL. A space becomes `%20`, which form decoders and URI decoders both accept.
    public static func encodeQuery(_ parameters: FormParameters) -> String { encode(parameters, space: "%20") }

    /// Encodes one name or value.
    public static func encode(_ text: String) -> String { encode(text, space: "+") }

    /// Encodes one name or value for a decoder that may not treat `+` as a space.
    package static func encodeWithoutPlus(_ text: String) -> String { encode(text, space: "%20") }

    private static func encode(_ parameters: FormParameters, space: String) -> String {
        var bytes: [UInt8] = []
        for (index, pair) in parameters.pairs.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: "&")) }
            append(pair.name, to: &bytes, space: space)
            bytes.append(UInt8(ascii: "="))
            append(pair.value, to: &bytes, space: space)
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func encode(_ text: String, space: String) -> String {
        var bytes: [UInt8] = []
        append(text, to: &bytes, space: space)
        return String(decoding: bytes, as: UTF8.self)
    }

    private static let digits = Array("0123456789ABCDEF".utf8)

    private static func append(_ text: String, to bytes: inout [UInt8], space: String) {
        for byte in text.utf8 {
            switch byte {
            case _ where byte.isLetterOrDigit || "-._*".utf8.contains(byte): bytes.append(byte)
            case UInt8(ascii: " "): bytes.append(contentsOf: space.utf8)
            default: bytes += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 0xF)]]
            }
        }
    }

    /// Decodes a form body or a query.
    /// - Returns: The parameters, or nil when a percent-encoding is malformed, the bytes are not UTF-8, or a name or a value has more than 64
    ///   combining marks in a row.
    public static func decode(_ text: some StringProtocol) -> FormParameters? { decode(text, displaying: []) }

    /// Decodes a form body or a query. In the values of parameters that are only displayed, bytes that are not UTF-8 are replaced, and a malformed
    /// percent-encoding is left as is.
    package static func decode(_ text: some StringProtocol, displaying names: Set<String>) -> FormParameters? {
        var parameters = FormParameters()
        // WHATWG URL section 5.1 splits bytes. Splitting by Swift characters would miss a separator before a combining mark.
        for field in Array(text.utf8).split(separator: UInt8(ascii: "&")) {
            let halves = field.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            let encoded = halves.count > 1 ? halves[1] : []
            guard let name = decodeValue(halves[0]) else { return nil }
            let value = names.contains(name) ? displayed(encoded, plusIsSpace: true) : decodeValue(encoded)
            guard let value, !value.hasTooManyCombiningMarks else { return nil }
            parameters.append(name, value)
        }
        return parameters
    }

    /// Decodes only percent-encoded octets (RFC 3986 section 2.1): a `+` stays a `+`.
    package static func percentDecoded(_ text: String) -> String? {
        decodeValue(Array(text.utf8)[...], plusIsSpace: false)
    }

    /// Decodes a value that is only displayed: bytes that are not UTF-8 are replaced, and a malformed percent-encoding is left as is (WHATWG URL
    /// section 1.3).
    package static func displayed(_ value: String, plusIsSpace: Bool = true) -> String {
        displayed(Array(value.utf8)[...], plusIsSpace: plusIsSpace)
    }

    private static func displayed(_ encoded: ArraySlice<UInt8>, plusIsSpace: Bool) -> String {
        String(decoding: decodeBytes(encoded, plusIsSpace: plusIsSpace, isDisplayed: true) ?? [], as: UTF8.self)
    }

    /// Decodes percent-encoded text to bytes, which need not be UTF-8.
    package static func percentDecodedBytes(_ text: some StringProtocol) -> [UInt8]? {
        decodeBytes(Array(text.utf8)[...], plusIsSpace: false)
    }

    private static func decodeValue(_ encoded: ArraySlice<UInt8>, plusIsSpace: Bool = true) -> String? {
        guard let bytes = decodeBytes(encoded, plusIsSpace: plusIsSpace),
            let text = String(validating: bytes, as: UTF8.self), !text.hasTooManyCombiningMarks
        else { return nil }
        return text
    }

    /// - Parameter isDisplayed: Whether a malformed percent-encoding is left as is.
    /// - Returns: nil when a percent-encoding is malformed.
    private static func decodeBytes(
        _ encoded: ArraySlice<UInt8>,
        plusIsSpace: Bool,
        isDisplayed: Bool = false
    ) -> [UInt8]? {
        var bytes: [UInt8] = []
        var rest = encoded.makeIterator()
        while let byte = rest.next() {
            switch byte {
            case UInt8(ascii: "+") where plusIsSpace: bytes.append(UInt8(ascii: " "))
            case UInt8(ascii: "%"):
                var ahead = rest
                if let high = ahead.next().flatMap(hexValue), let low = ahead.next().flatMap(hexValue) {
                    bytes.append(high << 4 | low)
                    rest = ahead
                } else if isDisplayed {
                    bytes.append(byte)
                } else {
                    return nil
                }
            default: bytes.append(byte)
            }
        }
        return bytes
    }

    /// The value of a hexadecimal digit, in either case.
    package static func hexValue(_ byte: UInt8) -> UInt8? {
        // Ten times as fast as `Character.hexDigitValue`.
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        default: nil
        }
    }
}
