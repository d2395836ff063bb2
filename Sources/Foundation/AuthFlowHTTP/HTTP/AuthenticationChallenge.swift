import AuthFlowJSON
package import HTTPTypes

/// One challenge in a server's `WWW-Authenticate` field (RFC 9110 section 11.6.1): the authentication that it requires.
package struct AuthenticationChallenge: Sendable, Hashable {
    /// `auth-scheme` in lower case: it is case-insensitive (section 11.1).
    package let scheme: String

    /// The parameter values, keyed by the name in lower case.
    package let parameters: [String: String]

    /// The `token68`, which schemes such as `Negotiate` use instead of parameters (section 11.2); default: none.
    package let token68: String?

    /// Creates a challenge.
    package init(scheme: String, parameters: [String: String] = [:], token68: String? = nil) {
        self.scheme = scheme.lowercased()
        self.parameters = parameters
        self.token68 = token68
    }

    /// The maximum total size of the fields, in bytes.
    private static let maximumSize = 16 * 1024

    /// The challenges of all `WWW-Authenticate` fields, in order.
    ///
    /// A challenge that repeats a parameter is skipped, because two parsers could interpret it differently. Malformed input is skipped
    /// up to the end of its field. If the total size of the fields exceeds 16 KiB, all of them are ignored.
    package static func challenges(in fields: HTTPFields) -> [AuthenticationChallenge] {
        let values = fields[values: .wwwAuthenticate]
        guard values.reduce(0, { $0 + $1.utf8.count }) <= maximumSize else { return [] }
        var reader = Reader(fields: values)
        return reader.challenges()
    }

    package static func challenges(in response: TransportResponse) -> [AuthenticationChallenge] {
        challenges(in: response.head.headerFields)
    }

    /// Parses the list that section 11.6.1 defines, in which a comma separates both challenges and their parameters. A
    /// name followed by an equals sign is a parameter; any other name is the scheme of the next challenge.
    private struct Reader {
        private var bytes: [UInt8] = []
        /// The end of each field.
        private var ends: [Int] = []
        private var position = 0

        /// RFC 9110 section 5.3: several field lines with the same name are equivalent to one field line with their values, in order,
        /// separated by commas.
        init(fields: [String]) {
            for field in fields {
                bytes += field.utf8
                ends.append(bytes.count)
                bytes.append(UInt8(ascii: ","))
            }
        }

        /// Input that does not match the grammar, which makes everything after it ambiguous.
        private struct Malformed: Error {}

        mutating func challenges() -> [AuthenticationChallenge] {
            var all: [AuthenticationChallenge] = []
            // Section 5.6.1: "a recipient MUST parse and ignore a reasonable number of empty list elements".
            while true {
                skip(separators: true)
                guard current != nil else { return all }
                guard let scheme = token() else {
                    position = endOfField
                    continue
                }
                do throws(Malformed) {
                    if let challenge = try challenge(scheme) { all.append(challenge) }
                } catch {
                    position = endOfField
                }
            }
        }

        private var endOfField: Int { ends.first { $0 >= position } ?? bytes.count }

        /// The rest of a challenge after its scheme; nil when it is ambiguous.
        private mutating func challenge(_ scheme: String) throws(Malformed) -> AuthenticationChallenge? {
            let end = position
            skip(separators: false)
            guard position > end else {
                // A space must separate the parameters from the scheme (RFC 9110 section 11.3); without a space, the challenge ends here.
                guard isAtEndOfElement else { throw Malformed() }
                return AuthenticationChallenge(scheme: scheme)
            }
            if let blob = token68() { return AuthenticationChallenge(scheme: scheme, token68: blob) }
            var parameters: [String: String] = [:]
            var isUnambiguous = true
            while true {
                let start = position
                skip(separators: true)
                guard let (name, value) = try parameter() else {
                    position = start
                    guard isAtEndOfElement || !parameters.isEmpty else { throw Malformed() }
                    break
                }
                // Section 11.2: "each parameter name MUST only occur once per challenge".
                if parameters.updateValue(value, forKey: name) != nil { isUnambiguous = false }
            }
            return isUnambiguous ? AuthenticationChallenge(scheme: scheme, parameters: parameters) : nil
        }

        /// `auth-param = token BWS "=" BWS ( token / quoted-string )`; nil when the input here is not a parameter.
        private mutating func parameter() throws(Malformed) -> (name: String, value: String)? {
            guard let name = token()?.lowercased() else { return nil }
            skip(separators: false)
            guard current == UInt8(ascii: "=") else { return nil }
            position += 1
            skip(separators: false)
            let value: String?
            if current == UInt8(ascii: "\"") {
                value = quotedString()
            } else if name == "resource_metadata" {
                // A URL is not a valid token, but some servers omit the quotes anyway.
                value = unquotedURL()
            } else {
                value = token()
            }
            guard let value, isAtEndOfElement || isAtSpace else { throw Malformed() }
            return (name, value)
        }

        private var current: UInt8? { position < bytes.count ? bytes[position] : nil }
        private var isAtSpace: Bool { current == 0x20 || current == 0x09 }
        private var isAtEndOfElement: Bool { current == nil || current == UInt8(ascii: ",") }

        /// Skips spaces, and commas when `separators` is true.
        private mutating func skip(separators: Bool) {
            while let byte = current, byte == 0x20 || byte == 0x09 || separators && byte == UInt8(ascii: ",") {
                position += 1
            }
        }

        /// `token` (section 5.6.2).
        private mutating func token() -> String? { text { $0.isTokenCharacter } }

        private mutating func unquotedURL() -> String? {
            text { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: ",") && $0 != UInt8(ascii: "\"") }
        }

        private mutating func text(_ isPart: (UInt8) -> Bool) -> String? {
            let start = position
            while let byte = current, isPart(byte) { position += 1 }
            return position > start ? String(decoding: bytes[start..<position], as: UTF8.self) : nil
        }

        /// `token68 = 1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"="` (section 11.2); nil when anything else
        /// precedes the next comma. A `token68` that ends in "=" looks like a parameter without a value.
        private mutating func token68() -> String? {
            let start = position
            guard text({ $0.isLetterOrDigit || "-._~+/".utf8.contains($0) }) != nil else { return nil }
            _ = text { $0 == UInt8(ascii: "=") }
            let end = position
            skip(separators: false)
            guard isAtEndOfElement else {
                position = start
                return nil
            }
            return String(decoding: bytes[start..<end], as: UTF8.self)
        }

        /// `quoted-string` (section 5.6.4); nil when it is unterminated, is not UTF-8, or has too many combining marks.
        private mutating func quotedString() -> String? {
            position += 1
            let end = endOfField
            var value: [UInt8] = []
            while position < end, let byte = current {
                position += 1
                switch byte {
                case UInt8(ascii: "\""):
                    return String(validating: value, as: UTF8.self).flatMap { $0.hasTooManyCombiningMarks ? nil : $0 }
                case UInt8(ascii: "\\"):
                    guard position < end, let escaped = current else { return nil }
                    value.append(escaped)
                    position += 1
                default: value.append(byte)
                }
            }
            return nil
        }
    }
}
