package import AuthFlowHTTP
import AuthFlowJSON

extension NetworkSettings {
    /// The keys of a profile for its network settings.
    package enum Keys {
        static let proxy = ConfigurationKey(
            "proxy",
            ConfigurationValue<ProxyChoice>.either(
                .parsed { text throws(AuthError) in try ProxyChoice(text) },
                .object([proxyURL, proxyUsername, proxyPassword]) { object throws(ConfigurationError) in
                    let url = try object[proxyURL]
                    let username = try object[proxyUsername]
                    let password = try object[proxyPassword]
                    return .server(
                        try object.located(proxyURL) { () throws(AuthError) in
                            try ProxyServer(url: url, username: username, password: password)
                        }
                    )
                }
            ),
            default: .environment,
            "The proxy: its URL, \"none\", or \"environment\" to use the variables https_proxy, all_proxy and no_proxy. It is never used for loopback addresses. Default: environment."
        )
        private static let proxyURL = ConfigurationKey(
            "url",
            required: .text,
            "The URL of the proxy: http://proxy.example.com:3128."
        )
        private static let proxyUsername = ConfigurationKey("username", .text, "The user name for the proxy.")
        private static let proxyPassword = ConfigurationKey(
            "password",
            .secret,
            "The password for the proxy, by reference."
        )

        static let certificateAuthorities = ConfigurationKey(
            "ca_file",
            ConfigurationValue<String>.certificateFile,
            "A PEM file of CA certificates to trust. The system's CA certificates are also trusted if they are stored in a directory, as on Debian."
        )

        package static let clientCertificate = ConfigurationKey(
            "client_certificate",
            ConfigurationValue<ClientCertificate>.either(
                ConfigurationValue<String>.certificateFile.map { path throws(AuthError) in
                    try PEMFile(path).requireUsableKey()
                    return ClientCertificate(file: path, keyFile: path)
                },
                .object([certificate, certificateKey]) { object throws(ConfigurationError) in
                    ClientCertificate(file: try object[certificate], keyFile: try object[certificateKey])
                }
            ),
            "The client certificate for servers that request one: a PEM file with the certificate and its private key, or a separate file for each."
        )
        private static let certificate = ConfigurationKey(
            "certificate",
            required: ConfigurationValue<String>.certificateFile,
            "A PEM file with the certificate."
        )
        private static let certificateKey = ConfigurationKey(
            "key",
            required: ConfigurationValue<String>.path.map { path throws(AuthError) in
                try PEMFile(path).requireUsableKey()
                return path
            },
            "A PEM file with the certificate's private key, without a passphrase."
        )

        static let addresses = ConfigurationKey(
            "resolve",
            .map(
                .parsed { address throws(AuthError) in try requireAddress(address) },
                name: { name throws(AuthError) in try requireHostAndPort(name) }
            ),
            default: [:],
            "IP addresses to use instead of DNS, by host and port: {\"id.example.com:443\": \"127.0.0.1\"}. For tests."
        )

        static let connectionsPerHost = ConfigurationKey(
            "connections_per_host",
            .number(1...10_000),
            default: 64,
            "The maximum number of concurrent requests to one host; further requests wait. Token requests and API calls are counted separately."
        )

        static let productName = ConfigurationKey(
            "product_name",
            .parsed { text throws(AuthError) in
                guard !text.isEmpty, text.utf8.count <= 256, text.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) else {
                    throw AuthError(
                        .invalidConfiguration,
                        "this is not a product name of 1 to 256 printable ASCII characters"
                    )
                }
                return text
            },
            default: NetworkSettings().productName,
            "The User-Agent header field of requests, such as com.example.app/1.2 (admin@example.com). Some APIs require a value that identifies the program. Default: AuthFlow."
        )

        package static let all: [any AnyConfigurationKey] = [
            proxy, certificateAuthorities, clientCertificate, addresses, connectionsPerHost, productName,
        ]

