import HTTPTypes

/// One challenge of a server's `WWW-Authenticate` (RFC 9110 section 11.6.1).
struct AuthenticationChallenge: Sendable, Hashable {
    /// `auth-scheme` in lower case: it is case-insensitive (section 11.1).
    let scheme: String

    /// The parameters by their names in lower case; a `token68` has none.
    let parameters: [String: String]

    /// The longest field that is read, in bytes.
    private static let maximumSize = 8 * 1024

    /// The challenges of all fields, in order. Anything malformed ends the list: nothing is guessed.
    static func challenges(in response: TransportResponse) -> [AuthenticationChallenge] {
        response.head.headerFields[values: .wwwAuthenticate].flatMap { field -> [AuthenticationChallenge] in
            let bytes = Array(field.utf8)
            guard bytes.count <= maximumSize else { return [] }
            var reader = Reader(bytes: bytes)
            return reader.challenges()
        }
    }

    /// Reads the list of section 11.6.1, in which a comma separates both challenges and their parameters: a name
    /// followed by an equals sign is a parameter, and one without is the scheme of the next challenge.
    private struct Reader {
        let bytes: [UInt8]
        var position = 0

        mutating func challenges() -> [AuthenticationChallenge] {
            var all: [AuthenticationChallenge] = []
            skip(separators: true)
            while let scheme = token() {
                var parameters: [String: String] = [:]
                let start = position
                skip(separators: false)
                // Only a space leads to parameters; anything else ends the challenge.
                if position > start { readParameters(into: &parameters) }
                all.append(AuthenticationChallenge(scheme: scheme.lowercased(), parameters: parameters))
                let end = position
                skip(separators: true)
                guard position > end else { break }
            }
            return all
        }

        private mutating func readParameters(into parameters: inout [String: String]) {
            while true {
                let start = position
                guard let name = token() else { return skipToken68(from: start) }
                skip(separators: false)
                guard current == UInt8(ascii: "=") else {
                    position = start
                    // The first word after a scheme may be a token68; any other is the next scheme.
                    if parameters.isEmpty { skipToken68(from: start) }
                    return
                }
                position += 1
                skip(separators: false)
                guard let value = current == UInt8(ascii: "\"") ? quotedString() : token() else {
                    return skipToken68(from: start)
                }
                let key = name.lowercased()
                // Section 11.2: "each parameter name MUST only occur once per challenge". The first counts.
                if parameters[key] == nil { parameters[key] = value }
                let end = position
                skip(separators: true)
                guard position > end else { return }
                // What follows is another parameter only when an equals sign comes after its name.
                let next = position
                guard token() != nil, isBeforeEqualsSign() else {
                    position = end
                    return
                }
                position = next
            }
        }

        private mutating func isBeforeEqualsSign() -> Bool {
            skip(separators: false)
            return current == UInt8(ascii: "=")
        }

        private var current: UInt8? { position < bytes.count ? bytes[position] : nil }

        /// Skips spaces, and commas when `separators` is true.
        private mutating func skip(separators: Bool) {
            while let byte = current, byte == 0x20 || byte == 0x09 || separators && byte == UInt8(ascii: ",") {
                position += 1
            }
        }

        /// `token` (section 5.6.2).
        private mutating func token() -> String? {
            let start = position
            while let byte = current, FoldedCookies.isTokenCharacter(byte) { position += 1 }
            return position > start ? String(decoding: bytes[start..<position], as: UTF8.self) : nil
        }

        /// `quoted-string` (section 5.6.4); nil when it has no end.
        private mutating func quotedString() -> String? {
            position += 1
            var value: [UInt8] = []
            while let byte = current {
                position += 1
                switch byte {
                case UInt8(ascii: "\""): return String(validating: value, as: UTF8.self)
                case UInt8(ascii: "\\"):
                    guard let escaped = current else { return nil }
                    value.append(escaped)
                    position += 1
                default: value.append(byte)
                }
            }
            return nil
        }

        /// Skips `token68` (section 11.2), which no scheme that matters here uses in a challenge.
        private mutating func skipToken68(from start: Int) {
            position = start
            while let byte = current, byte != UInt8(ascii: ","), byte != 0x20, byte != 0x09 { position += 1 }
        }
    }
}
