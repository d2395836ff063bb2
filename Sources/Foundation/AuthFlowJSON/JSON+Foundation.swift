#if !(Jansson && canImport(CJansson))
import AuthFlowEssentials

// For platforms without libjansson (iOS, Windows, static Linux builds), or when the trait `Jansson` is disabled.

extension JSON {
    /// Parses UTF-8 JSON text (RFC 8259), which must be well formed throughout.
    /// - Parameters:
    ///   - text: The complete document.
    ///   - limits: The limits on its size, its depth and its number of values.
    /// - Throws: ``JSONError``, with the position of the first error if it is known.
    public init(parsing text: some Collection<UInt8>, limits: JSONLimits = JSONLimits()) throws(JSONError) {
        guard text.count <= limits.maximumBytes else { throw JSONError(.sizeLimitExceeded) }
        let bytes = Array(text)
        try limits.check(bytes)
        // This does not detect combining marks that are written as escapes, because escapes are decoded later.
        try JSONLimits.check(String(decoding: bytes, as: UTF8.self))
        // Foundation would accept duplicate keys (using the last value) and round large integers, so the scanner
        // rejects both.
        var scanner = JSONScanner(bytes, limits: limits)
        try scanner.scan { _, _ in }
        do {
            let decoder = JSONDecoder()
            if let fractionsKey { decoder.userInfo[fractionsKey] = scanner.fractions }
            self = try decoder.decode(FoundationValue.self, from: Data(bytes)).json
        } catch {
            throw JSONError(.invalidSyntax)
        }
    }

    /// Returns the value as UTF-8 JSON text with sorted keys, so that equal values yield equal bytes.
    /// - Parameter indented: Whether each member is on a separate line.
    /// - Throws: ``JSONError`` when a number is not finite or memory runs out.
    public func serialized(indented: Bool = false) throws(JSONError) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        if indented { encoder.outputFormatting.insert(.prettyPrinted) }
        do {
            return Array(try encoder.encode(FoundationValue(json: self)))
        } catch {
            throw JSONError(.numberOutOfRange)
        }
    }
}

/// The `userInfo` key for the paths of the numbers that are written with a fraction or an exponent. The failable
/// initializer never returns nil.
private let fractionsKey = CodingUserInfoKey(rawValue: "fractions")

/// A wrapper for encoding and decoding a ``JSON`` with Foundation without making ``JSON`` itself `Codable`.
private struct FoundationValue: Codable {
    let json: JSON

    init(json: JSON) {
        self.json = json
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self.json = .null
        } else if let value = try? container.decode(Bool.self) {
            self.json = .bool(value)
        } else if !Self.isFraction(decoder), let value = try? container.decode(Int64.self) {
            self.json = .integer(value)
        } else if let value = try? container.decode(Double.self) {
            self.json = .double(value)
        } else if let value = try? container.decode(String.self) {
            self.json = .string(value)
        } else if let value = try? container.decode([FoundationValue].self) {
            self.json = .array(value.map(\.json))
        } else {
            self.json = .object(try container.decode([String: FoundationValue].self).mapValues(\.json))
        }
    }

    private static func isFraction(_ decoder: any Decoder) -> Bool {
        guard let fractionsKey, let fractions = decoder.userInfo[fractionsKey] as? Set<JSONPath>, !fractions.isEmpty
        else { return false }
        let steps = decoder.codingPath.map { key in
            key.intValue.map(JSONPath.Step.element) ?? .member(key.stringValue)
        }
        return fractions.contains(JSONPath(steps))
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch json {
        case .null: try container.encodeNil()
        case .bool(let value): try container.encode(value)
        case .integer(let value): try container.encode(value)
        case .double(let value): try container.encode(value)
        case .string(let value): try container.encode(value)
        case .array(let elements): try container.encode(elements.map(FoundationValue.init(json:)))
        case .object(let members): try container.encode(members.mapValues(FoundationValue.init(json:)))
        }
    }
}
#endif