        static let declarations = all.map(\.declaration)
    }

    /// The proxy setting of a profile.
    enum ProxyChoice: Sendable {
        case none
        case environment
        case server(ProxyServer)

        init(_ text: String) throws(AuthError) {
            switch text {
            case "none": self = .none
            case "environment": self = .environment
            default: self = .server(try ProxyServer(url: text))
            }
        }
    }

    /// Reads the settings of a profile.
    /// - Throws: ``ConfigurationError`` with the location of the issue.
    init(configuration: ConfigurationObject, environment: [String: String]) throws(ConfigurationError) {
        self.init()
        switch try configuration[Keys.proxy] {
        case .none: proxy = .none
        case .environment: proxy = .environment(environment)
        case .server(let server): proxy = .server(server)
        }
        certificateAuthorities = try configuration[Keys.certificateAuthorities]
        clientCertificate = try configuration[Keys.clientCertificate]
        for (name, address) in try configuration[Keys.addresses] { addresses[name.lowercased()] = address }
        connectionsPerHost = try configuration[Keys.connectionsPerHost]
        maximumConnections = max(maximumConnections, connectionsPerHost)
        productName = try configuration[Keys.productName]
    }

    private static func requireHostAndPort(_ text: String) throws(AuthError) {
        let parts = text.utf8.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
        // `*`, `+` and `-` have a special meaning in libcurl (CURLOPT_RESOLVE).
        let allowed = Set("abcdefghijklmnopqrstuvwxyz0123456789.-".utf8)
        let host = String(parts[0])?.lowercased() ?? ""
        guard parts.count == 2, !host.isEmpty, !host.hasPrefix("-"), allowed.isSuperset(of: host.utf8),
            parts[1].allSatisfy(\.isDigit), String(parts[1]).flatMap({ UInt16($0) }) ?? 0 > 0
        else {
            throw AuthError(.invalidConfiguration, "this is not a host with a port, such as id.example.com:443")
        }
    }

    private static func requireAddress(_ text: String) throws(AuthError) -> String {
        guard NetworkReach.isAddress(text.contains(":") ? "[\(text)]" : text) else {
            let shown = DisplayText.sanitized(text, limit: 60)
            throw AuthError(.invalidConfiguration, "\"\(shown)\" is not an IP address")
        }
        return text
    }
}

extension ConfigurationValue<String> {
    /// The path of a PEM file with a certificate.
    static var certificateFile: Self {
        .path.map { path throws(AuthError) in
            try PEMFile(path).requireCertificate()
            return path
        }
    }
}

/// A PEM file with certificates or keys (RFC 7468).
private struct PEMFile {
    private static let maximumSize = 4 * 1024 * 1024

    private let path: String
    private let text: String

    /// Reads a file that only this user or root could have written, because the file determines which servers are trusted, or how this
    /// client authenticates.
    init(_ path: String) throws(AuthError) {
        self.path = path
        self.text = String(
            decoding: try TrustedFile(path, kind: "PEM file").contents(maximumSize: Self.maximumSize),
            as: UTF8.self
        )
    }

    func requireCertificate() throws(AuthError) {
        guard text.contains("-----BEGIN CERTIFICATE-----") else { throw refusal("it contains no certificate") }
    }

    func requireUsableKey() throws(AuthError) {
        guard text.contains("PRIVATE KEY-----") else { throw refusal("it contains no private key") }
        // PKCS #8 has a separate label for encrypted keys; older formats have a header line below the label (RFC 1421).
        guard !text.contains("BEGIN ENCRYPTED PRIVATE KEY-----"), !text.contains("Proc-Type: 4,ENCRYPTED") else {
            throw refusal("its private key has a passphrase, which cannot be entered for every request")
        }
    }

    private func refusal(_ reason: String) -> AuthError {
        AuthError(.invalidConfiguration, "\(path) cannot be used: \(reason)")
    }
}
