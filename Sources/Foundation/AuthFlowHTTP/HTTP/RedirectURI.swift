import AuthFlowEssentials

/// A registered redirect URI, to which the provider redirects the user agent (RFC 8252 section 7).
public struct RedirectURI: Sendable, Hashable {
    /// The three kinds of redirect URIs for native apps.
    public enum Kind: Sendable, Hashable {
        /// An HTTP server on the loopback interface (RFC 8252 section 7.3); without a port, any free port is used.
        case loopback(host: String, port: Int?, path: String)
        /// A scheme that the app has registered with the system (RFC 8252 section 7.1).
        case privateUse(scheme: String)
        /// An `https` URI that the app has claimed (RFC 8252 section 7.2), or the URI of a server.
        case https
    }

    /// The URI exactly as it is sent. For a loopback URI on any free port, the port is not yet included.
    public let uri: String

    /// The kind of redirect URI.
    public let kind: Kind

    /// `http://127.0.0.1/callback`, on a free port.
    public static let loopback = RedirectURI(
        uri: "http://127.0.0.1/callback",
        kind: .loopback(host: "127.0.0.1", port: nil, path: "/callback")
    )

    private init(uri: String, kind: Kind) {
        self.uri = uri
        self.kind = kind
    }

    /// Parses a redirect URI.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the URI cannot be used safely.
    public init(_ uri: String) throws(AuthError) {
        func rejection(_ reason: String) -> AuthError {
            AuthError(.invalidConfiguration, "The redirect URI \"\(Redaction.url(uri))\" cannot be used: \(reason).")
        }
        // RFC 6749 section 3.1.2: absolute, and without a fragment.
        guard !uri.contains("#") else {
            throw rejection("it has a fragment (#...), which RFC 6749 section 3.1.2 forbids")
        }
        guard let components = URLComponents(string: uri), let scheme = components.scheme?.lowercased() else {
            throw rejection("it is not an absolute URI")
        }
        switch scheme {
        case "http":
            // Port 0 in a configuration means the same as no port: any free port.
            let plain = components.port == 0 ? Self.removingPort(from: uri) : uri
            let endpoint: Endpoint
            do throws(AuthError) {
                endpoint = try Endpoint(plain, name: "redirect URI")
            } catch {
                throw rejection(
                    "plain http requires a valid URI at 127.0.0.1, [::1] or localhost (RFC 8252 section 7.3)"
                )
            }
            guard endpoint.query == nil else { throw rejection("a loopback redirect URI must not have a query") }
            let path = endpoint.path.isEmpty ? "/" : endpoint.path
            self.init(uri: plain, kind: .loopback(host: endpoint.host, port: endpoint.port, path: path))
        case "https":
            _ = try Endpoint(uri, name: "redirect URI")
            self.init(uri: uri, kind: .https)
        default:
            // RFC 8252 section 7.1: "apps MUST use a URI scheme based on a domain name under their control, expressed
            // in reverse order". Any other app may register "myapp".
            guard scheme.contains(".") else {
                throw rejection(
                    "the scheme \"\(scheme)\" is not a reversed domain name such as com.example.app (RFC 8252 section 7.1)"
                )
            }
            self.init(uri: uri, kind: .privateUse(scheme: scheme))
        }
    }

    private static func removingPort(from uri: String) -> String {
        guard let start = uri.firstRange(of: "://")?.upperBound else { return uri }
        let end = uri[start...].firstIndex { "/?".contains($0) } ?? uri.endIndex
        guard let colon = uri[start..<end].lastIndex(of: ":") else { return uri }
        return "\(uri[..<colon])\(uri[end...])"
    }

    /// The URI with a port added, if it is a loopback URI without a port.
    /// - Parameter port: The bound port.
    public func uri(port: Int) -> String {
        guard case .loopback(let host, nil, var path) = kind else { return uri }
        // Providers compare redirect URIs as strings, so an empty path remains empty, as in a URI with a port.
        if path == "/", !uri.hasSuffix("/") { path = "" }
        return "http://\(host):\(port)\(path)"
    }
}

extension RedirectURI: CustomStringConvertible {
    public var description: String { uri }
}

extension RedirectURI: ExpressibleByStringLiteral {
    /// Creates a redirect URI from a string literal. An invalid URI is a precondition failure; a value from any other source must be
    /// parsed with ``init(_:)``.
    public init(stringLiteral value: String) {
        do throws(AuthError) {
            try self.init(value)
        } catch {
            preconditionFailure("\(error)")
        }
    }
}
