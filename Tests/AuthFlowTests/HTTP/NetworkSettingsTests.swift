import AuthFlow
import AuthFlowJSON
import Foundation
import HTTPTypes
import Testing

@testable import AuthFlowConfiguration

@Suite struct NetworkSettingsTests {
    private func proxy(_ proxy: NetworkSettings.Proxy, for url: String) throws -> NetworkSettings.ProxyServer? {
        var settings = NetworkSettings()
        settings.proxy = proxy
        return try settings.proxy(for: TransportRequest(.get, Endpoint(url)))
    }

    @Test(
        arguments: [
            ("http://proxy:3128", "http://proxy:3128"),
            ("HTTPS://proxy.example.com:8443/", "https://proxy.example.com:8443"), ("http://proxy", nil),
            ("socks5h://[::1]:1080", "socks5h://[::1]:1080"), ("proxy:3128", nil), ("ftp://proxy", nil),
            ("http://", nil),
            ("http://alice:secret@proxy", nil), ("http://proxy/path", nil), ("http://proxy?x", nil),
            ("http://pro xy", nil), ("", nil),
        ] as [(String, String?)]
    ) func acceptsOnlyProxyURLsWithASchemeAHostAndAPort(_ text: String, _ expected: String?) {
        let server = try? NetworkSettings.ProxyServer(url: text)
        #expect(server?.url == expected)
    }

    @Test(arguments: [
        ("ftp://proxy:3128", "does not begin with"), ("http:/x/proxy:3128", "does not begin with"),
        ("http://alice@proxy:3128", "contains a user name"), ("http://proxy:0", "no valid port"),
        ("http://proxy:65536", "no valid port"), ("http://proxy:+80", "no valid port"),
        ("http://:3128", "does not consist of"), ("http://pro xy:3128", "does not consist of"),
        ("http://proxy/path:3128", "does not consist of"), ("http://proxy\u{E9}:3128", "does not consist of"),
    ]) func reportsWhyAProxyURLCannotBeUsed(_ url: String, _ reason: String) {
        let error = #expect(throws: AuthError.self) { try NetworkSettings.ProxyServer(url: url) }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.message.contains(reason) == true, "\(error?.message ?? "")")
    }

    @Test func loopbackRequestsDoNotUseAProxy() throws {
        let server = try NetworkSettings.ProxyServer(url: "http://proxy:3128")
        for host in [
            "http://127.0.0.1:8080", "http://localhost", "http://[::1]:80", "http://[::1]", "https://127.0.0.1",
            "https://x.localhost",
        ] {
            #expect(try proxy(.server(server), for: host) == nil, "\(host)")
        }
        #expect(try proxy(.server(server), for: "https://id.example.com") != nil)
        #expect(try proxy(.none, for: "https://id.example.com") == nil)
    }

    /// Environment variables, and the resulting proxy for `https://id.example.com`.
    @Test(
        arguments: [
            ([:], nil), (["https_proxy": "http://proxy:1"], "http://proxy:1"),
            (["HTTPS_PROXY": "http://proxy:2"], "http://proxy:2"),
            (["https_proxy": "proxy:3"], "http://proxy:3"), (["all_proxy": "socks5://proxy:4"], "socks5://proxy:4"),
            (["http_proxy": "http://proxy:5"], nil), (["https_proxy": ""], nil),
            (["https_proxy": "http://proxy:6", "no_proxy": "*"], nil),
            (["https_proxy": "http://proxy:7", "no_proxy": "a.com, example.com"], nil),
            (["https_proxy": "http://proxy:8", "NO_PROXY": ".example.com"], nil),
            (["https_proxy": "http://proxy:9", "no_proxy": "*.example.com"], nil),
            (["https_proxy": "http://proxy:10", "no_proxy": "ample.com"], "http://proxy:10"),
            (["https_proxy": "http://proxy:11", "no_proxy": "id.example.com:443"], nil),
            (["https_proxy": "http://proxy:12", "no_proxy": "id.example.com:8443"], "http://proxy:12"),
            (["https_proxy": "http://proxy:13", "no_proxy": "", "NO_PROXY": "example.com"], nil),
        ] as [([String: String], String?)]
    ) func readsTheProxyFromTheUsualEnvironmentVariables(
        _ variables: [String: String],
        _ expected: String?
    ) throws {
        #expect(try proxy(.environment(variables), for: "https://id.example.com")?.url == expected)
    }

