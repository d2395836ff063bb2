/// Builds an ``HTMLPage`` from a page's tags and text: its title, its visible text, and the forms that a browser would submit.
///
/// It does not build a DOM tree. The HTML Standard associates a field with the form that is open when the field's tag is read, or with the form that its `form` attribute names
/// (section 4.10.17.3). Text that a browser would not treat as a form, and values that it would not submit, are ignored; in malformed pages, a browser may find more forms.
struct HTMLReader {
    /// The length, in bytes, beyond which no more text is appended to the text of the page or of a button.
    private static let maximumText = 1000
    /// The maximum nesting depth of foreign elements.
    private static let maximumDepth = 100
    /// The elements that end an `svg` or `math` element (section 13.2.6.5).
    private static let breakouts: Set<String> = [
        "b", "big", "blockquote", "body", "br", "center", "code", "dd", "div", "dl", "dt", "em", "embed", "h1", "h2",
        "h3", "h4", "h5", "h6", "head", "hr", "i", "img", "li", "listing", "menu", "meta", "nobr", "ol", "p", "pre",
        "ruby", "s", "small", "span", "strike", "strong", "sub", "sup", "table", "tt", "u", "ul", "var",
    ]
    /// The elements of foreign content that can contain HTML (section 13.2.6), and the elements that, in HTML, contain only text.
    private static let integrationPoints: Set<String> = [
        "desc", "foreignobject", "title", "annotation-xml", "mi", "mo", "mn", "ms", "mtext", "script", "style",
        "textarea", "xmp", "iframe", "noembed", "noframes", "noscript", "plaintext",
    ]
    /// The elements that affect how later tags are interpreted, so it must be clear whether they are HTML.
    private static let decisive: Set<String> = ["form", "fieldset", "select", "template", "font"]
    /// The elements in which the end tag of an outer `fieldset` is ignored.
    private static let scopes: Set<String> = ["table", "td", "th", "caption", "object", "marquee", "applet"]

    private var page = HTMLPage()
    private var tokenizer: HTMLTokenizer
    private var fields: [(field: HTMLForm.Field, owner: Owner)] = []
    /// The index of the open form; nil outside a form.
    private var form: Int?
    /// The first element with each `id`: the index of the form, or nil if the element is not a form.
    private var identified: [[UInt8]: Int?] = [:]
    private var button: (field: HTMLForm.Field, owner: Owner)?
    private var textArea: (field: HTMLForm.Field, owner: Owner)?
    private var hasTitle = false
    private var isInTitle = false
    /// The open `select` element. It has no owner if it is disabled or belongs to no form.
    private var select: (field: HTMLForm.Field, owner: Owner?, options: HTMLSelect)?
    /// The number of open `table` elements.
    private var tables = 0
    /// The number of open `template` elements. Their content is not part of the page.
    private var templates = 0
    /// The open `fieldset` elements, and whether their fields are disabled.
    private var fieldsets: [Bool] = []
    /// The open `svg` and `math` elements, and the elements in them that can contain HTML.
    private var foreign: [String] = [] { didSet { tokenizer.isForeign = !foreign.isEmpty } }
    /// Text since the last tag.
    private var words = ""

    private enum Owner {
        case form(Int)
        case identifier([UInt8])
    }

