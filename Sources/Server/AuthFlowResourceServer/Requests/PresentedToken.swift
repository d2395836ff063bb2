import AuthFlowHTTP
import HTTPTypes

/// The token of a request, before verification.
struct PresentedToken {
    enum Scheme: String, CaseIterable {
        case bearer = "Bearer"
        case dpop = "DPoP"
    }

    /// The maximum size of a token, in bytes.
    static let maximumSize = 32 * 1024

    let scheme: Scheme
    let token: Secret

    /// Extracts the token of a request.
    /// - Returns: The token; nil when the request has no token.
    /// - Throws: ``TokenFailure/malformed(_:)``.
    init?(_ request: HTTPRequest) throws(TokenFailure) {
        let values = request.headerFields[values: .authorization]
        guard let value = values.first else { return nil }
        guard values.count == 1 else { throw .malformed("The request has more than one Authorization field.") }
        // Bytes are compared here and below: `Character` and `==` normalize, which takes quadratic time for many combining marks.
        // An array is used here and below, because iterating over the bytes of a `String` takes ten times as long.
        let bytes = Array(value.utf8)
        let space = UInt8(ascii: " ")
        let name = bytes.prefix { $0 != space }
        // RFC 9110 section 11.1: schemes are case-insensitive.
        let named = Scheme.allCases.first { name.elementsEqual($0.rawValue.utf8) { $0 | 0x20 == $1 | 0x20 } }
        guard let named else { return nil }
        self.scheme = named
        // RFC 9110 section 11.4: auth-scheme 1*SP token68.
        let token = bytes[name.endIndex...].drop { $0 == space }
        guard !token.isEmpty, token.count <= Self.maximumSize, token.allSatisfy({ $0 < 0x80 }) else {
            throw Self.unreadable
        }
        // RFC 6750 section 2: "Clients MUST NOT use more than one method to transmit the token in each request."
        guard !Self.hasTokenInQuery(request.path ?? "") else {
            throw .malformed("The request has tokens in both the Authorization field and the query.")
        }
        self.token = Secret(String(decoding: token, as: UTF8.self))
    }

    private static let unreadable = TokenFailure.malformed(
        "The token in the Authorization field is malformed (RFC 6750 section 2.1) or larger than 32 KiB."
    )

    /// Checks the characters of a token. A cached token has already passed this check.
    /// - Throws: ``TokenFailure/malformed(_:)``.
    static func requireCharacters(of token: Secret) throws(TokenFailure) {
        guard token.exposed.utf8.count <= maximumSize, isToken68(token.exposed) else { throw unreadable }
    }

    /// RFC 6750 section 2.1: b64token = 1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"=".
    private static func isToken68(_ text: String) -> Bool {
        var (isContent, count) = (true, 0)
        for byte in Array(text.utf8) {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "-")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "~"), UInt8(ascii: "+"):
                guard isContent else { return false }
                count += 1
            case UInt8(ascii: "="): isContent = false
            default: return false
            }
        }
        return count > 0
    }

    private static func hasTokenInQuery(_ path: String) -> Bool {
        guard let start = path.utf8.firstIndex(of: UInt8(ascii: "?")) else { return false }
        return path.utf8[start...].dropFirst().split(separator: UInt8(ascii: "&")).contains { pair in
            let name = pair.prefix { $0 != UInt8(ascii: "=") }
            return FormURLEncoding.percentDecoded(String(Substring(name)))?.isIdentical(to: "access_token") == true
        }
    }
}
