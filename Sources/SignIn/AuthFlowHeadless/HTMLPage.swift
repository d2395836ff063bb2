import AuthFlow

/// The parts of a page that a sign-in needs.
struct HTMLPage: Sendable {
    /// The maximum size of a page, in bytes.
    static let maximumSize = 512 * 1024

    var title = ""
    var forms: [HTMLForm] = []
    /// The first `<base href>`.
    var base: String?
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
        var html = HTMLReader.page(page.response.body)
        html.forms.removeAll { !$0.isSubmitted }
        return html
    }
}
