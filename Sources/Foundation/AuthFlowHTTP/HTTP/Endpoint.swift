import AuthFlowEssentials

/// The address of one of a provider's services: absolute, `https`, or `http` on this machine's own loopback.
///
/// RFC 9700 section 2.6: "Authorization responses MUST NOT be transmitted over unencrypted network connections", and
/// OAuth 2.1 section 1.5 asks for TLS on every OAuth URL. Plain `http` passes for `127.0.0.1`, `[::1]` and `localhost`
/// only, where no attacker is in between.
public struct Endpoint: Sendable, Hashable {
    /// The URL exactly as it was given. Issuers are compared by it, character by character.
    public let url: String

    /// `https` or `http`.
    public let scheme: String

    /// The host in lower case; an IPv6 address stands in brackets.
    public let host: String

    /// The port, when the URL names one.
    public let port: Int?

    /// The path, percent-encoded as given; empty or beginning with a slash.
    public let path: String

    /// The query, percent-encoded as given, when there is one.
    public let query: String?

    /// The farthest into this machine that the host may resolve to. What a user has written may be anywhere; what a server names may
    /// be no nearer to this machine than that server itself, whatever its name resolves to.
    package var allowedReach = NetworkReach.thisMachine

    /// Reads an address.
    /// - Parameters:
    ///   - url: The URL.
    ///   - name: What the URL is, for the message, such as `token_endpoint`.
    /// - Throws: ``AuthError`` with `invalid_configuration` when it is not an absolute URL, is not protected, or carries
    ///   credentials or a fragment.
    public init(_ url: String, name: String = "URL") throws(AuthError) {
        func refuse(_ reason: String) -> AuthError {
            AuthError(.invalidConfiguration, "The \(name) \"\(Redaction.url(url))\" cannot be used: \(reason).")
        }
        // URL parsers disagree about what to do with these, which is how one host is taken for another.
        guard url.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "\\") }) else {
            throw refuse("it contains a space, a backslash or a character outside ASCII")
        }
        guard let components = URLComponents(string: url), let scheme = components.scheme?.lowercased(),
            let host = components.percentEncodedHost?.lowercased(), !host.isEmpty
        else {
            throw refuse("it is not an absolute URL such as https://id.example.com/path")
        }
        // URL libraries decode it, each in its own way: `%6cocalhost` is this machine to some.
        guard !host.contains("%") else { throw refuse("its host contains a percent sign") }
        guard components.user == nil, components.password == nil else {
            throw refuse("it contains a user name")
        }
        guard components.fragment == nil else { throw refuse("it has a fragment (#...), which RFC 6749 forbids") }
        guard scheme == "https" || scheme == "http" && Self.isLoopback(host: host) else {
            throw refuse("only https is safe; plain http works only for 127.0.0.1, [::1] and localhost")
        }
        guard !NetworkReach.isObscureAddress(host) else {
            throw refuse("its host is a number that is read in several ways; write an IPv4 address as 192.0.2.1")
        }
        if let port = components.port {
            guard (1...65535).contains(port) else { throw refuse("the port is not between 1 and 65535") }
        }
        self.url = url
        self.scheme = scheme
        self.host = host
        self.port = components.port
        self.path = components.percentEncodedPath
        self.query = components.percentEncodedQuery
    }

    /// Scheme, host and port, as a browser tells sites apart (RFC 6454). Default ports are left out.
    public var origin: String {
        let isDefault = port == nil || port == (scheme == "https" ? 443 : 80)
        return "\(scheme)://\(host)" + (isDefault ? "" : ":\(port ?? 0)")
    }

    /// Whether a host name (IPv6 in brackets) always means this machine.
    public static func isLoopback(host: String) -> Bool {
        host == "127.0.0.1" || host == "[::1]" || host == "localhost"
    }

    /// The URL with parameters added to its query, which is kept (RFC 6749 section 3.1).
    public func url(adding parameters: FormParameters) -> String {
        guard !parameters.pairs.isEmpty else { return url }
        let separator = query == nil ? "?" : query == "" ? "" : "&"
        return url + separator + FormURLEncoding.encodeQuery(parameters)
    }

    /// The target in the request line: path and query.
    var requestTarget: String { (path.isEmpty ? "/" : path) + (query.map { "?\($0)" } ?? "") }

    /// The value of the `Host` field.
    public var authority: String { host + (port.map { ":\($0)" } ?? "") }
}

extension Endpoint {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public static func == (left: Self, right: Self) -> Bool { left.url == right.url }
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public func hash(into hasher: inout Hasher) { hasher.combine(url) }
}

extension Endpoint: CustomStringConvertible, CustomDebugStringConvertible, WithoutReflection {
    /// The URL with the values of its query left out.
    public var description: String { Redaction.url(url) }
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public var debugDescription: String { description }
}