    /// Parses a page. Any input can be parsed; input other than HTML has no forms.
    /// - Parameter encoding: The character encoding that the response declares, which takes precedence over `meta` elements; nil for none.
    static func page(_ bytes: [UInt8], encoding: String? = nil) -> HTMLPage {
        var reader = HTMLReader(tokenizer: HTMLTokenizer(bytes))
        reader.page.encoding = encoding
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
        if tag.name == "template" {
            templates += 1
            if !foreign.isEmpty { giveUp() }
        }
        guard templates == 0 else {
            // Foreign content has different rules for the end of a template and for comments.
            if tag.name == "svg" || tag.name == "math" { giveUp() }
            return
        }
        if tag.name == "frameset" { discard() }
        if tag.name == "table" { tables += 1 }
        // Section 13.2.6.4.7: the tag's attributes are added to the existing `html` or `body` element.
        if tag.name == "html" || tag.name == "body", let identifier = tag[.id] {
            identified[Array(identifier.utf8)] = .some(nil)
        }
        if fieldsets.last == true, Self.scopes.contains(tag.name) { giveUp() }
        guard !page.requiresDOM else { return }
        var ownForm: Int?
        defer { identify(tag, ownForm) }
        guard foreign.isEmpty || endsForeignContent(tag) else { return }
        guard select == nil || endsSelect(tag) else { return }
        switch tag.name {
        case "svg", "math": if !tag.isSelfClosing { foreign = [tag.name] }
        case "title": isInTitle = !hasTitle
        case "script": page.hasScripts = true
        case "base": page.base = page.base ?? tag[.href]
        case "meta" where page.encoding == nil:
            let isContentType = tag.keyword(.httpEquiv) == "content-type"
            let attribute = tag[.charset].flatMap { $0.allSatisfy(\.isWhitespace) ? nil : $0 }
            page.encoding = attribute ?? (isContentType ? tag[.content].flatMap(HTMLPage.charset) : nil)
        case "fieldset": fieldsets.append(tag[.disabled] != nil || fieldsets.last == true)
        // Section 13.2.6.4.7: a nested form is ignored.
        case "form" where form == nil:
            (form, ownForm) = (page.forms.count, page.forms.count)
            var opened = HTMLForm(action: tag[.action] ?? "", method: tag.keyword(.method) ?? "get", fields: [])
            opened.encoding = tag[.acceptCharset]
            page.forms.append(opened)
        case "input", "button", "textarea", "select":
            let isDisabled = tag[.disabled] != nil || fieldsets.last == true
            let owner = isDisabled ? nil : tag[.form].map { .identifier(Array($0.utf8)) } ?? form.map(Owner.form)
            let field = HTMLForm.Field(tag)
            if tag.name == "button" { endButton() }
            if tag.name == "select" { select = (field, owner, HTMLSelect(tag)) }
            guard let owner else { return }
            switch tag.name {
            case "button": button = (field, owner)
            case "textarea": textArea = (field, owner)
            case "input": fields.append((field, owner))
            default: break
            }
        default: break
        }
    }

    /// Removes all forms that were read, because section 13.2.6.4.7 lets a `frameset` element replace the whole body.
    private mutating func discard() {
        (page.forms, fields, form, identified) = ([], [], nil, [:])
        giveUp()
    }

    /// Stops reading, and removes the open form, which is incomplete.
    private mutating func giveUp() {
        guard !page.requiresDOM else { return }
        (page.requiresDOM, button, textArea, select) = (true, nil, nil, nil)
        if let form {
            page.forms.remove(at: form)
            fields.removeAll { if case .form(form) = $0.owner { true } else { false } }
            identified = identified.filter { $0.value != form }
        }
        form = nil
    }

    /// Whether a tag in a `select` element closes it and is then processed. Browsers differ in which other elements it may contain.
    private mutating func endsSelect(_ tag: HTMLTokenizer.Tag) -> Bool {
        switch tag.name {
        case "option", "optgroup", "hr": select?.options.begin(tag)
        case "script": break
        case "input":
            endSelect()
            return true
        case "select": endSelect()
        default: giveUp()
        }
        return false
    }

    /// Whether a tag in foreign content ends the foreign content.
    private mutating func endsForeignContent(_ tag: HTMLTokenizer.Tag) -> Bool {
        if tag.name == "svg" || tag.name == "math" || Self.integrationPoints.contains(tag.name) {
            if !tag.isSelfClosing { foreign.append(tag.name) }
            // Every end tag is compared with each open foreign element, so their number is limited.
            if foreign.count > Self.maximumDepth { giveUp() }
            return false
        }
        // Without a DOM tree, it is unknown whether the foreign content has ended before this tag.
        if Self.decisive.contains(tag.name) || foreign.last.map(Self.integrationPoints.contains) == true {
            giveUp()
        }
        guard !page.requiresDOM, Self.breakouts.contains(tag.name) else { return false }
        foreign = []
        return true
    }

