/// Name-value pairs in order, as in a query or a form body (`application/x-www-form-urlencoded`).
public struct FormParameters: Sendable, Hashable {
    /// The names and values, in the order in which they are sent or were received. A name may occur more than once.
    package private(set) var pairs: [Pair] = []

    /// A name-value pair.
    package struct Pair: Sendable, Hashable {
        /// The name, decoded.
        package let name: String
        /// The value, decoded.
        package let value: String
    }

    /// Creates an empty list.
    public init() {}

    /// The value of the first parameter with this name. Setting it replaces all parameters with that name; nil removes them.
    public subscript(name: String) -> String? {
        get { pairs.first { $0.name == name }?.value }
        set {
            guard let newValue else { return pairs.removeAll { $0.name == name } }
            if let index = pairs.firstIndex(where: { $0.name == name }) {
                pairs[index] = Pair(name: name, value: newValue)
                pairs = pairs.enumerated().filter { $0.offset <= index || $0.element.name != name }.map(\.element)
            } else {
                append(name, newValue)
            }
        }
    }

    /// Adds a parameter at the end, even when its name is already present.
    public mutating func append(_ name: String, _ value: String) {
        pairs.append(Pair(name: name, value: value))
    }

    /// Every value with this name.
    public func values(for name: String) -> [String] { pairs.filter { $0.name == name }.map(\.value) }

    /// The first name that occurs more than once, if any. It is found in a single pass, however many parameters there are.
    package var repeatedName: String? {
        var seen: Set<String> = []
        return pairs.first { !seen.insert($0.name).inserted }?.name
    }

    /// The distinct names, in order.
    public var names: [String] {
        var seen: Set<String> = []
        return pairs.map(\.name).filter { seen.insert($0).inserted }
    }
}

extension FormParameters: ExpressibleByDictionaryLiteral {
    public init(dictionaryLiteral elements: (String, String)...) {
        for (name, value) in elements { append(name, value) }
    }
}

extension FormParameters: CustomStringConvertible, NonReflectable {
    /// The names without their values.
    public var description: String { names.map { "\($0)=<redacted>" }.joined(separator: "&") }
}
