/// The limits that a page must meet before it is parsed: libxml2 compares every attribute of an element with every
/// other one, and walks all open elements at every tag.
enum HTMLBounds {
    /// The largest page, in bytes.
    static let maximumSize = 512 * 1024
    /// The maximum number of attributes of one element.
    static let maximumAttributes = 200
    /// The maximum number of tags of a page.
    static let maximumTags = 20_000
    /// The maximum number of elements that are open at a time, including those that need no end tag.
    static let maximumOpen = 3_000

    private static let voidElements: Set<String> = [
        "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
    ]

    /// Whether a page is within the limits. It is scanned as libxml2 does: a quotation mark counts only after an equals
    /// sign.
    static func allow(_ bytes: [UInt8]) -> Bool {
        guard bytes.count <= maximumSize else { return false }
        var position = 0
        var tags = 0
        var open = 0
        while let start = bytes[position...].firstIndex(of: UInt8(ascii: "<")) {
            position = start + 1
            if bytes[position...].starts(with: "!--".utf8) {
                guard let end = endOfComment(in: bytes, from: position + 3) else { return false }
                position = end
                tags += 1
                guard tags <= maximumTags else { return false }
                continue
            }
            let isEnd = position < bytes.count && bytes[position] == UInt8(ascii: "/")
            if isEnd { position += 1 }
            let name = self.name(in: bytes, at: &position)
            guard !name.isEmpty else { continue }
            tags += 1
            guard tags <= maximumTags, let isClosed = skipAttributes(in: bytes, at: &position) else { return false }
            if isEnd {
                open = max(0, open - 1)
            } else if !isClosed, !voidElements.contains(name) {
                open += 1
                guard open <= maximumOpen else { return false }
                if name == "script" || name == "style" {
                    position = end(of: "</\(name)", in: bytes, from: position, skipping: 0)
                }
            }
        }
        return true
    }

    /// The end of a comment; nil when parsers disagree about it: some also end one at `>`, `->` or `--!>`, and would
    /// read what is not counted here.
    private static func endOfComment(in bytes: [UInt8], from start: Int) -> Int? {
        let rest = bytes[min(start, bytes.count)...]
        guard !rest.starts(with: ">".utf8), !rest.starts(with: "->".utf8) else { return nil }
        for position in rest.indices where bytes[position...].starts(with: "--".utf8) {
            let behind = bytes[(position + 2)...]
            if behind.starts(with: ">".utf8) { return position + 3 }
            if behind.starts(with: "!>".utf8) { return nil }
        }
        return nil
    }

    private static func name(in bytes: [UInt8], at position: inout Int) -> String {
        let start = position
        while position < bytes.count, isNameCharacter(bytes[position]) { position += 1 }
        return String(decoding: bytes[start..<position], as: UTF8.self).lowercased()
    }

    private static func isNameCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: ":"), UInt8(ascii: "_"):
            true
        default: byte >= 0x80
        }
    }

    /// Skips to the end of a tag.
    /// - Returns: Whether it is self-closing; nil when it has too many attributes.
    private static func skipAttributes(in bytes: [UInt8], at position: inout Int) -> Bool? {
        var attributes = 0
        var last: UInt8 = 0
        while position < bytes.count {
            let byte = bytes[position]
            if byte == UInt8(ascii: ">") {
                position += 1
                return last == UInt8(ascii: "/")
            }
            if isSpace(byte) || byte == UInt8(ascii: "/") {
                last = byte
                position += 1
                continue
            }
            // A name, and perhaps a value.
            attributes += 1
            guard attributes <= maximumAttributes else { return nil }
            while position < bytes.count, !isSpace(bytes[position]), bytes[position] != UInt8(ascii: "="),
                bytes[position] != UInt8(ascii: ">"), bytes[position] != UInt8(ascii: "/")
            { position += 1 }
            var next = position
            while next < bytes.count, isSpace(bytes[next]) { next += 1 }
            guard next < bytes.count, bytes[next] == UInt8(ascii: "=") else {
                last = 0
                continue
            }
            position = next + 1
            while position < bytes.count, isSpace(bytes[position]) { position += 1 }
            guard position < bytes.count else { return false }
            let quote = bytes[position]
            if quote == UInt8(ascii: "\"") || quote == UInt8(ascii: "'") {
                position = (bytes[(position + 1)...].firstIndex(of: quote) ?? bytes.count - 1) + 1
            } else {
                while position < bytes.count, !isSpace(bytes[position]), bytes[position] != UInt8(ascii: ">") {
                    position += 1
                }
            }
            last = 0
        }
        return false
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }

    /// The position after a text, ignoring case, or the end of the page.
    private static func end(of text: String, in bytes: [UInt8], from start: Int, skipping length: Int? = nil) -> Int {
        let pattern = Array(text.utf8)
        var position = min(start, bytes.count)
        while position + pattern.count <= bytes.count {
            let isHere = pattern.indices.allSatisfy { lowercased(bytes[position + $0]) == pattern[$0] }
            if isHere { return position + (length ?? pattern.count) }
            position += 1
        }
        return bytes.count
    }

    private static func lowercased(_ byte: UInt8) -> UInt8 {
        (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte + 32 : byte
    }
}
