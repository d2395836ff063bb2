package import HTTPTypes

/// A page that a user sees between the application and the provider: a title, a sentence or two, and links to continue.
///
/// It has no scripts, loads no resources, cannot be framed, is never cached, and uses the system's font and background.
package struct StatusPage: Sendable {
    /// The symbol above the title.
    package enum Mark: String, Sendable {
        case done = "\u{2713}"
        case failed = "\u{2717}"
        case none = ""
    }

    /// A link to another page.
    package struct Link: Sendable {
        package let text: String
        package let url: String

        package init(_ text: String, to url: String) {
            self.text = text
            self.url = url
        }
    }

    package var status: HTTPResponse.Status
    package var mark = Mark.none
    package var title: String
    package var message: String
    package var links: [Link] = []
    /// The page to which the browser is redirected automatically.
    package var nextURL: String?
    /// The name of the application, above the title; empty for none.
    package var application = ""
    /// The color of the line above the page, as `#rrggbb`; nil for none.
    package var accentColor: String?
    /// The language of the text (BCP 47).
    package var language = "en"

    package init(status: HTTPResponse.Status, mark: Mark = .none, title: String, message: String) {
        self.status = status
        self.mark = mark
        self.title = title
        self.message = message
    }

    /// Whether a string is a color in the form `#rrggbb`, and thus safe to insert into the page's style sheet.
    package static func isColor(_ text: String) -> Bool {
        text.utf8.count == 7 && text.utf8.first == UInt8(ascii: "#")
            && text.utf8.dropFirst().allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0 | 0x20) }
    }

    package static let referrerPolicy = HTTPField.Name(known: "Referrer-Policy")

    /// The page as an HTTP response.
    package var response: TransportResponse {
        let nonce = Base64URL.encode(HostServices.systemRandomBytes(16))
        let policy =
            "default-src 'none'; style-src 'nonce-\(nonce)'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        var head = HTTPResponse(
            status: status,
            headerFields: [
                .contentType: "text/html; charset=utf-8", .cacheControl: "no-store", .contentSecurityPolicy: policy,
                .xContentTypeOptions: "nosniff",
            ]
        )
        head.headerFields[Self.referrerPolicy] = "no-referrer"
        return TransportResponse(head: head, body: Array(html(nonce: nonce).utf8))
    }

    private func html(nonce: String) -> String {
        func text(_ text: String, limit: Int = 1000) -> String {
            DisplayText.escapedForHTML(DisplayText.sanitized(text, limit: limit))
        }
        let mark = mark == .none ? "" : "\n<b class=\"\(mark)\" aria-hidden=\"true\">\(mark.rawValue)</b>"
        let refresh = nextURL.map {
            "\n<meta http-equiv=\"refresh\" content=\"0;url=\(DisplayText.escapedForHTML($0))\">"
        }
        let links = links.map { "\n<p><a href=\"\(DisplayText.escapedForHTML($0.url))\">\(text($0.text))</a></p>" }
        let accent = accentColor.flatMap { Self.isColor($0) ? " border-top: 0.25rem solid \($0);" : nil } ?? ""
        return """
            <!doctype html>
            <html lang="\(text(language, limit: 35))">
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta name="color-scheme" content="light dark">\(refresh ?? "")
            <title>\(text(title))</title>
            <style nonce="\(nonce)">
            :root { color-scheme: light dark; font: 1.125rem/1.5 system-ui, sans-serif; }
            body { min-height: 90vh; margin: 0; display: grid; place-items: center; background: Canvas; color: CanvasText; }
            main { max-width: 32rem; padding: 2rem;\(accent) }
            h1 { font-size: 1.5rem; margin: 0 0 0.5rem; }
            p { margin: 0 0 0.5rem; overflow-wrap: anywhere; }
            small { display: block; color: light-dark(#595959, #a6a6a6); }
            a { display: inline-block; padding: 0.4rem 1rem; border: 1px solid; border-radius: 0.4rem; text-decoration: none;
              color: light-dark(#1a4fb4, #9ec1ff); }
            b { display: block; font-size: 2.5rem; line-height: 1.2; }
            .done { color: light-dark(#0a6b2d, #6fd08c); }
            .failed { color: light-dark(#b3261e, #ff9a90); }
            </style>
            <main>\(mark)\(application.isEmpty ? "" : "\n<small>\(text(application, limit: 80))</small>")
            <h1>\(text(title))</h1>
            <p>\(text(message))</p>\(links.joined())
            </main>
            </html>

            """
    }
}
