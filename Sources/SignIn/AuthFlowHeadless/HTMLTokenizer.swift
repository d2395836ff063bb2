import AuthFlowJSON

/// Splits a page into tags and text, as the HTML Standard's tokenizer does (section 13.2.5), in one pass over the bytes.
///
/// As in a browser, this step separates elements from text: a form in the content of `textarea` or in a comment is not an element. Text
/// between the tags of `script` and similar elements is skipped.
struct HTMLTokenizer {
    enum Token {
        /// A start tag, with the attributes that a sign-in needs.
        case start(Tag)
        case end(name: String)
        case text(String)
    }

    struct Tag {
        var name: String
        var isSelfClosing = false
        fileprivate var attributes: [Attribute: String] = [:]

        /// The value of an attribute; nil when it is absent.
        subscript(_ attribute: Attribute) -> String? { attributes[attribute] }

        /// The value of an attribute, with its ASCII letters in lower case; nil when it is absent.
        func keyword(_ attribute: Attribute) -> String? {
            attributes[attribute].map { String(decoding: $0.utf8.map(\.lowercased), as: UTF8.self) }
        }
    }

    /// The attributes that are read; all others are skipped.
    enum Attribute: String, CaseIterable {
        case action, autocomplete, charset, checked, content, disabled, form, formaction, formmethod, href, id,
            inputmode, method, multiple, name
        case readonly, selected, size, type, value
        case acceptCharset = "accept-charset"
        case httpEquiv = "http-equiv"
    }

    /// Whether the position is in an `svg` or `math` element, where a CDATA section may occur.
    var isForeign = false

    private let bytes: [UInt8]
    private var position = 0
    /// The element whose content is text and ends only at its own end tag; nil outside such an element.
    private var textElement: String?
    private static let attributes = Dictionary(
        uniqueKeysWithValues: Attribute.allCases.map { (Array($0.rawValue.utf8), $0) }
    )
    private static let longestAttribute = attributes.keys.map(\.count).max() ?? 0
    /// Elements whose content is text in a browser with scripting (section 13.2.6.4), without and with character references.
    private static let raw: Set<String> = [
        "script", "style", "xmp", "iframe", "noembed", "noframes", "noscript", "plaintext",
    ]
    private static let replaceable: Set<String> = ["title", "textarea"]

    init(_ bytes: [UInt8]) {
        // Section 13.2.3.5: a carriage return, with or without a line feed after it, becomes one line feed.
        self.bytes =
            bytes.contains(0x0D)
            ? bytes.indices.compactMap { index in
                guard bytes[index] == 0x0D else { return bytes[index] }
                return index + 1 < bytes.count && bytes[index + 1] == 0x0A ? nil : 0x0A
            } : bytes
    }

    /// The next token; nil at the end of the page. An unfinished tag at the end is not a token.
    mutating func next() -> Token? {
        if let element = textElement {
            textElement = nil
            if let text = content(of: element) { return .text(text) }
        }
        while position < bytes.count {
            guard bytes[position] == UInt8(ascii: "<"), position + 1 < bytes.count else { return .text(text()) }
            switch bytes[position + 1] {
            case let byte where byte.isLetter:
                position += 1
                guard var tag = tag() else { return nil }
                // In foreign content, no element contains only text, and a tag may be self-closing.
                if !isForeign {
                    tag.isSelfClosing = tag.isSelfClosing && (tag.name == "svg" || tag.name == "math")
                    if Self.raw.contains(tag.name) || Self.replaceable.contains(tag.name) { textElement = tag.name }
                }
                return .start(tag)
            case UInt8(ascii: "/") where position + 2 < bytes.count && bytes[position + 2].isLetter:
                position += 2
                guard let tag = tag() else { return nil }
                return .end(name: tag.name)
            case UInt8(ascii: "/"), UInt8(ascii: "!"), UInt8(ascii: "?"): skipMarkup()
            default: return .text(text())
            }
        }
        return nil
    }

    // MARK: Text

    /// The text before the next `<`; the first byte is text, even if it is `<`.
    private mutating func text() -> String {
        let start = position
        position += 1
        while position < bytes.count, bytes[position] != UInt8(ascii: "<") { position += 1 }
        // Section 13.2.6.4.7: a null character outside of elements that contain only text is ignored.
        return HTMLCharacters.text(bytes[start..<position].filter { $0 != 0 }[...])
    }

    /// The content of an element that contains only text, up to its end tag; nil if it is not needed.
    private mutating func content(of element: String) -> String? {
        let start = position
        if element == "script" { skipScript() }
        while position < bytes.count, element == "plaintext" || !has("</", element) { position += 1 }
        return Self.replaceable.contains(element) ? HTMLCharacters.text(bytes[start..<position]) : nil
    }

