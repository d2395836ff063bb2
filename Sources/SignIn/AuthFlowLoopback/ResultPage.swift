import AuthFlow
import HTTPTypes

/// The page that the user sees at the end.
struct ResultPage {
    /// The symbol above the title.
    enum Mark: String {
        case done = "\u{2713}"
        case failed = "\u{2717}"
        case none = ""
    }

    let status: HTTPResponse.Status
    var mark = Mark.none
    let title: String
    let message: String

    /// The page as a response: escaped, never cached, without scripts, unable to load anything or to be framed.
    var response: TransportResponse {
        let nonce = Base64URL.encode(HostServices.systemRandomBytes(16))
        return TransportResponse(
            head: HTTPResponse(
                status: status,
                headerFields: [
                    .contentType: "text/html; charset=utf-8",
                    .cacheControl: "no-store",
                    .contentSecurityPolicy:
                        "default-src 'none'; style-src 'nonce-\(nonce)'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
                    .xContentTypeOptions: "nosniff",
                    Self.referrerPolicy: "no-referrer",
                ]
            ),
            body: Array(html(nonce: nonce).utf8)
        )
    }

    static let referrerPolicy = HTTPField.Name(known: "Referrer-Policy")

    private func html(nonce: String) -> String {
        let title = DisplayText.escapedForHTML(title)
        let mark = mark == .none ? "" : "\n<b class=\"\(mark)\" aria-hidden=\"true\">\(mark.rawValue)</b>"
        // All sentences share one paragraph; what a provider wrote is text here, never markup.
        let message = DisplayText.escapedForHTML(DisplayText.sanitized(message, limit: 1000))
        return """
            <!doctype html>
            <html lang="en">
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta name="color-scheme" content="light dark">
            <title>\(title)</title>
            <style nonce="\(nonce)">
            :root { color-scheme: light dark; font: 1.125rem/1.5 system-ui, sans-serif; }
            body { min-height: 90vh; margin: 0; display: grid; place-items: center; background: Canvas; color: CanvasText; }
            main { max-width: 32rem; padding: 2rem; }
            h1 { font-size: 1.5rem; margin: 0 0 0.5rem; }
            p { margin: 0; overflow-wrap: anywhere; }
            b { font-size: 2.5rem; line-height: 1; }
            .done { color: light-dark(#0a6b2d, #6fd08c); }
            .failed { color: light-dark(#b3261e, #ff9a90); }
            </style>
            <main>\(mark)
            <h1>\(title)</h1>
            <p>\(message)</p>
            </main>
            </html>

            """
    }
}
