import AuthFlow
import CLibXML2

/// What is on a page, as far as signing in needs it, read by libxml2's HTML parser.
struct HTMLPage: Sendable {
    /// The deepest nesting of elements that is looked at.
    private static let maximumDepth = 200

    private(set) var title = ""
    private(set) var forms: [HTMLForm] = []
    private(set) var hasScripts = false
    /// What a user would read first, as far as it goes.
    private(set) var text = ""

    /// The most of the text that is kept, in characters.
    private static let maximumText = 300

    /// Reads a page on a thread of its own, so that a deadline holds whatever is on it.
    /// - Throws: ``AuthFlow/AuthError`` with `user_agent_failed` when there is more on it than on any page to sign in at;
    ///   `CancellationError`.
    static func read(_ page: HeadlessPage) async throws -> HTMLPage {
        let bytes = page.reply.body
        guard HTMLBounds.allow(bytes) else {
            throw AuthError(
                .userAgentFailed,
                "The page at \(page.endpoint) was not read: it has more elements or attributes than any page to sign in at."
            )
        }
        return try await BlockingCall.run {
            HTMLPage(bytes)
        } onCancel: {
        }
    }

    /// Reads a page. Anything can be read; what is not HTML has no forms.
    init(_ bytes: [UInt8]) {
        // HTML_PARSE_NONET: a page must not make its reader fetch things.
        let options = Int32(
            HTML_PARSE_RECOVER.rawValue | HTML_PARSE_NOERROR.rawValue | HTML_PARSE_NOWARNING.rawValue
                | HTML_PARSE_NONET.rawValue
        )
        let document = unsafe bytes.withUnsafeBytes { buffer in
            unsafe htmlReadMemory(
                buffer.baseAddress?.assumingMemoryBound(to: CChar.self),
                Int32(clamping: buffer.count),
                nil,
                "UTF-8",
                options
            )
        }
        guard let document = unsafe document else { return }
        defer { unsafe xmlFreeDoc(document) }
        unsafe walk(xmlDocGetRootElement(document), depth: 0)
    }

    private mutating func walk(_ first: xmlNodePtr?, depth: Int) {
        guard depth < Self.maximumDepth else { return }
        var next = unsafe first
        while let node = unsafe next {
            unsafe next = node.pointee.next
            if unsafe node.pointee.type == XML_TEXT_NODE, text.unicodeScalars.count < Self.maximumText {
                let words = unsafe Self.text(node).split(whereSeparator: \.isWhitespace).joined(separator: " ")
                if !words.isEmpty { text += (text.isEmpty ? "" : " ") + words }
            }
            guard unsafe node.pointee.type == XML_ELEMENT_NODE else { continue }
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
                unsafe Self.collectFields(node.pointee.children, into: &fields, depth: depth)
                forms.append(
                    HTMLForm(
                        action: unsafe Self.attribute(node, "action") ?? "",
                        method: (unsafe Self.attribute(node, "method") ?? "get").lowercased(),
                        fields: fields
                    )
                )
            default: break
            }
            unsafe walk(node.pointee.children, depth: depth + 1)
        }
    }

    private static func collectFields(_ first: xmlNodePtr?, into fields: inout [HTMLForm.Field], depth: Int) {
        guard depth < maximumDepth else { return }
        var next = unsafe first
        while let node = unsafe next {
            unsafe next = node.pointee.next
            guard unsafe node.pointee.type == XML_ELEMENT_NODE else { continue }
            let element = unsafe name(node)
            if element == "input" || element == "button" || element == "textarea" || element == "select" {
                if let field = unsafe field(node, element) { fields.append(field) }
            }
            unsafe collectFields(node.pointee.children, into: &fields, depth: depth + 1)
        }
    }

    private static func field(_ node: xmlNodePtr, _ element: String) -> HTMLForm.Field? {
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

    private static func name(_ node: xmlNodePtr) -> String {
        unsafe node.pointee.name.map { unsafe String(cString: $0) }?.lowercased() ?? ""
    }

    private static func attribute(_ node: xmlNodePtr, _ name: String) -> String? {
        guard let value = unsafe xmlGetProp(node, name) else { return nil }
        defer { unsafe authflow_xml_free(value) }
        return unsafe String(cString: value)
    }

    private static func text(_ node: xmlNodePtr) -> String {
        guard let value = unsafe xmlNodeGetContent(node) else { return "" }
        defer { unsafe authflow_xml_free(value) }
        return unsafe String(cString: value)
    }
}
