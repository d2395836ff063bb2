package import AuthFlowHTTP
import AuthFlowJSON
import CMarkup

/// An element of a small XML document, such as a service's response.
package struct XMLElement: Sendable {
    /// The name, without a namespace prefix.
    package let name: String
    /// The child elements.
    package let children: [XMLElement]
    /// The text, if the element has no child elements.
    package let text: String

    /// Parses a document with libxml2, which is loaded on first use.
    /// - Parameter service: The name of the service that sent the response, for messages.
    /// - Returns: The root element.
    /// - Throws: ``/AuthFlow/AuthError`` with `invalid_response`.
    package static func root(of bytes: [UInt8], from service: String) throws(AuthError) -> XMLElement {
        guard authflow_markup_open() else {
            throw AuthError(
                .invalidResponse,
                "\(service)'s response is XML, but libxml2 is not installed. Install it (Debian: libxml2)."
            )
        }
        // The parser compares every attribute of an element with every other attribute, in quadratic time.
        guard bytes.count <= maximumSize else {
            throw AuthError(.invalidResponse, "\(service)'s response is larger than \(maximumSize / 1024) KiB.")
        }
        // Declarations can define entities, which such a response does not need.
        guard let text = String(validating: bytes, as: UTF8.self), !text.hasTooManyCombiningMarks,
            !bytes.contains("<!".utf8), !bytes.contains(0), let root = read(bytes)
        else {
            throw AuthError(
                .invalidResponse,
                "\(service)'s response is not well-formed XML, or contains \"<!\" (a document type declaration, a comment or a CDATA section)."
            )
        }
        return root
    }

    /// The text of the element at a path of element names; nil when there is no such element, more than one, or it has child elements.
    package subscript(path: String...) -> String? {
        var element = self
        for name in path {
            let found = element.children.filter { $0.name.isIdentical(to: name) }
            guard found.count == 1 else { return nil }
            element = found[0]
        }
        return element.children.isEmpty ? element.text : nil
    }

    /// The maximum size of a document, in bytes.
    private static let maximumSize = 64 * 1024

    /// The maximum accepted nesting depth.
    private static let maximumDepth = 16

    private static func read(_ bytes: [UInt8]) -> XMLElement? {
        let document = unsafe bytes.withUnsafeBytes { buffer in
            unsafe authflow_markup_read_xml(buffer.baseAddress?.assumingMemoryBound(to: CChar.self), buffer.count)
        }
        guard let document = unsafe document else { return nil }
        defer { unsafe authflow_markup_free(document) }
        return unsafe authflow_markup_root(document).flatMap { unsafe element($0, depth: maximumDepth) }
    }

    private static func element(_ node: OpaquePointer, depth: Int) -> XMLElement? {
        guard depth > 0 else { return nil }
        var children: [XMLElement] = []
        var hasText = false
        var next = unsafe authflow_markup_first_child(node)
        while let child = unsafe next {
            unsafe next = authflow_markup_next(child)
            if unsafe authflow_markup_is_text(child) { hasText = true }
            guard unsafe authflow_markup_is_element(child) else { continue }
            guard let read = unsafe element(child, depth: depth - 1) else { return nil }
            children.append(read)
        }
        let name = unsafe authflow_markup_name(node).map { unsafe String(cString: $0) } ?? ""
        let text = children.isEmpty && hasText ? unsafe content(node) : ""
        // A character reference may expand to a combining mark, which the check of the raw document cannot detect.
        guard !text.hasTooManyCombiningMarks else { return nil }
        return XMLElement(name: name, children: children, text: text)
    }

    private static func content(_ node: OpaquePointer) -> String {
        guard let value = unsafe authflow_markup_text(node) else { return "" }
        defer { unsafe authflow_markup_free_text(value) }
        return unsafe String(cString: value)
    }
}
