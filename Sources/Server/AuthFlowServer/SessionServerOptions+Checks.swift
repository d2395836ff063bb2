import AuthFlow

extension SessionServerOptions {
    /// The options with the name of the cookie that browsers accept, after they have been checked.
    /// - Throws: ``AuthError`` with `invalid_configuration`.
    func checked() throws -> (options: SessionServerOptions, headerName: HTTPField.Name, isSecure: Bool) {
        guard sessionsPerUser >= 1 else { throw Self.refused("sessionsPerUser must be at least 1.") }
        let url = try Endpoint(origin, name: "origin of the application")
        let isSecure = url.scheme == "https"
        guard isSecure || allowsPlainHTTPOnLoopback else {
            throw Self.refused(
                "The application \(origin) is served without TLS, so cookies would not be secure. For testing on loopback, set allowsPlainHTTPOnLoopback, or \"allow_plain_http_on_loopback\" in a configuration file."
            )
        }
        // It is compared with the field `Origin` of browsers.
        guard url.browserOrigin == origin else {
            throw Self.refused("The application's origin must be written as \(url.browserOrigin).")
        }
        var options = self
        options.cookieName = try checkedCookieName(isSecure: isSecure)
        return (options, try checkedHeaderName(), isSecure)
    }

    private func checkedCookieName(isSecure: Bool) throws -> String {
        // Browsers reject cookies with these name prefixes without TLS.
        let prefix = ["__Host-Http-", "__Host-", "__Http-", "__Secure-"].first { cookieName.hasPrefix($0) }
        let name = isSecure ? cookieName : String(cookieName.dropFirst(prefix?.count ?? 0))
        let isValid = name.utf8.allSatisfy { (0x21...0x7E).contains($0) && !#"()<>@,;:\"/[]?={}"#.utf8.contains($0) }
        guard !name.isEmpty, isValid else {
            throw Self.refused("The cookie name is empty or contains characters that are not allowed in cookie names.")
        }
        // RFC 6265bis section 4.1.3.2: any other host of the domain could set a cookie whose name lacks this prefix.
        guard !isSecure || name.hasPrefix("__Host-") else {
            throw Self.refused("The cookie name must begin with __Host-, so that no other host can set the cookie.")
        }
        return name
    }

    private func checkedHeaderName() throws -> HTTPField.Name {
        guard let name = HTTPField.Name(headerName) else {
            throw Self.refused("\"\(DisplayText.sanitized(headerName, limit: 40))\" is not a header field name.")
        }
        guard !Self.unsafeNames.contains(name.canonicalName),
            !Self.unsafePrefixes.contains(where: name.canonicalName.hasPrefix)
        else {
            throw Self.refused(
                "Requests of any page can contain the field \(name.rawName). Choose a custom header field, such as X-AuthFlow."
            )
        }
        return name
    }

    /// Header fields that pages on other sites can send, or that browsers send automatically (Fetch section 2.2.2).
    private static let unsafeNames: Set<String> = [
        "accept", "accept-charset", "accept-encoding", "accept-language", "authorization", "cache-control",
        "connection", "content-language", "content-length", "content-type", "cookie", "date", "device-memory", "dnt",
        "downlink", "dpr", "ect", "expect", "host", "if-modified-since", "if-none-match", "if-range", "keep-alive",
        "last-event-id", "origin", "ping-from", "ping-to", "pragma", "priority", "purpose", "range", "referer", "rtt",
        "save-data", "te", "trailer", "transfer-encoding", "upgrade", "upgrade-insecure-requests", "user-agent",
        "viewport-width", "width",
        // Android's WebView adds this field to the requests of every page.
        "x-requested-with",
        // Reverse proxies add these fields to every request.
        "via", "forwarded", "early-data", "x-real-ip", "x-request-id", "traceparent", "tracestate",
    ]

    private static let unsafePrefixes = ["sec-", "proxy-", "access-control-", "x-forwarded-"]

    private static func refused(_ reason: String) -> AuthError { AuthError(.invalidConfiguration, reason) }
}
