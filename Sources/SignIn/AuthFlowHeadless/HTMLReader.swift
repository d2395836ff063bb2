import AuthFlow
import AuthFlowSystem
import CMarkup

/// Builds an ``HTMLPage`` from the events of libxml2's parser, and stops parsing when a limit is exceeded.
///
/// The limits are necessary because libxml2 compares every attribute of an element with every other attribute, and
/// traverses the open elements at every tag. They are enforced during parsing, so that no page is parsed twice.
final class HTMLReader {
    /// The maximum size of a page, in bytes.
    static let maximumSize = 512 * 1024
    /// The maximum number of elements.
    static let maximumElements = 20_000
    /// The maximum number of attributes of one element.
    static let maximumAttributes = 200
    /// The maximum number of elements that are open at the same time.
    static let maximumDepth = 512
    /// The maximum number of bytes between two parser events, that is, within one tag.
    static let maximumTag = 256 * 1024
    /// The maximum CPU time for one page, in seconds, checked after every chunk.
    static let maximumTime = 2
    /// The length, in characters, at which text is no longer appended.
    private static let maximumText = 300

    private var page = HTMLPage()
    private var exceedsLimits = false
    private var elements = 0
    private var depth = 0
    /// The position in the page at the last event.
    private var lastEvent = 0
    private var position = 0
    private let start = HTMLReader.processorTime()

    private var form: HTMLForm?
    private var button: (field: HTMLForm.Field, label: String)?
    private var isInTitle = false
    private var isInTextArea = false
    /// The elements whose content a browser with scripting neither shows nor submits.
    private static let notShown: Set<String> = [
        "script", "style", "noscript", "template", "iframe", "noframes", "noembed", "xmp",
    ]
    /// The number of open elements that are not rendered.
    private var hidden = 0
    /// Text since the last tag.
    private var words = ""

    /// Parses a page; nil when it exceeds the limits.
    static func page(_ bytes: [UInt8]) -> HTMLPage? {
        guard bytes.count <= maximumSize else { return nil }
        let reader = HTMLReader()
        var events = unsafe authflow_markup_reader(
            context: Unmanaged.passUnretained(reader).toOpaque(),
            start: { unsafe HTMLReader.at($0).begin(String(cString: $1), HTMLReader.attributes($2)) },
            end: { unsafe HTMLReader.at($0).end(String(cString: $1)) },
            text: { unsafe HTMLReader.at($0).add(HTMLReader.text($1, $2)) },
            may_continue: { unsafe HTMLReader.at($0).mayContinue(at: $1) }
        )
        let isComplete = unsafe bytes.withUnsafeBytes { buffer in
            unsafe authflow_markup_read_html(
                buffer.baseAddress?.assumingMemoryBound(to: CChar.self),
                buffer.count,
                &events
            )
        }
        return isComplete && !reader.exceedsLimits ? reader.finished() : nil
    }

    private static func at(_ context: UnsafeMutableRawPointer?) -> HTMLReader {
        guard let context = unsafe context else { preconditionFailure("libxml2 lost its context") }
        return unsafe Unmanaged<HTMLReader>.fromOpaque(context).takeUnretainedValue()
    }

    private static func attributes(_ list: UnsafeMutablePointer<UnsafePointer<CChar>?>?) -> [(String, String)] {
        guard let list = unsafe list else { return [] }
        var attributes: [(String, String)] = []
        var index = 0
        while let name = unsafe list[index] {
            let attribute = unsafe (
                name: String(cString: name), value: list[index + 1].map { unsafe String(cString: $0) } ?? ""
            )
            // No form needs attributes with that many combining marks, and comparing them is slow.
            if !attribute.name.hasTooManyCombiningMarks, !attribute.value.hasTooManyCombiningMarks {
                attributes.append((attribute.name, attribute.value))
            }
            index += 2
            // One attribute beyond the limit is enough to detect the excess.
            if attributes.count > maximumAttributes { break }
        }
        return attributes
    }

    private static func text(_ bytes: UnsafePointer<CChar>?, _ count: Int) -> String? {
        guard let bytes = unsafe bytes else { return nil }
        let buffer = unsafe UnsafeRawBufferPointer(start: bytes, count: count)
        return unsafe String(decoding: buffer, as: UTF8.self)
    }

