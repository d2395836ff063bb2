import AuthFlow

extension ResourceProxy {
    /// The header fields that are forwarded to every API. None of them identifies the user's session, or overrides the
    /// method, the path or the client's address.
    private static let forwarded: Set<String> = [
        "accept", "accept-language", "cache-control", "content-encoding", "content-language", "content-type",
        "idempotency-key", "if-match",
        "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "prefer", "priority", "range",
        "user-agent",
    ]

    /// The header fields that are returned to every page. None of them sets a policy for the application's origin.
    private static let returned: Set<String> = [
        "accept-ranges", "age", "allow", "content-disposition", "content-encoding", "content-language", "content-range",
        "content-type",
        "date", "etag", "expires", "last-modified", "preference-applied", "ratelimit", "ratelimit-limit",
        "ratelimit-policy", "ratelimit-remaining", "ratelimit-reset", "retry-after",
    ]

    /// RFC 9110 section 7.6.1: the fields that are listed in "Connection" are not forwarded.
    private static func passing(_ fields: HTTPFields, _ names: Set<String>) -> HTTPFields {
        let named = fields[values: .connection].filter { $0.utf8.allSatisfy { $0 < 0x80 } }.flatMap { value in
            value.lowercased().split(separator: ",").map { $0.trimmingSpaces() }
        }
        var passing = HTTPFields()
        for field in fields
        where names.contains(field.name.canonicalName) && !named.contains(field.name.canonicalName) {
            passing.append(field)
        }
        return passing
    }

    func forwardedFields(_ request: HTTPRequest, _ route: Route) -> HTTPFields {
        var fields = Self.passing(request.headerFields, Self.forwarded.union(route.forwardedFields))
        fields[server.headerName] = nil
        // RFC 9110 section 7.6.3: a gateway "MUST send an appropriate Via header field in each inbound request message".
        fields[.via] = "1.1 authflow"
        // The transport must not decode bodies: a length or range would not match the body, and a truncated body would look complete. If an API
        // encodes the body nevertheless, the browser decodes it.
        fields[.acceptEncoding] = "identity"
        return fields
    }

    func returned(
        _ response: TransportResponse,
        to method: HTTPRequest.Method,
        _ route: Route
    ) -> TransportResponse {
        TransportResponse(head: returned(response.head, to: method, route), body: response.body)
    }

    func returned(_ response: HTTPResponse, to method: HTTPRequest.Method, _ route: Route) -> HTTPResponse {
        let received = response.headerFields
        var head = HTTPResponse(status: response.status)
        head.headerFields = Self.passing(received, Self.returned.union(route.returnedFields))
        head.headerFields[.cacheControl] = Self.cacheControl(received)
        // Another user of the same browser has a different cookie, so the response varies by cookie. A script's cached
        // response must not be used for a navigation to the same URL: a navigation lacks the application's header
        // field, so it would be rejected.
        head.headerFields[.vary] =
            (received[values: .vary] + [server.headerName.rawName, "Origin", "Sec-Fetch-Site", "Cookie"])
            .joined(separator: ", ")
        // If a browser displays API content as a page of the application's origin, the content must not run scripts.
        head.headerFields[.contentSecurityPolicy] = "sandbox; default-src 'none'; frame-ancestors 'none'"
        head.headerFields[.xContentTypeOptions] = "nosniff"
        // RFC 9110 section 8.6: for HEAD, Content-Length is the length "if the same request had used the GET method".
        if method == .head, received[.contentEncoding] == nil {
            head.headerFields[.contentLength] = received[.contentLength]
        }
        return head
    }

    /// RFC 9111 section 3.5: shared caches do not store responses to requests with Authorization. The page's request
    /// has no Authorization field, so the response must forbid shared caching explicitly.
    private static func cacheControl(_ fields: HTTPFields) -> String {
        let directives = fields[values: .cacheControl].filter { $0.utf8.allSatisfy { $0 < 0x80 } }.flatMap { value in
            value.lowercased().split(separator: ",").map { $0.trimmingSpaces() }
        }
        let kept = directives.compactMap { directive -> String? in
            if directive.hasPrefix("max-age=") { return Int(directive.dropFirst(8)).map { "max-age=\($0)" } }
            let name = String(directive.prefix { $0 != "=" })
            return ["immutable", "must-revalidate", "no-cache", "no-store"].contains(name) ? name : nil
        }
        // RFC 9111 section 5.2.2.6: an intermediary "MUST NOT transform the content". A reverse proxy that compresses an event stream may delay the
        // events until its buffer is full.
        let transformation = directives.contains("no-transform") ? ["no-transform"] : []
        return (["private"] + (kept.isEmpty ? ["no-cache"] : kept) + transformation).joined(separator: ", ")
    }
}
