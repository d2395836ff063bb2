import AuthFlowJSON
import HTTPTypes

/// The network settings for all of a client's requests: the proxy, the CA certificates, the client certificate, and the
/// timeouts.
public struct NetworkSettings: Sendable {
    /// The proxy to use. It is never used for loopback addresses.
    public var proxy = Proxy.none

    /// A PEM file with CA certificates to trust; nil for the system's CA certificates only. If libcurl is built with a
    /// certificate directory, as on Debian, the system's CA certificates are also trusted; otherwise the file replaces
    /// them.
    public var certificateAuthorities: String?

    /// The client certificate for servers that request one (mutual TLS); nil for none.
    public var clientCertificate: ClientCertificate?

    /// The addresses to use instead of DNS lookups, by `host:port`: `["id.example.com:443": "127.0.0.1"]`. For tests
    /// only; they have no effect with a proxy that resolves names itself (any except `socks5://`).
    public var addresses: [String: String] = [:]

    /// The connect timeout, including the TLS handshake; default: 15 seconds.
    public var connectTimeout = Duration.seconds(15)

    /// The timeout from the request to the first byte of an authorization server's response; default: 30 seconds. For a protected
    /// resource, only the request's timeout applies.
    public var firstByteTimeout = Duration.seconds(30)

    /// The maximum number of concurrent requests to one host, for each ``ConnectionPool``; default: 64. Further
    /// requests wait, and fail without being sent if they time out before a connection is available.
    public var connectionsPerHost = 64

    /// The maximum number of concurrent requests to all hosts combined, for each ``ConnectionPool``; default: 256.
    public var maximumConnections = 256

    /// The `User-Agent` header field of requests that have none; default: `AuthFlow`. Some APIs reject or limit requests without a field that
    /// identifies the program, such as `com.example.app/1.2 (admin@example.com)`. Only printable ASCII characters are sent. On Apple platforms,
    /// `URLSession` sends its own field.
    public var productName = "AuthFlow"

    /// Creates settings with default values.
    public init() {}

    /// The proxy selection.
    public enum Proxy: Sendable {
        /// No proxy.
        case none
        /// One proxy for all requests, except requests to loopback addresses.
        case server(ProxyServer)
        /// The `https_proxy`, `all_proxy` and `no_proxy` environment variables. Address ranges in `no_proxy` are ignored.
        case environment([String: String])
    }

    /// A forward proxy.
    public struct ProxyServer: Sendable {
        /// `http://`, `https://`, `socks5://` or `socks5h://`, a host, and a port.
        package let url: String

        /// The user name for the proxy; nil for a proxy without authentication.
        package let username: String?

        /// The password for the proxy user.
        package let password: Secret?

        /// Host and port, for messages.
        package let place: String

        /// Creates a proxy.
        /// - Throws: ``AuthError`` with `invalid_configuration` when the URL is not a valid proxy URL, or contains
        ///   credentials.
        public init(url: String, username: String? = nil, password: Secret? = nil) throws(AuthError) {
            func rejection(_ reason: String) -> AuthError {
                AuthError(.invalidConfiguration, "The proxy cannot be used: \(reason).")
            }
            let parts = url.unicodeScalars.split(separator: "/", maxSplits: 2, omittingEmptySubsequences: false).map(
                String.init
            )
            guard parts.count == 3, parts[1].isEmpty,
                ["http:", "https:", "socks5:", "socks5h:"].contains(parts[0].lowercased())
            else {
                throw rejection(
                    "its URL does not begin with http://, https://, socks5:// or socks5h:// (instead of socks://, use socks5h://)"
                )
            }
            let place = parts[2].hasSuffix("/") ? String(parts[2].dropLast()) : parts[2]
            guard !place.utf8.contains(UInt8(ascii: "@")) else {
                throw rejection("its URL contains a user name, which must be specified separately")
            }
            // If the URL had no port, libcurl would use port 1080.
            let digits = place.utf8.lastIndex(of: UInt8(ascii: ":")).map { place[place.utf8.index(after: $0)...] }
            guard let digits, digits.utf8.allSatisfy(\.isDigit), let port = UInt16(digits), port > 0 else {
                throw rejection("its URL has no valid port; a valid example is http://proxy.example.com:3128")
            }
            guard !place.hasPrefix(":"), place.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && !"/?#\\".utf8.contains($0) })
            else { throw rejection("its URL does not consist of a scheme, a host and a port") }
            self.url = "\(parts[0].lowercased())//\(place)"
            self.username = username
            self.password = password
            self.place = place
        }
    }

    /// A certificate with its private key, in PEM.
    public struct ClientCertificate: Sendable {
        /// The file with the certificate chain: the certificate, then the intermediate certificates.
        package let file: String

        /// The file with the private key, which must not be encrypted with a passphrase.
        package let keyFile: String

        /// Creates a certificate from files.
        public init(file: String, keyFile: String) {
            self.file = file
            self.keyFile = keyFile
        }
    }
}

extension NetworkSettings {
    /// The proxy for a request; nil for none.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the environment specifies an invalid proxy.
    package func proxy(for call: TransportRequest) throws(AuthError) -> ProxyServer? {
        let host = call.host
        // A proxy must not receive traffic between programs on this machine, and a remote proxy could not reach them.
        guard NetworkReach(host: host) != .loopback else { return nil }
        switch proxy {
        case .none: return nil
        case .server(let server): return server
        case .environment(let variables):
            return try ProxyEnvironment(variables).proxy(
                scheme: call.head.scheme ?? "https",
                host: host,
                port: call.port
            )
        }
    }
}

extension TransportRequest {
    /// The host in lower case; an IPv6 address is enclosed in brackets.
    package var host: String {
        let authority = head.authority ?? ""
        let port = authority.utf8.lastIndex(of: UInt8(ascii: ":"))
        guard let port, !authority[port...].contains("]") else { return authority.lowercased() }
        return authority[..<port].lowercased()
    }

    package var port: Int {
        Int(head.authority?.dropFirst(host.utf8.count + 1) ?? "") ?? (head.scheme == "http" ? 80 : 443)
    }
}

extension NetworkSettings.ProxyServer: CustomStringConvertible, NonReflectable {
    /// The URL, without the credentials.
    public var description: String { url }
}

extension NetworkSettings.Proxy: CustomStringConvertible, NonReflectable {
    /// The kind of proxy. Environment variables are not included, because they may contain secrets.
    public var description: String {
        switch self {
        case .none: "no proxy"
        case .server(let server): "proxy \(server)"
        case .environment: "the environment's proxy"
        }
    }
}

extension NetworkSettings: CustomStringConvertible, NonReflectable {
    /// The kind of proxy, and the certificate files.
    public var description: String {
        [
            "\(proxy)", certificateAuthorities.map { "authorities of \($0)" },
            clientCertificate.map { "certificate \($0.file)" },
        ]
        .compactMap(\.self).joined(separator: ", ")
    }
}
