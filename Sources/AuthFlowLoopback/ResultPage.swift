import AuthFlow
import HTTPTypes

/// The page that a person sees at the end.
struct ResultPage {
    let status: HTTPResponse.Status
    let title: String
    let message: String

    /// The page as a reply: escaped, never kept, without scripts, and nothing it could load or be framed by.
    var reply: HTTPReply {
        let nonce = Base64URL.encode(HostServices.systemRandomBytes(16))
        return HTTPReply(
            response: HTTPResponse(
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

    static let referrerPolicy = HTTPField.Name("Referrer-Policy") ?? .cacheControl

    private func html(nonce: String) -> String {
        let title = DisplayText.escapedForHTML(title)
        // One paragraph a sentence would be shouting; what a provider wrote is text here, never markup.
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
            </style>
            <main>
            <h1>\(title)</h1>
            <p>\(message)</p>
            </main>
            </html>

            """
    }
}
