import AuthFlow

/// Redacts access tokens in a server's messages, because the host may log them and pass them to a model.
struct TokenRedaction: Sendable {
    /// The tokens that were sent last, most recent first. After a refresh, responses to earlier requests may still quote the previous token.
    private var tokens: [Secret] = []

    /// The minimum length of a token in bytes. Shorter text might occur in a message by coincidence; RFC 6749 section 10.10 requires tokens that cannot
    /// be guessed.
    private static let minimumLength = 16

    /// Records a token that is sent.
    /// - Parameter authorization: The `Authorization` field of the request, with the scheme.
    mutating func record(_ authorization: Secret?) {
        guard let token = authorization?.exposed.split(separator: " ").last, token.utf8.count >= Self.minimumLength
        else { return }
        let secret = Secret(String(token))
        guard tokens.first != secret else { return }
        tokens = [secret] + tokens.filter { $0 != secret }.prefix(1)
    }

    /// The JSON text with the tokens redacted.
    func redacted(_ bytes: [UInt8]) -> [UInt8] {
        tokens.reduce(bytes) { Self.redacted($0, Array($1.exposed.utf8)) }
    }

    /// Searches with the algorithm of Knuth, Morris and Pratt, whose duration is linear even if the server chose both the token and the message.
    private static func redacted(_ bytes: [UInt8], _ token: [UInt8]) -> [UInt8] {
        let borders = Self.borders(of: token)
        // The positions of the last characters, because an escaped character has several bytes.
        var starts = [Int](repeating: 0, count: token.count)
        var clean: [UInt8] = []
        var (copied, matched, next, index) = (0, 0, 0, 0)
        while index < bytes.count {
            var (character, length) = (bytes[index], 1)
            if character == UInt8(ascii: "\\") { (character, length) = escaped(bytes[index...]) }
            starts[next] = index
            next = next + 1 == token.count ? 0 : next + 1
            index += length
            while matched > 0, token[matched] != character { matched = borders[matched - 1] }
            if token[matched] == character { matched += 1 }
            guard matched == token.count else { continue }
            clean += bytes[copied..<starts[next]]
            clean += "<redacted>".utf8
            (copied, matched) = (index, 0)
        }
        return copied == 0 ? bytes : clean + bytes[copied...]
    }

    /// The length of the longest proper prefix of each prefix of the token that is also its suffix.
    private static func borders(of token: [UInt8]) -> [Int] {
        var borders = [Int](repeating: 0, count: token.count)
        var length = 0
        for index in token.indices.dropFirst() {
            while length > 0, token[length] != token[index] { length = borders[length - 1] }
            if token[length] == token[index] { length += 1 }
            borders[index] = length
        }
        return borders
    }

    /// The character that an escape sequence at the beginning of the text stands for, and the length of the sequence. Some serializers escape `/`,
    /// `+` and `=`. The character is zero, which no token contains, for a control character, or a character that is not ASCII.
    private static func escaped(_ text: ArraySlice<UInt8>) -> (character: UInt8, length: Int) {
        guard let kind = text.dropFirst().first else { return (UInt8(ascii: "\\"), 1) }
        switch kind {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return (kind, 2)
        case UInt8(ascii: "u"):
            let digits = text.dropFirst(2).prefix(4)
            guard digits.count == 4, let code = UInt16(String(decoding: digits, as: UTF8.self), radix: 16) else {
                return (0, 2)
            }
            return (code < 0x80 ? UInt8(code) : 0, 6)
        default: return (0, 2)
        }
    }
}
