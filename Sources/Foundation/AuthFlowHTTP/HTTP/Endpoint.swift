import AuthFlowEssentials

/// The absolute URL of one of a provider's endpoints: `https`, or `http` on a loopback address.
///
/// RFC 9700 section 2.6: "Authorization responses MUST NOT be transmitted over unencrypted network connections", and
/// OAuth 2.1 section 1.5 requires TLS for every OAuth URL. Plain `http` is accepted only for `127.0.0.1`, `[::1]` and
/// `localhost`, where there can be no on-path attacker.
public struct Endpoint: Sendable, Hashable {
    /// The URL exactly as given. Issuers are compared by this string, character by character.
    public let url: String

    /// `https` or `http`.
    public let scheme: String

    /// The host in lower case; an IPv6 address is enclosed in brackets.
    public let host: String

    /// The port, if the URL specifies one.
    public let port: Int?

    /// The path, percent-encoded as given, except that characters that RFC 3986 does not allow are encoded; empty or beginning with a slash.
    public let path: String

    /// The query, if any, percent-encoded like the path.
    public let query: String?

    /// The most local scope of addresses that the host may resolve to. A host that a user configures may resolve to any address; a host
    /// that a server specifies must not resolve to an address that is more local than that server itself.
    package var allowedReach = NetworkReach.loopback

    /// Parses a URL.
    /// - Parameters:
    ///   - url: The URL.
    ///   - name: The name of the URL for error messages, such as `token_endpoint`.
    /// - Throws: ``AuthError`` with `invalid_configuration` when it is not an absolute URL, is insecure, or contains
    ///   credentials or a fragment.
    public init(_ url: String, name: String = "URL") throws(AuthError) {
        try self.init(url, name: name, mayHaveFragment: false)
    }

    /// Parses the URL of a page or a document. Unlike the URL of an endpoint, it may have a fragment, which is part of ``url`` only.
    package init(allowingFragment url: String, name: String) throws(AuthError) {
        try self.init(url, name: name, mayHaveFragment: true)
    }

    private init(_ url: String, name: String, mayHaveFragment: Bool) throws(AuthError) {
        func rejection(_ reason: String) -> AuthError {
            AuthError(.invalidConfiguration, "The \(name) \"\(Redaction.url(url))\" cannot be used: \(reason).")
        }
        // URL parsers handle these characters differently, so one host may be mistaken for another.
        guard url.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "\\") }) else {
            throw rejection("it contains a space, a control character, a backslash or a character outside ASCII")
        }
        guard let components = URLComponents(string: url), let scheme = components.scheme?.lowercased(),
            let host = components.encodedHost?.lowercased(), !host.isEmpty
        else { throw rejection("it is not an absolute URL such as https://id.example.com/path") }
        // URL libraries differ in how they decode percent-encoded hosts: some decode `%6cocalhost` to `localhost`.
        guard !host.contains("%") else { throw rejection("its host contains a percent sign") }
        guard components.user == nil, components.password == nil else {
            throw rejection("it contains a user name or a password")
        }
        guard mayHaveFragment || components.fragment == nil else {
            throw rejection("it has a fragment (#...), which RFC 6749 section 3.1 and RFC 8707 section 2 forbid")
        }
        guard scheme == "https" || scheme == "http" && Self.isLoopback(host: host) else {
            throw rejection("only https is safe; plain http is accepted only for 127.0.0.1, [::1] and localhost")
        }
        guard !NetworkReach.isNonCanonicalIPv4Address(host) else {
            throw rejection(
                "its host is a number that can be parsed in several ways; write an IPv4 address as 192.0.2.1"
            )
        }
        // `URLComponents` does not parse a port that is not an `Int`.
        let authority = url.dropFirst(scheme.utf8.count + 3).prefix { !"/?#".contains($0) }
        let digits = authority.utf8.lastIndex(of: UInt8(ascii: ":")).map { authority[$0...].dropFirst() } ?? ""
        if components.port != nil || !digits.isEmpty && !digits.contains("]") {
            guard let port = components.port, (1...65535).contains(port) else {
                throw rejection("the port is not between 1 and 65535")
            }
        }
        self.url = url
        self.scheme = scheme
        self.host = host
        self.port = components.port
        let target = Substring(url.utf8.dropFirst(scheme.utf8.count + 3 + authority.utf8.count)).prefix { $0 != "#" }
        let path = target.prefix { $0 != "?" }
        self.path = URLReference.percentEncodedTarget(String(path))
        self.query =
            path.endIndex == target.endIndex
            ? nil : URLReference.percentEncodedTarget(String(target[path.endIndex...].dropFirst()))
    }

    /// The web origin (RFC 6454): scheme, host and port. Default ports are omitted.
    public var origin: String { "\(scheme)://\(authority)" }

    /// Whether a host is `127.0.0.1`, `[::1]` or `localhost`. Other addresses in 127.0.0.0/8 do not count.
    package static func isLoopback(host: String) -> Bool {
        host == "127.0.0.1" || host == "[::1]" || host == "localhost"
    }

    /// The URL with parameters added to its existing query, which is retained (RFC 6749 section 3.1).
    public func url(adding parameters: FormParameters) -> String {
        guard !parameters.pairs.isEmpty else { return url }
        let separator = query == nil ? "?" : query == "" ? "" : "&"
        return url + separator + FormURLEncoding.encodeQuery(parameters)
    }

    /// Rejects parameters that the URL already has: "Request and response parameters MUST NOT be included more than once" (RFC 6749 section
    /// 3.1), and servers differ in which of two values they use.
    /// - Throws: ``AuthError`` with `unsupported`.
    package func requireNone(of parameters: FormParameters, name: String) throws(AuthError) {
        guard let decoded = FormURLEncoding.decode(query ?? "") else {
            throw AuthError(.unsupported, "The query of the provider's \(name) cannot be decoded.")
        }
        let own = Set(decoded.names.map { $0.lowercased() })
        guard let repeated = parameters.names.first(where: { own.contains($0.lowercased()) }) else { return }
        throw AuthError(
            .unsupported,
            "The provider's \(name) already has the parameter \"\(DisplayText.sanitized(repeated, limit: 60))\", which this request sets (RFC 6749 section 3.1)."
        )
    }

    /// The target URI of a request as sent (RFC 9110 section 7.1), without the query: an empty path is sent as "/".
    package var targetURI: String { "\(scheme)://\(authority)\(path.isEmpty ? "/" : path)" }

    /// The target in the request line: path and query.
    var requestTarget: String { (path.isEmpty ? "/" : path) + (query.map { "?\($0)" } ?? "") }

    /// The value of the `Host` field. Default ports are omitted (RFC 3986 section 6.2.3), as HTTP clients omit them: a server compares a DPoP proof's
    /// `htu` with the URL that it constructs from this field.
    package var authority: String {
        guard let port, port != (scheme == "https" ? 443 : 80) else { return host }
        return "\(host):\(port)"
    }
}

extension Endpoint {
    public static func == (left: Self, right: Self) -> Bool { left.url == right.url }
    public func hash(into hasher: inout Hasher) { hasher.combine(url) }
}

extension Endpoint: CustomStringConvertible, CustomDebugStringConvertible, NonReflectable {
    /// The URL without the values of its query parameters.
    public var description: String { Redaction.url(url) }
    public var debugDescription: String { description }
}
