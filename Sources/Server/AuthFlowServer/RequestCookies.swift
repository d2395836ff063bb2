import AuthFlow

/// The cookies of a request (RFC 6265 section 5.4).
struct RequestCookies: Sendable {
    private let fields: [String]

    init(_ request: HTTPRequest) {
        fields = request.headerFields[fields: .cookie].map(\.value)
    }

    /// Parses the cookies as bytes: in Swift, a semicolon followed by a combining mark is one `Character`, so a
    /// cookie that another subdomain has set could hide the next cookie.
    private func forEach(_ body: (_ name: Substring.UTF8View, _ value: Substring.UTF8View) -> Void) {
        for field in fields {
            var rest = field.utf8[...]
            while !rest.isEmpty {
                let part = rest.prefix { $0 != UInt8(ascii: ";") }
                if let equals = part.firstIndex(of: UInt8(ascii: "=")) {
                    body(Self.trimmed(part[..<equals]), Self.trimmed(part[equals...].dropFirst()))
                }
                rest = rest[part.endIndex...].dropFirst()
            }
        }
    }

    private static func trimmed(_ text: Substring.UTF8View) -> Substring.UTF8View {
        func isSpace(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
        var text = text
        while let first = text.first, isSpace(first) { text = text.dropFirst() }
        while let last = text.last, isSpace(last) { text = text.dropLast() }
        return text
    }

    /// The cookie value as text. A non-ASCII value is treated as empty, because comparing it can take a long time; such a
    /// cookie still makes another cookie with the same name ambiguous.
    private static func text(_ value: Substring.UTF8View) -> String {
        value.allSatisfy { $0 < 0x80 } ? String(Substring(value)) : ""
    }

    /// The value of a cookie; nil if there is no cookie with this name, or more than one, because another subdomain may
    /// have set one of them.
    subscript(name: String) -> String? {
        var (found, count): (String?, Int) = (nil, 0)
        forEach { other, value in
            guard other.elementsEqual(name.utf8) else { return }
            count += 1
            found = Self.text(value)
        }
        return count == 1 ? found : nil
    }

    /// The cookies whose names begin with a prefix.
    func named(_ prefix: String) -> [(name: String, value: String)] {
        var found: [(name: String, value: String)] = []
        forEach { name, value in
            guard name.starts(with: prefix.utf8), name.allSatisfy({ $0 < 0x80 }) else { return }
            found.append((String(Substring(name)), Self.text(value)))
        }
        return found
    }
}
