import AuthFlowSystem

extension JSON: Hashable {
    /// Compares two values. Names and strings are equal when their code points are equal. The `==` operator of Swift's
    /// strings applies Unicode normalization, which could make two different subjects the same user.
    public static func == (left: JSON, right: JSON) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.bool(let left), .bool(let right)): left == right
        case (.integer(let left), .integer(let right)): left == right
        case (.double(let left), .double(let right)): left == right
        case (.string(let left), .string(let right)): left.isIdentical(to: right)
        case (.array(let left), .array(let right)): left == right
        case (.object(let left), .object(let right)):
            left.count == right.count
                && left.allSatisfy { name, value in
                    guard let index = right.index(forKey: name) else { return false }
                    return right[index].key.isIdentical(to: name) && right[index].value == value
                }
        default: false
        }
    }

    public func hash(into hasher: inout Hasher) {
        switch self {
        case .null: hasher.combine(0)
        case .bool(let value): hasher.combine(value)
        case .integer(let value): hasher.combine(value)
        case .double(let value): hasher.combine(value)
        case .string(let value): hasher.combine(value)
        case .array(let elements): hasher.combine(elements)
        case .object(let members): hasher.combine(members)
        }
    }
}

extension StringProtocol {
    /// Whether two strings have the same code points, as OpenID Connect Core section 14 requires for identifiers:
    /// "Unicode Normalization MUST NOT be applied at any point", and "Comparisons between the two strings MUST be performed as
    /// a Unicode code-point-to-code-point equality comparison".
    public func isIdentical(to other: some StringProtocol) -> Bool {
        utf8.elementsEqual(other.utf8)
    }
}

extension String {
    /// Whether two strings have the same code points. It is faster than the generic method, because it compares all
    /// bytes with one call.
    public func isIdentical(to other: String) -> Bool {
        guard utf8.count == other.utf8.count else { return false }
        let result = unsafe utf8.withContiguousStorageIfAvailable { left in
            unsafe other.utf8.withContiguousStorageIfAvailable { right in
                guard let left = left.baseAddress, let right = right.baseAddress else { return true }
                return unsafe memcmp(left, right, utf8.count) == 0
            }
        }
        return (result ?? nil) ?? utf8.elementsEqual(other.utf8)
    }
}

extension Sequence where Element == String {
    /// Whether one of the strings has the same code points as `text`.
    public func containsIdentical(_ text: String) -> Bool {
        contains { $0.isIdentical(to: text) }
    }
}

extension String? {
    /// Whether both strings are nil, or have the same code points, without the Unicode normalization that `==` applies.
    package func isIdentical(to other: String?) -> Bool {
        guard let text = self, let other else { return self == other }
        return text.isIdentical(to: other)
    }
}
