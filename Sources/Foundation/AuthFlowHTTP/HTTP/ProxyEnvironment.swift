/// The proxy specified by the environment variables that curl also reads.
struct ProxyEnvironment {
    private let variables: [String: String]

    init(_ variables: [String: String]) { self.variables = variables }

    /// The proxy for a server; nil for none.
    /// - Throws: ``AuthError`` with `invalid_configuration` when the applicable variable is not a valid proxy URL.
    func proxy(scheme: String, host: String, port: Int) throws(AuthError) -> NetworkSettings.ProxyServer? {
        guard !isExcepted(host, port) else { return nil }
        // HTTP_PROXY is not read, because in a CGI program it contains the request's Proxy header field (httpoxy).
        let names = scheme == "http" ? ["http_proxy"] : ["https_proxy", "HTTPS_PROXY"]
        for name in names + ["all_proxy", "ALL_PROXY"] {
            guard let value = variables[name], !value.isEmpty else { continue }
            do throws(AuthError) {
                return try Self.server(value)
            } catch {
                throw AuthError(.invalidConfiguration, "The value of \(name) is not a proxy URL. \(error.message)")
            }
        }
        return nil
    }

    /// Parses a URL from one of these variables: the scheme may be missing, and credentials may precede the host.
    private static func server(_ value: String) throws(AuthError) -> NetworkSettings.ProxyServer {
        let (scheme, rest) =
            value.firstRange(of: "://").map { (String(value[..<$0.lowerBound]), String(value[$0.upperBound...])) } ?? (
                "http", value
            )
        guard let at = rest.utf8.lastIndex(of: UInt8(ascii: "@")) else {
            return try NetworkSettings.ProxyServer(url: "\(scheme)://\(rest)")
        }
        let credentials = rest[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        let decoded = credentials.map { FormURLEncoding.percentDecoded(String($0)) ?? String($0) }
        return try NetworkSettings.ProxyServer(
            url: "\(scheme)://\(rest[rest.utf8.index(after: at)...])",
            username: decoded.first,
            password: decoded.count > 1 ? Secret(decoded[1]) : nil
        )
    }

    /// Whether `no_proxy` matches a host: by its name, by a parent domain, or by `*`; an entry with a port matches that port only.
    private func isExcepted(_ host: String, _ port: Int) -> Bool {
        // Like the other variables, an empty variable counts as unset.
        let list = ["no_proxy", "NO_PROXY"].lazy.compactMap { variables[$0] }.first { !$0.isEmpty } ?? ""
        let hostWithoutTrailingDot = host.hasSuffix(".") ? String(host.dropLast()) : host
        let bare =
            hostWithoutTrailingDot.hasPrefix("[")
            ? String(hostWithoutTrailingDot.dropFirst().dropLast()) : hostWithoutTrailingDot
        return list.split(whereSeparator: { $0 == "," || $0 == " " }).contains { entry in
            var name = entry.lowercased()
            if name == "*" { return true }
            let suffix = ":\(port)"
            if name.hasSuffix(suffix), !name.hasPrefix("["), name.utf8.count(where: { $0 == UInt8(ascii: ":") }) == 1 {
                name.removeLast(suffix.utf8.count)
            }
            if name.hasPrefix("*.") { name.removeFirst(2) } else if name.hasPrefix(".") { name.removeFirst() }
            return !name.isEmpty && (bare == name || bare.hasSuffix(".\(name)"))
        }
    }
}
