import AuthFlow

/// The application page to which a user returns after signing in: a path, never another site's URL.
///
/// RFC 9700 section 2.1: "Clients ... MUST NOT expose URLs that forward the user's browser to arbitrary URIs".
struct ReturnAddress: Sendable {
    /// Path, query and fragment.
    let path: String

    private static let maximumSize = 2048

    /// - Parameters:
    ///   - text: The value from the request, decoded.
    ///   - prefixes: The allowed prefixes; nil for any path of the application.
    /// - Returns: nil if the text is not an allowed path of the application.
    init?(_ text: String, prefixes: [String]?) {
        let bytes = Array(text.utf8)
        // Browsers treat a backslash as a slash, and remove tabs and line breaks.
        guard bytes.count <= Self.maximumSize, bytes.first == UInt8(ascii: "/"),
            bytes.count < 2 || bytes[1] != UInt8(ascii: "/"),
            bytes.allSatisfy({ (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "\\") })
        else { return nil }
        let path = bytes.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }
        // Dot segments would escape a prefix, however they are encoded.
        let decoded = FormURLEncoding.percentDecoded(String(decoding: path, as: UTF8.self)) ?? ".."
        // The comparison is bytewise: in Swift, a slash followed by a combining mark is one `Character`.
        let segments = decoded.utf8.split { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "\\") }
        guard !segments.contains(where: { $0.elementsEqual("..".utf8) || $0.elementsEqual(".".utf8) }) else {
            return nil
        }
        guard prefixes?.contains(where: { text.hasPrefix($0) }) ?? true else { return nil }
        self.path = text
    }
}
