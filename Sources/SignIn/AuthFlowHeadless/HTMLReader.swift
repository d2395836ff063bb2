/// Builds an ``HTMLPage`` from a page's tags and text: its title, its visible text, and the forms that a browser would submit.
///
/// No tree is built. The HTML Standard associates a field with a form by the order of the tags (section 4.10.17.3), or by the `form` attribute.
/// What a browser would not show as a form is not read.
struct HTMLReader {
    /// The length, in bytes, at which text is no longer appended to that of the page or a button.
    private static let maximumText = 1000
    /// The elements that end an `svg` or `math` element (section 13.2.6.5), those that occur in forms.
    private static let breakouts: Set<String> = [
        "b", "body", "br", "center", "code", "dd", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5", "h6", "head",
        "hr", "i", "img", "li", "ol",
        "p", "pre", "small", "span", "strong", "table", "u", "ul",
    ]

    private var page = HTMLPage()
    private var tokenizer: HTMLTokenizer
    private var fields: [(field: HTMLForm.Field, owner: Owner)] = []
    /// The index of the form that is open; nil outside.
    private var form: Int?
    /// The elements with an identifier: the index of the form, or nil for another element. The first one counts.
    private var identified: [String: Int?] = [:]
    private var button: (field: HTMLForm.Field, owner: Owner)?
    private var textArea: (field: HTMLForm.Field, owner: Owner)?
    private var hasTitle = false
    private var isInTitle = false
    private var isInSelect = false
    /// The number of open `template` elements. Their content is not part of the page.
    private var templates = 0
    /// The open `fieldset` elements, and whether their fields are disabled.
    private var fieldsets: [Bool] = []
    /// Text since the last tag.
    private var words = ""

    private enum Owner {
        case form(Int)
        case identifier(String)
    }

    /// Reads a page. Any input can be read; input other than HTML has no forms.
    static func page(_ bytes: [UInt8]) -> HTMLPage {
        var reader = HTMLReader(tokenizer: HTMLTokenizer(bytes))
        while let token = reader.tokenizer.next() {
            switch token {
            case .start(let tag): reader.begin(tag)
            case .end(let name): reader.end(name)
            case .text(let text): reader.add(text)
            }
        }
        return reader.finished()
    }

    private init(tokenizer: HTMLTokenizer) { self.tokenizer = tokenizer }

    private mutating func begin(_ tag: HTMLTokenizer.Tag) {
        endWords()
        if tag.name == "template" { templates += 1 }
        guard templates == 0 else { return }
        if tokenizer.isForeign {
            guard Self.breakouts.contains(tag.name) else { return }
            tokenizer.isForeign = false
        }
        defer { identify(tag) }
        switch tag.name {
        // Section 13.2.6.4.16, "in select": these end it, and it contains nothing else that matters here.
        case "input", "textarea": isInSelect = false
        case _ where isInSelect:
            isInSelect = tag.name != "select"
            return
        case "select": isInSelect = true
        default: break
        }
        switch tag.name {
        case "svg", "math": tokenizer.isForeign = true
        case "title": isInTitle = !hasTitle
        case "script": page.hasScripts = true
        case "base": page.base = page.base ?? tag[.href]
        case "fieldset": fieldsets.append(tag[.disabled] != nil || fieldsets.last == true)
        // Section 13.2.6.4.7: a form in another form is ignored.
        case "form" where form == nil:
            form = page.forms.count
            page.forms.append(
                HTMLForm(action: tag[.action] ?? "", method: (tag[.method] ?? "get").lowercased(), fields: [])
            )
        case "input", "button", "textarea", "select":
            let owner = tag[.form].map(Owner.identifier) ?? form.map(Owner.form)
            if tag.name == "button" { endButton() }
            guard tag[.disabled] == nil, fieldsets.last != true, let owner else { return }
            let field = HTMLForm.Field(tag)
            switch tag.name {
            case "button": button = (field, owner)
            case "textarea": textArea = (field, owner)
            default: fields.append((field, owner))
            }
        default: break
        }
    }

    private mutating func identify(_ tag: HTMLTokenizer.Tag) {
        guard let identifier = tag[.id], identified[identifier] == nil else { return }
        identified[identifier] = .some(tag.name == "form" ? form : nil)
    }

    private mutating func end(_ name: String) {
        endWords()
        if name == "template" { templates = max(templates - 1, 0) }
        guard templates == 0 else { return }
        switch name {
        case "svg", "math": tokenizer.isForeign = false
        case "title": (isInTitle, hasTitle) = (false, hasTitle || isInTitle)
        case "select": isInSelect = false
        case "fieldset": _ = fieldsets.popLast()
        case "button": endButton()
        case "textarea":
            if let textArea { fields.append(textArea) }
            textArea = nil
        case "form" where !isInSelect: form = nil
        default: break
        }
    }

    private mutating func add(_ text: String) {
        guard templates == 0, !tokenizer.isForeign else { return }
        if isInTitle {
            page.title += text
            return
        }
        if let (field, owner) = textArea {
            // Section 13.2.6.4.7: a line break after the start tag is not content.
            textArea = (field.with(value: text.first?.isNewline == true ? String(text.dropFirst()) : text), owner)
            return
        }
        if let (field, owner) = button, field.label.utf8.count < Self.maximumText {
            button = (field.with(label: field.label + text), owner)
        }
        if page.text.utf8.count < Self.maximumText, words.utf8.count < Self.maximumText { words += text }
    }

    private mutating func endWords() {
        guard !words.isEmpty else { return }
        let line = words.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        words = ""
        if !line.isEmpty { page.text += (page.text.isEmpty ? "" : " ") + line }
    }

    private mutating func endButton() {
        guard let button else { return }
        fields.append(button)
        self.button = nil
    }

    private mutating func finished() -> HTMLPage {
        endWords()
        endButton()
        if let textArea { fields.append(textArea) }
        for (field, owner) in fields {
            let index =
                switch owner {
                case .form(let index): index
                case .identifier(let identifier): identified[identifier] ?? nil
                }
            if let index { page.forms[index].fields.append(field) }
        }
        for index in page.forms.indices { page.forms[index].base = page.base }
        return page
    }
}

extension HTMLForm.Field {
    fileprivate init(_ tag: HTMLTokenizer.Tag) {
        let type = ["select", "textarea"].contains(tag.name) ? tag.name : tag[.type]?.lowercased()
        let kind = type ?? (tag.name == "button" ? "submit" : "text")
        let isBox = kind == "checkbox" || kind == "radio"
        let isButton = ["submit", "image", "button", "reset"].contains(kind)
        self.init(
            name: tag[.name] ?? "",
            type: kind,
            value: tag[.value] ?? (isBox ? "on" : ""),
            isSent: isBox ? tag[.checked] != nil : !isButton,
            label: tag.name == "button" ? "" : tag[.value] ?? "",
            action: tag[.formaction],
            method: tag[.formmethod]?.lowercased()
        )
    }

    fileprivate func with(value: String? = nil, label: String? = nil) -> Self {
        Self(
            name: name,
            type: type,
            value: value ?? self.value,
            isSent: isSent,
            label: label ?? self.label,
            action: action,
            method: method
        )
    }
}
