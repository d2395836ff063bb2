#if os(Linux)
import AuthFlow
import Foundation
import HTTPTypes
import Testing

/// The directory with certificates and ports; nil without servers.
private let work = ProcessInfo.processInfo.environment["AUTHFLOW_SERVERS"]

/// nginx with certificates of every kind, and tinyproxy, started by `servers.sh`.
@Suite(.serialized, .enabled(if: work != nil, "Run through Tests/Interop/servers.sh.")) struct ServersTests {
    private let folder: String
    private let ports: [String: Int]

    init() throws {
        folder = try #require(work)
        ports = try String(contentsOfFile: "\(folder)/ports", encoding: .utf8).split(separator: "\n").reduce(into: [:])
        {
            let words = $1.split(separator: " ")
            $0[String(words[0])] = Int(words[1])
        }
    }

    private func port(_ name: String) throws -> Int { try #require(ports[name]) }

    private func settings(trusting: Bool = true, proxy: String? = nil, password: String? = nil) throws
        -> NetworkSettings
    {
        var settings = NetworkSettings()
        for port in ports.values { settings.addresses["id.example.com:\(port)"] = "127.0.0.1" }
        if trusting { settings.certificateAuthorities = "\(folder)/authority.pem" }
        if let proxy {
            settings.proxy = .server(
                try .init(
                    url: "http://127.0.0.1:\(port(proxy))",
                    username: password.map { _ in "alice" },
                    password: password.map { Secret($0) }
                )
            )
        }
        return settings
    }

    private func get(
        _ server: String,
        _ settings: NetworkSettings,
        method: HTTPRequest.Method = .get
    ) async throws -> String {
        let call = try TransportRequest(method, Endpoint("https://id.example.com:\(port(server))/?code=secret"))
        let response = try await CurlTransport(settings).send(call)
        #expect(response.status == 200)
        return String(decoding: response.body, as: UTF8.self)
    }

    @Test func trustsAPrivateCertificateAuthorityOnlyIfConfigured() async throws {
        #expect(try await get("good", settings()).hasPrefix("HTTP/2.0"))
        let error = await #expect(throws: AuthError.self) { try await get("good", settings(trusting: false)) }
        #expect(error?.message.contains("not among the authorities") == true, "\(error as Any)")
    }

    @Test(arguments: [
        ("expired", "it has expired"), ("other-name", "it is for a different name"), ("self-signed", "self-signed"),
        ("sha1", "too weak"), ("small-key", "too weak"),
        ("no-names", "no subjectAltName"), ("mail-only", "no subjectAltName"),
    ]) func rejectsAnInvalidServerCertificateAndReportsTheReason(_ server: String, _ reason: String) async throws {
        let error = await #expect(throws: AuthError.self) { try await get(server, settings()) }
        #expect(error?.code == .networkFailed)
        #expect(error?.message.contains(reason) == true, "\(error as Any)")
        #expect(error?.description.contains("secret") == false)
    }

    /// nginx ends each connection with GOAWAY after three requests; no request is lost.
    @Test func concurrentRequestsSucceedWhenTheServerSendsGOAWAY() async throws {
        let settings = try settings()
        let responses = try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 0..<60 { group.addTask { try await get("good", settings) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(responses.count == 60)
        #expect(responses.allSatisfy { $0.hasPrefix("HTTP/2.0") })
    }

    /// Requests that must not be sent twice use HTTP/1.1, which has no GOAWAY.
    @Test func concurrentPOSTRequestsSucceedWhenTheServerClosesConnections() async throws {
        let settings = try settings()
        let responses = try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 0..<60 { group.addTask { try await get("good", settings, method: .post) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(responses.count == 60)
    }

    @Test func aConnectionCutWithoutCloseNotifyIsAnError() async throws {
        let error = await #expect(throws: AuthError.self) { try await get("cut", settings()) }
        #expect(error?.code == .networkFailed)
    }

    @Test func sendsTheClientCertificateWhenTheServerRequestsIt() async throws {
        var settings = try settings()
        for (file, key) in [("client.pem", "client.key"), ("client-both.pem", "client-both.pem")] {
            settings.clientCertificate = .init(file: "\(folder)/\(file)", keyFile: "\(folder)/\(key)")
            #expect(try await get("client", settings).contains("CN=alice"))
        }
        settings.clientCertificate = .init(file: "\(folder)/client-again.pem", keyFile: "\(folder)/good.key")
        let wrong = await #expect(throws: AuthError.self) { try await get("client", settings) }
        #expect(wrong?.message.contains("client certificate") == true, "\(wrong as Any)")
        // This key is encrypted. The tool must not prompt for its passphrase at the terminal.
        settings.clientCertificate = .init(
            file: "\(folder)/client-once-more.pem",
            keyFile: "\(folder)/client-locked.key"
        )
        await #expect(throws: AuthError.self) { try await get("client", settings) }
    }

    @Test func connectsThroughAProxy() async throws {
        #expect(try await get("good", settings(proxy: "plain-proxy")).hasPrefix("HTTP/2.0"))
        #expect(try await get("good", settings(proxy: "password-proxy", password: "wonderland")).hasPrefix("HTTP/2.0"))
    }

    @Test(
        arguments: [
            ("password-proxy", nil, "requires a user name and a password"),
            ("password-proxy", "wrong", "requires a user name and a password"),
            ("refusing-proxy", nil, "refused to connect"), ("dead", nil, "Could not connect to the proxy"),
        ] as [(String, String?, String)]
    ) func reportsWhyAProxyConnectionFails(
        _ proxy: String,
        _ password: String?,
        _ reason: String
    ) async throws {
        let error = await #expect(throws: AuthError.self) {
            try await get("good", settings(proxy: proxy, password: password))
        }
        #expect(error?.code == .networkFailed)
        #expect(error?.message.contains(reason) == true, "\(error as Any)")
        #expect(error?.message.contains("wrong") == false)
    }
}
#endif
