/// A JSON value (RFC 8259), copied out of the parser into a Swift value.
///
/// Every document that AuthFlow reads or writes goes through this type: responses of providers, ID Token payloads,
/// configuration files and stored credentials. Parsing is strict, because two readers that disagree about a document
/// are how signed data is forged: duplicate keys, invalid UTF-8, NUL characters, numbers that do not fit and text
/// after the value are errors. See ``init(parsing:limits:)``.
public enum JSON: Sendable {
    /// The literal `null`.
    case null
    /// `true` or `false`.
    case bool(Bool)
    /// A number written without fraction or exponent. Numbers outside 64 bits are a parse error, never rounded.
    case integer(Int64)
    /// A number written with a fraction or an exponent. Always finite.
    case double(Double)
    /// A string, without U+0000.
    case string(String)
    /// An array.
    case array([JSON])
    /// An object. Keys are unique; their order in the text is not kept.
    case object([String: JSON])
}

// MARK: - Reading

extension JSON {
    /// The member with this name, when this is an object that has one. Names are compared code point by code point.
    public subscript(name: String) -> JSON? {
        guard case .object(let members) = self, let index = members.index(forKey: name),
            members[index].key.isIdentical(to: name)
        else { return nil }
        return members[index].value
    }

    /// Returns the object with one member changed, added, or removed where `value` is nil; unchanged where this is not an object, or has a
    /// member whose name differs in its Unicode normalization alone.
    public func replacing(_ name: String, with value: JSON?) -> JSON {
        guard case .object(var members) = self else { return self }
        // A name that differs in its normalization alone is another one.
        if let index = members.index(forKey: name), !members[index].key.isIdentical(to: name) { return self }
        members[name] = value
        return .object(members)
    }

    /// The string, when this is one.
    public var string: String? {
        if case .string(let value) = self { value } else { nil }
    }

    /// The integer, when this is one. A number with a fraction or an exponent is not.
    public var integer: Int64? {
        if case .integer(let value) = self { value } else { nil }
    }

    /// The number, when this is one, with or without a fraction.
    public var number: Double? {
        switch self {
        case .integer(let value): Double(value)
        case .double(let value): value
        default: nil
        }
    }

    /// The boolean, when this is one.
    public var bool: Bool? {
        if case .bool(let value) = self { value } else { nil }
    }

    /// The elements, when this is an array.
    public var array: [JSON]? {
        if case .array(let value) = self { value } else { nil }
    }

    /// The members, when this is an object.
    public var object: [String: JSON]? {
        if case .object(let value) = self { value } else { nil }
    }

    /// The elements, when this is an array of strings and nothing else.
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
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public init(stringLiteral value: String) { self = .string(value) }
}

extension JSON: ExpressibleByIntegerLiteral {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public init(integerLiteral value: Int64) { self = .integer(value) }
}

extension JSON: ExpressibleByFloatLiteral {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public init(floatLiteral value: Double) { self = .double(value) }
}

extension JSON: ExpressibleByBooleanLiteral {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public init(booleanLiteral value: Bool) { self = .bool(value) }
}

extension JSON: ExpressibleByArrayLiteral {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public init(arrayLiteral elements: JSON...) { self = .array(elements) }
}

extension JSON: ExpressibleByDictionaryLiteral {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public init(dictionaryLiteral elements: (String, JSON)...) {
        self = .object(Dictionary(elements) { _, last in last })
    }
}
