import AuthFlowHTTP

/// A response that is not acceptable JSON, for example because a number is out of range or a name is repeated. Nothing in it is used except the refresh
/// token, which has replaced the old one, and the tokens to revoke.
struct UnparsedResponse {
    let body: [UInt8]

    /// The value of the only member with this name; nil when there is no such member or more than one, or when its value is not a string or contains escapes.
    func token(_ name: String) -> Secret? {
        let quoted = Array("\"\(name)\"".utf8)
        let ranges = body.ranges(of: quoted)
        guard ranges.count == 1, let range = ranges.first else { return nil }
        let blanks: Set<UInt8> = [0x20, 0x09, 0x0A, 0x0D]
        let afterName = body[range.upperBound...].drop(while: blanks.contains)
        guard afterName.first == UInt8(ascii: ":") else { return nil }
        let value = afterName.dropFirst().drop(while: blanks.contains)
        guard value.first == UInt8(ascii: "\"") else { return nil }
        let token = value.dropFirst().prefix {
            (0x20...0x7E).contains($0) && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\")
        }
        guard !token.isEmpty, token.endIndex < body.endIndex, body[token.endIndex] == UInt8(ascii: "\"") else {
            return nil
        }
        return Secret(String(decoding: token, as: UTF8.self))
    }
}
