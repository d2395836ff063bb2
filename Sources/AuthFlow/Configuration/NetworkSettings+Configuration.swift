extension NetworkSettings {
    /// The keys of a profile for its network settings.
    static let keys = [
        ConfigurationKey(
            "proxy",
            .either(
                .text,
                .object([
                    ConfigurationKey("url", .text, required: true, "Its address: http://proxy.example.com:3128."),
                    ConfigurationKey("username", .text, "The user name for it."),
                    ConfigurationKey("password", .secret, "The password that goes with it, by reference."),
                ])
            ),
            "The proxy: its address, \"none\", or \"environment\" for what https_proxy and no_proxy say. It is never used for this machine itself. Default: environment."
        ),
        ConfigurationKey(
            "ca_file",
            .text,
            "A PEM file with certificates of authorities that are trusted besides the system's, where those are in a folder as on Debian."
        ),
        ConfigurationKey(
            "client_certificate",
            .either(
                .text,
                .object([
                    ConfigurationKey("certificate", .text, required: true, "A PEM file with the certificate."),
                    ConfigurationKey(
                        "key",
                        .text,
                        required: true,
                        "A PEM file with its private key, without a passphrase."
                    ),
                ])
            ),
            "What is shown to servers that ask for a certificate: a PEM file with the certificate and its private key, or a file for each."
        ),
        ConfigurationKey(
            "resolve",
            .map(.text),
            "Addresses of hosts that are not looked up, by host and port: {\"id.example.com:443\": \"127.0.0.1\"}. For tests."
        ),
    ]

    /// Reads the settings of a profile.
    /// - Throws: ``ConfigurationError`` with the place of what is wrong.
    init(configuration: ConfigurationObject, environment: [String: String]) throws {
        self.init()
        proxy = try Self.proxy(configuration, environment)
        certificateAuthorities = try configuration.filePath("ca_file").map { path in
            try configuration.located("ca_file") { () throws(AuthError) in
                try PEMFile(path).requireCertificate()
            }
            return path
        }
        clientCertificate = try Self.clientCertificate(configuration)
        let resolved = configuration.object("resolve")
        for pair in configuration.parameters("resolve").pairs {
            try Self.require(pair, resolved)
            addresses[pair.name.lowercased()] = pair.value
        }
    }

    private static func proxy(_ configuration: ConfigurationObject, _ environment: [String: String]) throws -> Proxy {
        switch configuration.text("proxy") {
        case "none": return .none
        case "environment": return .environment(environment)
        case let url?:
            return .server(try configuration.located("proxy") { () throws(AuthError) in try ProxyServer(url: url) })
        case nil:
            guard configuration.has("proxy") else { return .environment(environment) }
            let object = configuration.object("proxy")
            let password = try object.secret("password")
            return .server(
                try object.located("url") { () throws(AuthError) in
                    try ProxyServer(
                        url: object.text("url") ?? "",
                        username: object.text("username"),
                        password: password
                    )
                }
            )
        }
    }

    private static func clientCertificate(_ configuration: ConfigurationObject) throws -> ClientCertificate? {
        guard configuration.has("client_certificate") else { return nil }
        let object = configuration.object("client_certificate")
        let both = configuration.filePath("client_certificate")
        guard let certificate = both ?? object.filePath("certificate"), let key = both ?? object.filePath("key") else {
            return nil
        }
        let (place, certificateKey, keyKey) =
            both == nil ? (object, "certificate", "key") : (configuration, "client_certificate", "client_certificate")
        try place.located(certificateKey) { () throws(AuthError) in try PEMFile(certificate).requireCertificate() }
        try place.located(keyKey) { () throws(AuthError) in try PEMFile(key).requireUsableKey() }
        return ClientCertificate(file: certificate, keyFile: key)
    }

    private static func require(_ pair: FormParameters.Pair, _ configuration: ConfigurationObject) throws {
        let name = pair.name.utf8.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
        // `*`, `+` and `-` are special to libcurl.
        let allowed = Set("abcdefghijklmnopqrstuvwxyz0123456789.-".utf8)
        let host = String(name[0])?.lowercased() ?? ""
        guard name.count == 2, !host.isEmpty, !host.hasPrefix("-"), allowed.isSuperset(of: host.utf8),
            String(name[1]).flatMap({ UInt16($0) }) ?? 0 > 0
        else {
            throw configuration.error("this is not a host with a port, such as id.example.com:443", at: pair.name)
        }
        let bare = pair.value.contains(":") ? "[\(pair.value)]" : pair.value
        guard NetworkReach.isAddress(bare) else {
            throw configuration.error(
                "\"\(DisplayText.sanitized(pair.value, limit: 60))\" is not an IP address",
                at: pair.name
            )
        }
    }
}

/// A file of certificates or keys in PEM (RFC 7468).
private struct PEMFile {
    private static let maximumSize = 4 * 1024 * 1024

    private let path: String
    private let text: String

    /// Reads a file that only this user or root could have written: it decides which servers are trusted, or how this
    /// client identifies itself.
    init(_ path: String) throws(AuthError) {
        self.path = path
        self.text = String(
            decoding: try TrustedFile(path, kind: "PEM file").contents(maximumSize: Self.maximumSize),
            as: UTF8.self
        )
    }

    func requireCertificate() throws(AuthError) {
        guard text.contains("-----BEGIN CERTIFICATE-----") else { throw refusal("there is no certificate in it") }
    }

    func requireUsableKey() throws(AuthError) {
        guard text.contains("PRIVATE KEY-----") else { throw refusal("there is no private key in it") }
        // PKCS #8 has a label for keys with a passphrase, older files a line beneath theirs (RFC 1421).
        guard !text.contains("BEGIN ENCRYPTED PRIVATE KEY-----"), !text.contains("Proc-Type: 4,ENCRYPTED") else {
            throw refusal("its private key has a passphrase, which cannot be asked for at every request")
        }
    }

    private func refusal(_ reason: String) -> AuthError {
        AuthError(.invalidConfiguration, "\(path) cannot be used: \(reason)")
    }
}
