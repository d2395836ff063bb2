/// A JSON value (RFC 8259), independent of the parser that produced it.
///
/// AuthFlow uses this type for the JSON text that it reads and writes, such as provider responses, ID Token payloads,
/// configuration files and stored credentials. Parsing is strict, because signed data can be forged if two parsers
/// interpret a document differently: duplicate keys, invalid UTF-8, NUL characters, out-of-range numbers and text after
/// the value are errors. See ``init(parsing:limits:)``.
public enum JSON: Sendable {
    /// The literal `null`.
    case null
    /// `true` or `false`.
    case bool(Bool)
    /// A number written without a fraction or an exponent. An integer outside the signed 64-bit range is a parse error,
    /// and is never rounded.
    case integer(Int64)
    /// A number written with a fraction or an exponent. Always finite.
    case double(Double)
    /// A string, without U+0000.
    case string(String)
    /// An array.
    case array([JSON])
    /// An object. Keys are unique; their order in the text is not preserved.
    case object([String: JSON])
}

// MARK: - Reading

extension JSON {
    /// The member with this name, if this is an object that has such a member. Names are compared code point by code
    /// point.
    public subscript(name: String) -> JSON? {
        guard case .object(let members) = self, let index = members.index(forKey: name),
            members[index].key.isIdentical(to: name)
        else { return nil }
        return members[index].value
    }

    /// Returns a copy of this object with one member changed or added, or removed if `value` is nil. Returns this JSON value
    /// unchanged if it is not an object, or if it has a member whose name differs from `name` only in Unicode normalization.
    public func replacing(_ name: String, with value: JSON?) -> JSON {
        guard case .object(var members) = self else { return self }
        // A name that differs only in its Unicode normalization is a different name.
        if let index = members.index(forKey: name), !members[index].key.isIdentical(to: name) { return self }
        members[name] = value
        return .object(members)
    }

    /// The string, if this is a string.
    public var string: String? {
        if case .string(let value) = self { value } else { nil }
    }

    /// The integer, if this is an integer. A number with a fraction or an exponent is not an integer.
    public var integer: Int64? {
        if case .integer(let value) = self { value } else { nil }
    }

    /// The integer, in any notation: 100, 100.0 and 1e2 are the same number (RFC 8259 section 6), and some programs write integers with a fraction.
    package var wholeNumber: Int64? { integer ?? number.flatMap { Int64(exactly: $0) } }

    /// The number, with or without a fraction, if this is a number.
    public var number: Double? {
        switch self {
        case .integer(let value): Double(value)
        case .double(let value): value
        default: nil
        }
    }

    /// The boolean, if this is a boolean.
    public var bool: Bool? {
        if case .bool(let value) = self { value } else { nil }
    }

    /// The elements, if this is an array.
    public var array: [JSON]? {
        if case .array(let value) = self { value } else { nil }
    }

    /// The members, if this is an object.
    public var object: [String: JSON]? {
        if case .object(let value) = self { value } else { nil }
    }

    /// The elements, if this is an array that contains only strings.
    public var strings: [String]? {
        guard let array else { return nil }
        let strings = array.compactMap(\.string)
        return strings.count == array.count ? strings : nil
    }

    /// The kind of value, in the terms of RFC 8259, for messages.
    public var kind: String {
        switch self {
        case .null: "null"
        case .bool: "a boolean"
        case .integer, .double: "a number"
        case .string: "a string"
        case .array: "an array"
        case .object: "an object"
        }
    }
}

// MARK: - Literals

extension JSON: ExpressibleByStringLiteral {
    public init(stringLiteral value: String) { self = .string(value) }
}

extension JSON: ExpressibleByIntegerLiteral {
    public init(integerLiteral value: Int64) { self = .integer(value) }
}

extension JSON: ExpressibleByFloatLiteral {
    public init(floatLiteral value: Double) { self = .double(value) }
}

extension JSON: ExpressibleByBooleanLiteral {
    public init(booleanLiteral value: Bool) { self = .bool(value) }
}

extension JSON: ExpressibleByArrayLiteral {
    public init(arrayLiteral elements: JSON...) { self = .array(elements) }
}

extension JSON: ExpressibleByDictionaryLiteral {
    public init(dictionaryLiteral elements: (String, JSON)...) {
        self = .object(Dictionary(elements) { _, last in last })
    }
}
