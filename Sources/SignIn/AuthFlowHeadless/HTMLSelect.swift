/// The options of a `select` element, and the values that a browser submits by default (HTML Standard, sections 4.10.7
/// and 4.10.10).
struct HTMLSelect {
    private struct Option {
        /// The `value` attribute; nil when the text is the value.
        let value: String?
        var text = ""
        let isSelected: Bool
        let isDisabled: Bool
    }

    private let isMultiple: Bool
    /// Whether only one option is displayed, so that an option is always selected.
    private let isDropDown: Bool
    private var options: [Option] = []
    private var isInOption = false
    /// Whether the open `optgroup` element is disabled; nil outside of such elements.
    private var isGroupDisabled: Bool?

    init(_ tag: HTMLTokenizer.Tag) {
        isMultiple = tag[.multiple] != nil
        isDropDown = !isMultiple && (tag[.size].flatMap(Self.integer) ?? 1) <= 1
    }

    private static let spaces: Set<Unicode.Scalar> = [" ", "\t", "\n", "\u{C}", "\r"]

    /// Section 2.3.4.1: whitespace before the digits and anything after them are ignored.
    private static func integer(_ text: String) -> Int? {
        var digits = text.unicodeScalars.drop(while: spaces.contains)
        if digits.first == "+" { digits.removeFirst() }
        return Int(String(digits.prefix { ("0"..."9").contains($0) }.prefix(9)))
    }

    /// Begins an `option`, `optgroup` or `hr` element, which ends the preceding option.
    mutating func begin(_ tag: HTMLTokenizer.Tag) {
        isInOption = tag.name == "option"
        guard isInOption else {
            isGroupDisabled = tag.name == "optgroup" ? tag[.disabled] != nil : nil
            return
        }
        options.append(
            Option(
                value: tag[.value],
                isSelected: tag[.selected] != nil,
                isDisabled: tag[.disabled] != nil || isGroupDisabled == true
            )
        )
    }

    mutating func add(_ text: String) {
        if isInOption { options[options.count - 1].text += text }
    }

    mutating func endOption() { isInOption = false }

    mutating func endGroup() {
        if isGroupDisabled != nil { (isInOption, isGroupDisabled) = (false, nil) }
    }

    /// The values to submit.
    var values: [String] {
        var selected = options.filter(\.isSelected)
        if !isMultiple { selected = selected.suffix(1) }
        if selected.isEmpty, isDropDown { selected = Array(options.filter { !$0.isDisabled }.prefix(1)) }
        return selected.filter { !$0.isDisabled }.map { option in
            // A comment divides the text, so the marks of several parts can follow each other.
            option.value
                ?? HTMLCharacters.comparable(option.text).unicodeScalars.split(whereSeparator: Self.spaces.contains)
                .map { String($0) }.joined(separator: " ")
        }
    }
}