    private mutating func identify(_ tag: HTMLTokenizer.Tag, _ form: Int?) {
        guard let identifier = tag[.id].map({ Array($0.utf8) }), !identifier.isEmpty else { return }
        if identified[identifier] == nil {
            identified[identifier] = .some(form)
        } else if tables > 0 {
            // Section 13.2.6.1: an element that a table may not contain is moved before the table.
            identified[identifier] = .some(nil)
        }
    }

    private mutating func end(_ name: String) {
        endWords()
        if name == "template" { templates = max(templates - 1, 0) }
        guard templates == 0, !page.requiresDOM else { return }
        if !foreign.isEmpty {
            // It is unclear whether the tag closes a form of the page, a foreign element, or an element that contains only text in HTML.
            let isInside = foreign.last.map { Self.integrationPoints.contains($0) && $0 != name } == true
            if isInside || Self.decisive.contains(name) || Self.breakouts.contains(name) { return giveUp() }
            if let index = foreign.lastIndex(of: name) { foreign.removeSubrange(index...) }
            return
        }
        if select != nil, !["select", "option", "optgroup", "script"].contains(name) { return giveUp() }
        switch name {
        case "table": tables = max(tables - 1, 0)
        case "title": (isInTitle, hasTitle) = (false, hasTitle || isInTitle)
        case "select": endSelect()
        case "option": select?.options.endOption()
        case "optgroup": select?.options.endGroup()
        case "fieldset": _ = fieldsets.popLast()
        case "button": endButton()
        case "textarea":
            if let textArea { fields.append(textArea) }
            textArea = nil
        case "form": form = nil
        default: break
        }
    }

    private mutating func add(_ text: String) {
        guard templates == 0, foreign.isEmpty else { return }
        if isInTitle {
            page.title += text
            return
        }
        if textArea != nil {
            // Section 13.2.6.4.7: a line break after the start tag is not content.
            textArea?.field.value = text.first == "\n" ? String(text.dropFirst()) : text
            return
        }
        if let label = button?.field.label, label.utf8.count < Self.maximumText { button?.field.label += text }
        select?.options.add(text)
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

    private mutating func endSelect() {
        guard let (field, owner, options) = select else { return }
        if let owner {
            for value in options.values {
                var option = field
                option.value = value
                fields.append((option, owner))
            }
        }
        select = nil
    }

    private mutating func finished() -> HTMLPage {
        endWords()
        endButton()
        endSelect()
        if let textArea { fields.append(textArea) }
        for (field, owner) in fields {
            let index =
                switch owner {
                case .form(let index): index
                case .identifier(let identifier): identified[identifier] ?? nil
                }
            if let index { page.forms[index].fields.append(field) }
        }
        for index in page.forms.indices {
            page.forms[index].base = page.base
            page.forms[index].encoding = page.forms[index].encoding ?? page.encoding
        }
        return page
    }
}

extension HTMLForm.Field {
    /// The types of an `input` element.
    private static let types: Set<String> = [
        "button", "checkbox", "color", "date", "datetime-local", "email", "file", "hidden", "image", "month", "number",
        "password", "radio", "range", "reset", "search", "submit", "tel", "text", "time", "url", "week",
    ]

    fileprivate init(_ tag: HTMLTokenizer.Tag) {
        let written = tag.keyword(.type)
        let kind =
            switch tag.name {
            // Section 4.10.5: an unknown type is treated as text.
            case "input": written.flatMap { HTMLForm.Field.types.contains($0) ? $0 : nil } ?? "text"
            case "button": written == "reset" || written == "button" ? written ?? "" : "submit"
            default: tag.name
            }
        let isBox = kind == "checkbox" || kind == "radio"
        let isButton = ["submit", "image", "button", "reset"].contains(kind)
        self.init(
            name: tag[.name] ?? "",
            type: kind,
            value: tag[.value] ?? (isBox ? "on" : ""),
            isSent: isBox ? tag[.checked] != nil : !isButton,
            label: tag.name == "button" ? "" : tag[.value] ?? "",
            action: tag[.formaction],
            method: tag.keyword(.formmethod),
            isFixed: tag[.readonly] != nil,
            autocomplete: (tag.keyword(.autocomplete) ?? "").split(whereSeparator: \.isWhitespace).map(String.init),
            isNumeric: tag.keyword(.inputmode) == "numeric"
        )
    }
}
