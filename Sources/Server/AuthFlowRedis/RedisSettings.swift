import AuthFlow

/// The validated connection settings. By default, plaintext TCP connections are allowed only on loopback.
struct RedisSettings: Sendable {
    enum Place: Sendable {
        case socket(String)
        case port(host: String, Int)
    }

    let place: Place
    let username: String?
    let password: Secret?
    let database: Int
    /// The prefix of all keys.
    let prefix: String

    /// - Parameters:
    ///   - url: `redis://user:password@host:port/database`, or `unix:/path/to/the/socket`.
    ///   - password: The password; default: the password in the URL.
    ///   - allowsPlainText: Whether a remote server may be used without TLS.
    init(url: Secret, password: Secret?, prefix: String, allowsPlainText: Bool) throws(AuthError) {
        func refused(_ reason: String) -> AuthError {
            AuthError(.invalidConfiguration, "The URL of the Redis server \(reason).")
        }
        var text = url.exposed[...]
        let isName = prefix.utf8.allSatisfy { $0.isLetterOrDigit || "._-:".utf8.contains($0) }
        guard !prefix.isEmpty, isName else {
            throw AuthError(
                .invalidConfiguration,
                "The key prefix must consist of one or more letters, digits, or the characters . _ - :"
            )
        }
        self.prefix = prefix
        if text.hasPrefix("unix:") {
            text.removeFirst(5)
            if text.hasPrefix("//") { text.removeFirst(2) }
            guard text.hasPrefix("/") else { throw refused("has no socket path") }
            (place, username, database) = (.socket(String(text)), nil, 0)
            self.password = password
            return
        }
        guard !text.hasPrefix("rediss://") else {
            throw AuthError(
                .unsupported,
                "TLS is not supported for Redis. Use a Unix-domain socket, or a local TLS tunnel."
            )
        }
        guard text.hasPrefix("redis://") else { throw refused("starts with neither redis:// nor unix:") }
        text.removeFirst("redis://".count)
        var (username, urlPassword): (String?, Secret?) = (nil, nil)
        if let at = text.lastIndex(of: "@") {
            let parts = text[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            let decoded = parts.map { FormURLEncoding.percentDecoded(String($0)) }
            let known = decoded.compactMap(\.self)
            guard known.count == decoded.count, let name = known.first else { throw refused("is invalid") }
            if !name.isEmpty { username = name }
            if known.count == 2 { urlPassword = Secret(known[1]) }
            text = text[text.index(after: at)...]
        }
        let (address, path) = text.firstIndex(of: "/").map { (text[..<$0], text[$0...].dropFirst()) } ?? (text, "")
        guard path.isEmpty || Int(path).map({ (0...1_000_000).contains($0) }) == true else {
            throw refused("has an invalid database number")
        }
        let (host, port): (String, Int?)
        if address.hasPrefix("["), let end = address.firstIndex(of: "]") {
            let rest = address[address.index(after: end)...]
            host = String(address[..<end].dropFirst())
            port = rest.isEmpty ? 6379 : rest.hasPrefix(":") ? Int(rest.dropFirst()) : nil
        } else {
            let parts = address.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            host = parts.first.map { String($0) } ?? ""
            port = parts.count == 2 ? Int(parts[1]) : 6379
        }
        guard !host.isEmpty, let port, (1...65535).contains(port) else { throw refused("has no valid host or port") }
        guard Endpoint.isLoopback(host: host.contains(":") ? "[\(host)]" : host) || allowsPlainText else {
            throw refused(
                "refers to another machine, but TLS is not supported for Redis: an attacker on the network could read the sessions. Use a local TLS tunnel"
            )
        }
        self.place = .port(host: host, port)
        self.username = username
        self.password = password ?? urlPassword
        self.database = Int(path) ?? 0
    }
}
