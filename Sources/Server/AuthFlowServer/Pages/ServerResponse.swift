import AuthFlow

/// The responses that this module creates itself.
enum ServerResponse {
    /// A redirect that the browser follows with GET.
    static func redirect(to url: String) -> TransportResponse {
        var response = plain(.seeOther)
        response.head.headerFields[.location] = url
        return response
    }

    static func json(_ status: HTTPResponse.Status, _ json: JSON) -> TransportResponse {
        plain(status, (try? json.serialized()) ?? [], "application/json")
    }

    /// A response with `Cache-Control: no-store` and `Referrer-Policy: no-referrer`.
    static func plain(
        _ status: HTTPResponse.Status,
        _ body: [UInt8] = [],
        _ type: String? = nil
    ) -> TransportResponse {
        var head = HTTPResponse(status: status)
        head.headerFields[.cacheControl] = "no-store"
        head.headerFields[.contentType] = type
        head.headerFields[.xContentTypeOptions] = "nosniff"
        head.headerFields[HTTPField.Name(known: "Referrer-Policy")] = "no-referrer"
        head.headerFields[HTTPField.Name(known: "Cross-Origin-Resource-Policy")] = "same-origin"
        return TransportResponse(head: head, body: body)
    }

    /// The response when too many requests are in progress.
    static func tooMany() -> TransportResponse {
        var response = plain(.serviceUnavailable)
        response.head.headerFields[.retryAfter] = "2"
        return response
    }
}