    /// Section 13.2.5.4, "Script data state": `</script>` in `<!-- <script> ... -->` does not end the script.
    private mutating func skipScript() {
        enum State { case normal, escaped, escapedTwice }
        var state = State.normal
        while position < bytes.count {
            switch state {
            case .normal, .escaped:
                if has("</", "script") { return }
                if state == .normal, has("<!--") {
                    state = .escaped
                    // The dashes of "<!--" may also belong to "-->", as in "<!-->".
                    position += 1
                } else if state == .escaped, has("<", "script") {
                    state = .escapedTwice
                }
            case .escapedTwice: if has("</", "script") { state = .escaped }
            }
            if state != .normal, has("-->") { state = .normal }
            position += 1
        }
    }

    // MARK: Markup

    /// Skips a comment, a declaration or a processing instruction.
    private mutating func skipMarkup() {
        if has("<!--") {
            position += 4
            // Section 13.2.5.43, "Comment start state": "<!-->" and "<!--->" are also comments.
            for end in [">", "->"] where has(end) {
                position += end.utf8.count
                return
            }
            skip(past: "-->", "--!>")
        } else {
            skip(past: isForeign && has("<![CDATA[") ? "]]>" : ">")
        }
    }

    /// A tag, read from the start of its name; nil when the page ends within the tag.
    private mutating func tag() -> Tag? {
        let start = position
        skip { $0.isSpace || $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: ">") }
        // Names that are longer than any element's name need not be distinguished.
        let name = bytes[start..<position].prefix(32).map(\.lowercased)
        var tag = Tag(name: String(decoding: name, as: UTF8.self))
        while position < bytes.count {
            switch bytes[position] {
            case UInt8(ascii: ">"):
                position += 1
                return tag
            case UInt8(ascii: "/"):
                tag.isSelfClosing = has("/>")
                position += 1
            case let byte where byte.isSpace: position += 1
            default: readAttribute(of: &tag)
            }
        }
        return nil
    }

    private mutating func readAttribute(of tag: inout Tag) {
        let start = position
        // Section 13.2.5.32: an equals sign at the beginning belongs to the name.
        position += 1
        skip { $0.isSpace || $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: ">") || $0 == UInt8(ascii: "=") }
        let name = bytes[start..<position]
        skip { !$0.isSpace }
        var value = bytes[position..<position]
        if position < bytes.count, bytes[position] == UInt8(ascii: "=") {
            position += 1
            skip { !$0.isSpace }
            value = attributeValue()
        }
        guard name.count <= Self.longestAttribute, let attribute = Self.attributes[name.map(\.lowercased)] else {
            return
        }
        // Section 13.2.5.33: if several attributes have the same name, only the first is used.
        if tag.attributes[attribute] == nil { tag.attributes[attribute] = HTMLCharacters.value(value) }
    }

    private mutating func attributeValue() -> ArraySlice<UInt8> {
        guard position < bytes.count, bytes[position] != UInt8(ascii: ">") else { return [] }
        let quote = bytes[position]
        guard quote == UInt8(ascii: "\"") || quote == UInt8(ascii: "'") else {
            let start = position
            skip { $0.isSpace || $0 == UInt8(ascii: ">") }
            return bytes[start..<position]
        }
        position += 1
        let start = position
        skip { $0 == quote }
        defer { position = min(position + 1, bytes.count) }
        return bytes[start..<position]
    }

    // MARK: Bytes

    /// Skips the bytes up to and including the first occurrence of one of the strings, or all remaining bytes.
    private mutating func skip(past ends: String...) {
        while position < bytes.count {
            if let end = ends.first(where: has) {
                position += end.utf8.count
                return
            }
            position += 1
        }
    }

    private mutating func skip(until isEnd: (UInt8) -> Bool) {
        while position < bytes.count, !isEnd(bytes[position]) { position += 1 }
    }

    /// Whether a string follows (case-sensitive).
    private func has(_ text: String) -> Bool {
        guard position < bytes.count, bytes[position] == text.utf8.first else { return false }
        return bytes[position...].starts(with: text.utf8)
    }

    /// Whether a tag with exactly this name follows (case-insensitive).
    private func has(_ opening: String, _ name: String) -> Bool {
        guard has(opening) else { return false }
        let rest = bytes[(position + opening.utf8.count)...].prefix(name.utf8.count + 1)
        guard rest.count > name.utf8.count, let end = rest.last else { return false }
        return rest.dropLast().lazy.map(\.lowercased).elementsEqual(name.utf8)
            && (end.isSpace || end == UInt8(ascii: "/") || end == UInt8(ascii: ">"))
    }
}

extension UInt8 {
    fileprivate var lowercased: UInt8 { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(self) ? self | 0x20 : self }
    /// Tab, line feed, form feed, space.
    fileprivate var isSpace: Bool {
        switch self {
        case 0x09, 0x0A, 0x0C, 0x20: true
        default: false
        }
    }
}
