public import AuthFlow
import AuthFlowJSON
import HTTPTypes

/// The responses of the application's own routes.
enum ServerResponse {
    /// A page that leads on to another of the same site by itself.
    ///
    /// A redirect would not do after a sign-in: RFC 6265bis keeps a `SameSite=Strict` cookie from every request of a chain that began at
    /// another site, so the next page would not see the session.
    static func leadingOn(to path: String) -> TransportResponse {
        let address = DisplayText.escapedForHTML(path)
        return page(
            .ok,
            "Signed in",
            "<p><a href=\"\(address)\">Continue</a></p>",
            head: "<meta http-equiv=\"refresh\" content=\"0;url=\(address)\">"
        )
    }

    /// A page that says why something did not work, and leads to the beginning.
    static func refusal(_ status: HTTPResponse.Status, _ message: String, start: String) -> TransportResponse {
        page(
            status,
            "Not signed in",
            "<p>\(DisplayText.escapedForHTML(DisplayText.sanitized(message)))</p><p><a href=\"\(DisplayText.escapedForHTML(start))\">Back</a></p>"
        )
    }

    private static func page(
        _ status: HTTPResponse.Status,
        _ title: String,
        _ body: String,
        head: String = ""
    ) -> TransportResponse {
        let html = """
            <!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>\(title)</title>\(head)</head>\
            <body><h1>\(title)</h1>\(body)</body></html>
            """
        var response = plain(status, Array(html.utf8), "text/html; charset=utf-8")
        response.head.headerFields[.contentSecurityPolicy] =
            "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"
        return response
    }

    /// A redirect that the browser follows with GET.
    static func redirect(to url: String) -> TransportResponse {
        var response = plain(.seeOther)
        response.head.headerFields[.location] = url
        return response
    }

    static func json(_ status: HTTPResponse.Status, _ json: JSON) -> TransportResponse {
        plain(status, (try? json.serialized()) ?? [], "application/json")
    }

    /// A response that no cache keeps, and whose address no other site is told.
    static func plain(
        _ status: HTTPResponse.Status,
        _ body: [UInt8] = [],
        _ type: String? = nil
    ) -> TransportResponse {
        var head = HTTPResponse(status: status)
        head.headerFields[.cacheControl] = "no-store"
        head.headerFields[.contentType] = type
        head.headerFields[.xContentTypeOptions] = "nosniff"
        for (name, value) in [("Referrer-Policy", "no-referrer"), ("Cross-Origin-Resource-Policy", "same-origin")] {
            if let name = HTTPField.Name(name) { head.headerFields[name] = value }
        }
        return TransportResponse(head: head, body: body)
    }

    /// Too many are being served at this moment.
    static func tooMany() -> TransportResponse {
        var response = plain(.serviceUnavailable)
        response.head.headerFields[.retryAfter] = "2"
        return response
    }
}

extension TransportResponse {
    /// The response with another cookie.
    func setting(_ cookie: ResponseCookie) -> TransportResponse {
        var response = self
        response.head.headerFields.append(HTTPField(name: .setCookie, value: cookie.field))
        return response
    }
}

extension SessionServer {
    /// The response where a session or its tokens cannot be had: 401 where a sign-in helps, 503 where a later attempt may; nil for any other
    /// error.
    public static func response(for error: AuthError) -> TransportResponse? {
        switch error.code {
        case .loginRequired: return ServerResponse.plain(.unauthorized)
        case .temporarilyUnavailable, .timedOut, .networkFailed, .storageFailed, .storeDamaged, .leaseBusy, .leaseLost,
            .outcomeUnknown:
            var response = ServerResponse.plain(.serviceUnavailable)
            // RFC 9110 section 10.2.3.
            let wait = min(max(error.retryAfter ?? .seconds(5), .seconds(1)), .seconds(3600))
            response.head.headerFields[.retryAfter] = "\(wait.components.seconds)"
            return response
        default: return nil
        }
    }
}