    /// The CPU time of this thread, in seconds.
    private static func processorTime() -> Int {
        var time = timespec()
        unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return time.tv_sec
    }

    // MARK: Events

    private func mayContinue(at position: Int) -> Bool {
        self.position = position
        if position - lastEvent > Self.maximumTag || Self.processorTime() - start > Self.maximumTime {
            exceedsLimits = true
        }
        return !exceedsLimits
    }

    private func begin(_ name: String, _ attributes: [(name: String, value: String)]) {
        lastEvent = position
        elements += 1
        depth += 1
        if elements > Self.maximumElements || depth > Self.maximumDepth || attributes.count > Self.maximumAttributes {
            exceedsLimits = true
        }
        guard !exceedsLimits else { return }
        endWords()
        // The HTML Standard, "RCDATA state": these contain text, never elements.
        guard !isInTitle, !isInTextArea else { return }
        func attribute(_ name: String) -> String? { attributes.first { $0.name == name }?.value }
        switch name {
        case "title": isInTitle = hidden == 0
        case "base" where page.base == nil && hidden == 0: page.base = attribute("href")
        case let name where Self.notShown.contains(name):
            if name == "script", hidden == 0 { page.hasScripts = true }
            hidden += 1
        // The HTML Standard, "in body": a form nested in another form is ignored.
        case "form" where form == nil && hidden == 0:
            form = HTMLForm(
                action: attribute("action") ?? "",
                method: (attribute("method") ?? "get").lowercased(),
                fields: []
            )
        case "input", "button", "textarea", "select":
            if name == "textarea" { isInTextArea = true }
            guard attribute("disabled") == nil, form != nil else { return }
            let field = HTMLForm.Field(name, attribute)
            if name == "button" {
                endButton()
                button = (field, "")
            } else {
                form?.fields.append(field)
            }
        default: break
        }
    }

    private func end(_ name: String) {
        lastEvent = position
        depth -= 1
        guard !exceedsLimits else { return }
        endWords()
        switch name {
        case "title": isInTitle = false
        case "textarea": isInTextArea = false
        case let name where Self.notShown.contains(name): hidden -= 1
        case "button": endButton()
        case "form": endForm()
        default: break
        }
    }

    private func add(_ text: String?) {
        lastEvent = position
        guard let text, !exceedsLimits else { return }
        if isInTitle {
            page.title += text
            return
        }
        guard hidden == 0 else { return }
        button?.label += text
        if page.text.unicodeScalars.count < Self.maximumText, words.utf8.count <= Self.maximumSize { words += text }
    }

    private func endWords() {
        guard !words.isEmpty else { return }
        let line = words.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        words = ""
        if !line.isEmpty { page.text += (page.text.isEmpty ? "" : " ") + line }
    }

    private func endButton() {
        guard let (field, label) = button else { return }
        button = nil
        form?.fields.append(field.labeled(label))
    }

    private func endForm() {
        endButton()
        if let form { page.forms.append(form) }
        form = nil
    }

    private func finished() -> HTMLPage {
        endWords()
        endForm()
        for index in page.forms.indices { page.forms[index].base = page.base }
        return page
    }
}

extension HTMLForm.Field {
    fileprivate init(_ element: String, _ attribute: (String) -> String?) {
        let type = element == "select" ? "select" : attribute("type")?.lowercased()
        let value = attribute("value")
        let kind = type ?? (element == "button" ? "submit" : "text")
        let isBox = kind == "checkbox" || kind == "radio"
        let isButton = ["submit", "image", "button", "reset"].contains(kind)
        self.init(
            name: attribute("name") ?? "",
            type: kind,
            value: value ?? (isBox ? "on" : ""),
            isSent: isBox ? attribute("checked") != nil : !isButton,
            label: value ?? "",
            action: attribute("formaction")
        )
    }

    fileprivate func labeled(_ label: String) -> Self {
        Self(name: name, type: type, value: value, isSent: isSent, label: label, action: action)
    }
}