    @Test func decodesProxyCredentialsAndDoesNotPrintThem() throws {
        let server = try proxy(
            .environment(["https_proxy": "http://al%40ice:p%3Ass@proxy:3128"]),
            for: "https://id.example.com"
        )
        #expect(server?.username == "al@ice")
        #expect(server?.password?.exposed == "p:ss")
        #expect(server.map { "\($0)" } == "http://proxy:3128")
        let error = #expect(throws: AuthError.self) {
            try proxy(.environment(["https_proxy": "ftp://alice:secret@proxy"]), for: "https://id.example.com")
        }
        #expect(error?.message.contains("https_proxy") == true)
        #expect(error?.description.contains("secret") == false)
    }

    #if os(Linux)
    private func withProfile(
        _ members: String,
        files: [String: String] = [:],
        _ body: (Profile, String) throws -> Void
    ) throws {
        let folder = NSTemporaryDirectory() + "authflow-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        for (name, text) in files { try text.write(toFile: "\(folder)/\(name)", atomically: true, encoding: .utf8) }
        let text = #"{"profiles": {"work": {"provider": "oidc", \#(members)}}}"#
        try body(
            try ConfigurationFile(text: Array(text.utf8), name: "authflow.json", directory: folder).profile(),
            folder
        )
    }

    private static let certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    private static let key = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n"

    @Test(arguments: [
        #""proxy": "none""#, #""proxy": "environment""#, #""proxy": "http://proxy:3128""#,
        #""proxy": {"url": "http://proxy:3128", "username": "alice", "password": {"env": "PROXY_PASSWORD"}}"#,
        #""ca_file": "ca.pem""#, #""client_certificate": "both.pem""#,
        #""client_certificate": {"certificate": "ca.pem", "key": "key.pem"}"#,
        #""resolve": {"id.example.com:443": "127.0.0.1", "other.example.com:8443": "::1"}"#,
    ]) func readsTheNetworkSettingsOfAProfile(_ members: String) throws {
        let files = ["ca.pem": Self.certificate, "key.pem": Self.key, "both.pem": Self.certificate + Self.key]
        try withProfile(members, files: files) { profile, _ in
            #expect(throws: Never.self) { try profile.transport(environment: ["PROXY_PASSWORD": "secret"]) }
            var checker = ConfigurationChecker(source: ConfigurationSource(file: "", directory: "", text: []))
            let json = try JSON(parsing: Array("{\(members)}".utf8))
            checker.check(json, .object(NetworkSettings.Keys.declarations), at: JSONPath())
            #expect(checker.issues.isEmpty)
        }
    }

    @Test(arguments: [
        (#""proxy": "proxy:3128""#, "proxy", "does not begin with"),
        (#""proxy": "http://a:b@proxy""#, "proxy", "contains a user name"),
        (#""proxy": {"url": "http://p", "password": {"env": "UNSET"}}"#, "proxy.password", "UNSET is not set"),
        (#""ca_file": "none.pem""#, "ca_file", "no PEM file"), (#""ca_file": "key.pem""#, "ca_file", "no certificate"),
        (#""ca_file": "open.pem""#, "ca_file", "open.pem"),
        (#""client_certificate": "ca.pem""#, "client_certificate", "no private key"),
        (
            #""client_certificate": {"certificate": "ca.pem", "key": "locked.pem"}"#, "client_certificate.key",
            "passphrase"
        ),
        (#""client_certificate": {"certificate": "ca.pem", "key": "old.pem"}"#, "client_certificate.key", "passphrase"),
        (#""resolve": {"id.example.com": "127.0.0.1"}"#, "resolve", "not a host with a port"),
        (#""resolve": {":443": "127.0.0.1"}"#, "resolve", "not a host with a port"),
        (#""resolve": {"id.example.com:0": "127.0.0.1"}"#, "resolve", "not a host with a port"),
        (#""resolve": {"id.example.com:65536": "127.0.0.1"}"#, "resolve", "not a host with a port"),
        (#""resolve": {"id.example.com:+443": "127.0.0.1"}"#, "resolve", "not a host with a port"),
        // These characters have a special meaning in libcurl.
        (#""resolve": {"-id.example.com:443": "127.0.0.1"}"#, "resolve", "not a host with a port"),
        (#""resolve": {"*:443": "127.0.0.1"}"#, "resolve", "not a host with a port"),
        (#""resolve": {"+id.example.com:443": "127.0.0.1"}"#, "resolve", "not a host with a port"),
        (#""resolve": {"id.example.com:443": "other.example.com"}"#, "resolve", "not an IP address"),
        (#""resolve": {"id.example.com:443": "127.0.0.1:8443"}"#, "resolve", "not an IP address"),
    ]) func reportsInvalidNetworkSettingsWithTheirKeyPathAndPosition(
        _ members: String,
        _ keyPath: String,
        _ reason: String
    ) throws {
        let files = [
            "ca.pem": Self.certificate, "key.pem": Self.key, "open.pem": Self.certificate,
            "locked.pem": "-----BEGIN ENCRYPTED PRIVATE KEY-----\n",
            "old.pem": "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n",
        ]
        try withProfile(members, files: files) { profile, folder in
            try FileManager.default.setAttributes([.posixPermissions: 0o666], ofItemAtPath: "\(folder)/open.pem")
            let error = #expect(throws: ConfigurationError.self) { try profile.transport(environment: [:]) }
            let issue = error?.issues.first
            #expect(issue?.keyPath.hasPrefix("profiles.work.\(keyPath)") == true, "\(issue?.keyPath ?? "")")
            #expect(issue?.line == 1)
            #expect(issue?.column ?? 0 > 40)
            #expect(issue?.problem.contains(reason) == true, "\(issue?.problem ?? "")")
        }
    }
    #endif
}
