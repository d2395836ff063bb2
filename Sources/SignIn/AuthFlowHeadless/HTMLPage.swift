import AuthFlow
import CMarkup

/// The parts of a page that a sign-in needs, extracted by libxml2's HTML parser.
struct HTMLPage: Sendable {
    var title = ""
    var forms: [HTMLForm] = []
    /// The first `<base href>`.
    var base: String?
    var hasScripts = false
    /// The beginning of the visible text.
    var text = ""

    /// Parses a page on a separate thread, so that a deadline is enforced regardless of the page's contents.
    /// - Throws: ``/AuthFlow/AuthError`` with `user_agent_failed` when it exceeds the limits of ``HTMLReader``; `CancellationError`.
    static func read(_ page: HeadlessPage) async throws -> HTMLPage {
        let bytes = page.response.body
        let read = try await BlockingCall.run {
            try HTMLPage(bytes)
        } onCancel: {
        }
        guard let read else {
            throw AuthError(
                .userAgentFailed,
                "The page at \(page.endpoint) was not parsed: it exceeds the limits for the elements, attributes or size of a page."
            )
        }
        return read
    }

    /// Parses a page. Any input can be parsed; input other than HTML has no forms.
    /// - Returns: nil when it exceeds the limits of ``HTMLReader``.
    /// - Throws: ``/AuthFlow/AuthError`` with `user_agent_failed` when libxml2 is not installed.
    init?(_ bytes: [UInt8]) throws(AuthError) {
        guard authflow_markup_open() else {
            throw AuthError(
                .userAgentFailed,
                "libxml2 is not installed, and pages cannot be parsed without it. Install it (Debian: libxml2)."
            )
        }
        guard let page = HTMLReader.page(bytes) else { return nil }
        self = page
    }

    init() {}
}
