import AuthFlow
import CMarkup

/// The parts of a page that a sign-in needs, read by libxml2's HTML parser.
struct HTMLPage: Sendable {
    /// The deepest nesting of elements that is read.
    private static let maximumDepth = 200

    private(set) var title = ""
    private(set) var forms: [HTMLForm] = []
    private(set) var hasScripts = false
    /// The beginning of the visible text.
    private(set) var text = ""

    /// The length at which no more text is added, in characters.
    private static let maximumText = 300

    /// Reads a page on its own thread, so that a deadline holds whatever the page contains.
    /// - Throws: ``/AuthFlow/AuthError`` with `user_agent_failed` when it exceeds ``HTMLBounds``; `CancellationError`.
    static func read(_ page: HeadlessPage) async throws -> HTMLPage {
        let bytes = page.response.body
        guard HTMLBounds.allow(bytes) else {
            throw AuthError(
                .userAgentFailed,
                "The page at \(page.endpoint) was not read: it has more elements or attributes than any sign-in page."
            )
        }
        return try await BlockingCall.run {
            try HTMLPage(bytes)
        } onCancel: {
        }
    }

    /// Reads a page. Anything can be read; what is not HTML has no forms.
    /// - Throws: ``/AuthFlow/AuthError`` with `user_agent_failed` when libxml2 is not installed.
    init(_ bytes: [UInt8]) throws(AuthError) {
        guard authflow_markup_open() else {
            throw AuthError(
                .userAgentFailed,
                "libxml2 is not installed, and pages cannot be read without it. Install it (Debian: libxml2)."
            )
        }
        let document = unsafe bytes.withUnsafeBytes { buffer in
            unsafe authflow_markup_read_html(buffer.baseAddress?.assumingMemoryBound(to: CChar.self), buffer.count)
        }
        guard let document = unsafe document else { return }
        defer { unsafe authflow_markup_free(document) }
        unsafe walk(authflow_markup_root(document), depth: 0)
    }

    private mutating func walk(_ first: OpaquePointer?, depth: Int) {
        guard depth < Self.maximumDepth else { return }
        var next = unsafe first
        while let node = unsafe next {
            unsafe next = authflow_markup_next(node)
            if unsafe authflow_markup_is_text(node), text.unicodeScalars.count < Self.maximumText {
                let words = unsafe Self.text(node).split(whereSeparator: \.isWhitespace).joined(separator: " ")
                if !words.isEmpty { text += (text.isEmpty ? "" : " ") + words }
            }
            guard unsafe authflow_markup_is_element(node) else { continue }
            switch unsafe Self.name(node) {
            case "title":
                title = unsafe Self.text(node)
                continue
            case "script":
                hasScripts = true
                continue
            case "style", "noscript": continue
            case "form":
                var fields: [HTMLForm.Field] = []
                unsafe Self.collectFields(authflow_markup_first_child(node), into: &fields, depth: depth)
                forms.append(
                    HTMLForm(
                        action: unsafe Self.attribute(node, "action") ?? "",
                        method: (unsafe Self.attribute(node, "method") ?? "get").lowercased(),
                        fields: fields
                    )
                )
            default: break
            }
            unsafe walk(authflow_markup_first_child(node), depth: depth + 1)
        }
    }

    private static func collectFields(_ first: OpaquePointer?, into fields: inout [HTMLForm.Field], depth: Int) {
        guard depth < maximumDepth else { return }
        var next = unsafe first
        while let node = unsafe next {
            unsafe next = authflow_markup_next(node)
            guard unsafe authflow_markup_is_element(node) else { continue }
            let element = unsafe name(node)
            if element == "input" || element == "button" || element == "textarea" || element == "select" {
                if let field = unsafe field(node, element) { fields.append(field) }
            }
            unsafe collectFields(authflow_markup_first_child(node), into: &fields, depth: depth + 1)
        }
    }

    private static func field(_ node: OpaquePointer, _ element: String) -> HTMLForm.Field? {
        guard unsafe attribute(node, "disabled") == nil else { return nil }
        let defaultType = element == "button" ? "submit" : "text"
        let type = element == "select" ? "select" : (unsafe attribute(node, "type") ?? defaultType).lowercased()
        let value = unsafe attribute(node, "value")
        let isBox = type == "checkbox" || type == "radio"
        let isButton = ["submit", "image", "button", "reset"].contains(type)
        return HTMLForm.Field(
            name: unsafe attribute(node, "name") ?? "",
            type: type,
            value: value ?? (isBox ? "on" : ""),
            isSent: isBox ? unsafe attribute(node, "checked") != nil : !isButton,
            label: element == "button" ? unsafe text(node) : value ?? "",
            action: unsafe attribute(node, "formaction")
        )
    }

    private static func name(_ node: OpaquePointer) -> String {
        unsafe authflow_markup_name(node).map { unsafe String(cString: $0) }?.lowercased() ?? ""
    }

    private static func attribute(_ node: OpaquePointer, _ name: String) -> String? {
        guard let value = unsafe authflow_markup_attribute(node, name) else { return nil }
        defer { unsafe authflow_markup_free_text(value) }
        return unsafe String(cString: value)
    }

    private static func text(_ node: OpaquePointer) -> String {
        guard let value = unsafe authflow_markup_text(node) else { return "" }
        defer { unsafe authflow_markup_free_text(value) }
        return unsafe String(cString: value)
    }
}
