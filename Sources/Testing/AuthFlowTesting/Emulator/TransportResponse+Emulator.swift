import AuthFlow

extension TransportResponse {
    static func json(_ json: JSON, status: HTTPResponse.Status = .ok) -> TransportResponse {
        TransportResponse(
            head: HTTPResponse(status: status, headerFields: [.contentType: "application/json"]),
            body: (try? json.serialized()) ?? []
        )
    }

    /// An error response (RFC 6749 section 5.2).
    static func refusal(_ error: String, _ description: String) -> TransportResponse {
        json(["error": .string(error), "error_description": .string(description)], status: .badRequest)
    }

    static var failure: TransportResponse { TransportResponse(head: HTTPResponse(status: .internalServerError)) }

    static func redirect(to location: String) -> TransportResponse {
        TransportResponse(
            head: HTTPResponse(status: .seeOther, headerFields: [.location: location, .cacheControl: "no-store"])
        )
    }

    /// An HTML page that loads no external resources, cannot be framed, and runs only its own inline scripts.
    /// `form-action` is not restricted, because browsers also apply it to redirects, such as those to clients.
    /// - Parameter body: HTML. Each script must start with exactly `<script>`, because the nonce is inserted there.
    static func page(_ title: String, _ body: String, status: HTTPResponse.Status = .ok) -> TransportResponse {
        let nonce = Base64URL.encode(HostServices.systemRandomBytes(16))
        let body = body.replacing("<script>", with: "<script nonce=\"\(nonce)\">")
        let policy =
            "default-src 'none'; script-src 'nonce-\(nonce)'; style-src 'nonce-\(nonce)'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
        let page = """
            <!doctype html>
            <html lang="en">
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <title>\(DisplayText.escapedForHTML(title))</title>
            <style nonce="\(nonce)">
            :root { color-scheme: light dark; font: 1.125rem/1.5 system-ui, sans-serif; }
            body { max-width: 24rem; margin: 15vh auto; padding: 1rem; }
            label { display: block; margin: 0.75rem 0; }
            input { display: block; width: 100%; box-sizing: border-box; font: inherit; padding: 0.4rem; }
            button { font: inherit; padding: 0.4rem 1rem; margin: 0.5rem 0.5rem 0 0; }
            [role=alert] { color: light-dark(#b00020, #ff8a80); }
            </style>
            <h1>\(DisplayText.escapedForHTML(title))</h1>
            \(body)
            </html>

            """
        return TransportResponse(
            head: HTTPResponse(
                status: status,
                headerFields: [
                    .contentType: "text/html; charset=utf-8", .cacheControl: "no-store",
                    .contentSecurityPolicy: policy,
                ]
            ),
            body: Array(page.utf8)
        )
    }
}

extension TransportResponse {
    /// A page that asks for a user name and a password and posts them to `/login`.
    static func signInPage(_ request: String, message: String = "") -> TransportResponse {
        .page(
            "Sign in",
            """
            <p role="alert">\(DisplayText.escapedForHTML(message))</p>
            <form method="post" action="/login">
            <input type="hidden" name="request" value="\(DisplayText.escapedForHTML(request))">
            <label>User name <input name="username" autocomplete="username" required autofocus></label>
            <label>Password <input name="password" type="password" autocomplete="current-password" required></label>
            <button type="submit">Sign in</button>
            </form>
            """
        )
    }

    /// A page that asks for consent and posts the decision to `/consent`.
    static func consentPage(_ request: String, client: String, scopes: [String]) -> TransportResponse {
        let items = scopes.map { "<li>\(DisplayText.escapedForHTML($0))</li>" }.joined()
        return .page(
            "Allow access?",
            """
            <p>\(DisplayText.escapedForHTML(client)) asks for:</p>
            <ul>\(items)</ul>
            <form method="post" action="/consent">
            <input type="hidden" name="request" value="\(DisplayText.escapedForHTML(request))">
            <button type="submit" name="decision" value="allow">Allow</button>
            <button type="submit" name="decision" value="deny">Deny</button>
            </form>
            """
        )
    }

    /// A page that asks for the user code that a client displays, and submits it to `action`.
    static func userCodePage(action: String, message: String = "") -> TransportResponse {
        .page(
            "Enter the code",
            """
            <p role="alert">\(DisplayText.escapedForHTML(message))</p>
            <form method="get" action="\(DisplayText.escapedForHTML(action))">
            <label>Code <input name="user_code" autocomplete="off" required autofocus></label>
            <button type="submit">Continue</button>
            </form>
            """
        )
    }
}

extension HTTPRequest {
    var sessionCookie: String? { cookie("authflow_emulator") }

    func cookie(_ name: String) -> String? {
        (headerFields[.cookie] ?? "").split(separator: ";").map { $0.drop { $0 == " " } }
            .first { $0.hasPrefix("\(name)=") }.map { String($0.dropFirst(name.count + 1)) }
    }
}

extension [UInt8] {
    var form: FormParameters { FormURLEncoding.decode(String(decoding: self, as: UTF8.self)) ?? [:] }
}
