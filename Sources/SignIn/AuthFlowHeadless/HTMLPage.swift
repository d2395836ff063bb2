import AuthFlow

/// The parts of a page that a sign-in needs.
struct HTMLPage: Sendable {
    /// The maximum size of a page, in bytes.
    static let maximumSize = 512 * 1024

    var title = ""
    var forms: [HTMLForm] = []
    /// The first `<base href>`.
    var base: String?
    /// The character encoding that the response or the page declares, as written; nil for none.
    var encoding: String?
    var hasScripts = false
    /// The beginning of the visible text.
    var text = ""
    /// Whether, from some point on, the page cannot be interpreted without a DOM tree; `forms` ends at that point.
    var requiresDOM = false

    /// Parses a page, in time proportional to its size. A page whose media type is not HTML has no forms.
    /// - Throws: ``/AuthFlow/AuthError`` with `user_agent_failed` when it is larger than ``maximumSize``.
    static func read(_ page: HeadlessPage) throws(AuthError) -> HTMLPage {
        guard page.response.body.count <= maximumSize else {
            throw AuthError(
                .userAgentFailed,
                "The page at \(page.endpoint) was not read: it is larger than \(maximumSize / 1024) KiB."
            )
        }
        let type = page.response.mediaType
        guard ["", "text/html", "application/xhtml+xml"].contains(type) else {
            return HTMLPage(text: String(decoding: page.response.body.prefix(1000), as: UTF8.self))
        }
        // The HTML Standard, section 13.2.3.2: a byte order mark takes precedence over the Content-Type header field.
        let hasMark = page.response.body.starts(with: [0xEF, 0xBB, 0xBF])
        let declared = page.response.head.headerFields[.contentType].flatMap(charset)
        var html = HTMLReader.page(page.response.body, encoding: hasMark ? "utf-8" : declared)
        html.forms.removeAll { !$0.isSubmitted }
        return html
    }

    /// The parameter `charset` of a media type; nil when it is absent or empty.
    static func charset(_ mediaType: String) -> String? {
        for parameter in mediaType.split(separator: ";").dropFirst() {
            let parts = parameter.split(separator: "=", maxSplits: 1)
            guard parts.count == 2, parts[0].trimmingWhitespace().lowercased() == "charset" else { continue }
            let label = parts[1].filter { $0 != "\"" && $0 != "'" }.trimmingWhitespace()
            return label.isEmpty ? nil : label
        }
        return nil
    }
}
