import AuthFlow
import HTTPTypes

/// The cookies of a request (RFC 6265 section 5.4).
struct RequestCookies: Sendable {
    private let pairs: [(name: String, value: String)]

    init(_ request: HTTPRequest) {
        // As bytes: to Swift's characters a mark in one cookie, which another site of the domain may have set, would hide the next.
        let fields = request.headerFields[fields: .cookie].map { Array($0.value.utf8) }
        pairs = fields.flatMap { $0.split(separator: UInt8(ascii: ";")) }.compactMap { part in
            let parts = part.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            // Other text can take long to compare. A cookie whose value is other text still makes another one of its name ambiguous.
            guard parts.count == 2, parts[0].allSatisfy({ $0 < 0x80 }) else { return nil }
            return (Self.trimmed(parts[0]), parts[1].allSatisfy { $0 < 0x80 } ? Self.trimmed(parts[1]) : "")
        }
    }

    private static func trimmed(_ text: ArraySlice<UInt8>) -> String {
        func isSpace(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
        let start = text.drop(while: isSpace)
        return String(
            decoding: start[..<((start.lastIndex { !isSpace($0) } ?? start.startIndex - 1) + 1)],
            as: UTF8.self
        )
    }

    /// The value of a cookie; nil when there is none, or more than one: another site of the same domain may have set one of them.
    subscript(name: String) -> String? {
        let values = pairs.filter { $0.name == name }.map(\.value)
        return values.count == 1 ? values[0] : nil
    }

    /// The cookies whose names begin with a prefix.
    func named(_ prefix: String) -> [(name: String, value: String)] { pairs.filter { $0.name.hasPrefix(prefix) } }
}

/// A cookie that a response sets. RFC 10017 section 6.1.3.2: it is `Secure` and `HttpOnly`, has the path `/` and no domain.
struct ResponseCookie: Sendable {
    enum SameSite: String, Sendable {
        case strict = "Strict"
        case lax = "Lax"
        case none = "None"
    }

    let name: String
    let value: String
    let sameSite: SameSite
    let isSecure: Bool
    /// nil for a cookie that ends with the browser.
    var maximumAge: Duration?

    var field: String {
        var field = "\(name)=\(value); Path=/; HttpOnly; SameSite=\(sameSite.rawValue)"
        if isSecure { field += "; Secure" }
        if let maximumAge { field += "; Max-Age=\(maximumAge.components.seconds)" }
        return field
    }

    /// The cookie that takes this one's place and ends at once.
    var removal: ResponseCookie {
        ResponseCookie(name: name, value: "", sameSite: sameSite, isSecure: isSecure, maximumAge: .zero)
    }
}
