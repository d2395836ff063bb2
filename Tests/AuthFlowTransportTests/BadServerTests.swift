import AuthFlow
import Foundation
import HTTPTypes
import Testing

/// Servers that send invalid responses, byte for byte, over real sockets.
@Suite struct BadServerTests {
    private typealias Step = ScriptedServer.Step

    private static let response = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

    private func get(
        _ server: ScriptedServer,
        method: HTTPRequest.Method = .get,
        timeout: Duration = .seconds(20),
        maximumResponseSize: Int = 100_000
    ) async throws -> TransportResponse {
        try await SystemTransport().send(
            TransportRequest(
                method,
                Endpoint("\(server.origin)/?code=secret"),
                timeout: timeout,
                maximumResponseSize: maximumResponseSize
            )
        )
    }

    /// A transport with a separate connection pool, so that other tests do not evict its idle connections.
    private static func separateTransport() -> SystemTransport {
        var settings = NetworkSettings()
        settings.addresses = ["unused.example.com:443": "127.0.0.1"]
        return SystemTransport(settings)
    }

    private func post(_ server: ScriptedServer, _ transport: SystemTransport = SystemTransport()) async throws
        -> TransportResponse
    {
        try await transport.send(
            TransportRequest(.post, Endpoint("\(server.origin)/token"), body: Array("refresh_token=once".utf8))
        )
    }

    @Test func aTruncatedResponseFailsAndTheRequestIsNotRetried() async throws {
        for end in [[], [Step.reset]] {
            for count in 0..<Self.response.utf8.count {
                let step = Step.send(Array(Self.response.utf8.prefix(count)))
                try await ScriptedServer.run([.receive, step] + end) { server in
                    let error = await #expect(throws: AuthError.self, "after \(count) bytes") { try await get(server) }
                    #expect(
                        error.map { [.networkFailed, .invalidResponse].contains($0.code) } == true,
                        "\(count): \(error as Any)"
                    )
                    #expect(error?.description.contains("secret") == false)
                    #expect(
                        server.requests.flatMap(\.self).count == 1,
                        "a request was sent twice, after \(count) bytes"
                    )
                }
            }
        }
    }

    @Test(
        "the error states how the connection ended",
        arguments: [
            ([], "closed the connection without a response"), ([.reset], "was lost"),
            ([.send(Array(BadServerTests.response.utf8.dropLast()))], "is incomplete"),
            ([.send(Array(BadServerTests.response.utf8.prefix(40)))], "is incomplete"),
        ] as [([ScriptedServer.Step], String)]
    ) func theErrorStatesHowTheConnectionEnded(_ steps: [ScriptedServer.Step], _ words: String) async throws {
        try await ScriptedServer.run([.receive] + steps) { server in
            let error = await #expect(throws: AuthError.self) { try await get(server) }
            #expect(error?.code == .networkFailed)
            #expect(error?.message.contains(words) == true, "\(error as Any)")
            #expect(error?.message.contains("certificate") == false, "\(error as Any)")
        }
    }

    @Test(arguments: [
        #"Basic realm="id""#, "Basic", #"Digest realm="id", nonce="n", qop="auth""#, "Negotiate", "Negotiate YII=",
        "NTLM",
        #"Bearer realm="id", error="invalid_token""#, #"DPoP error="use_dpop_nonce", algs="ES256""#,
        "Bearer, Basic realm=x, Digest",
        "",
    ]) func anAuthenticationChallengeIsReturnedToTheCallerWithoutARetry(_ challenge: String) async throws {
        for status in [400, 401, 403, 407, 429, 500, 503] {
            let field = status == 407 ? "Proxy-Authenticate" : "WWW-Authenticate"
            let body = #"{"error":"invalid_client"}"#
            let response =
                "HTTP/1.1 \(status) No\r\n\(field): \(challenge)\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
            try await ScriptedServer.run([.receive, .send(response)]) { server in
                let response = try await get(server)
                #expect(response.status == status)
                #expect(String(decoding: response.body, as: UTF8.self) == body)
                #expect(server.requests.flatMap(\.self).count == 1)
            }
        }
    }

    /// RFC 9110 section 15.
    @Test(arguments: [600, 999]) func aResponseWithAnInvalidStatusCodeIsReturned(_ status: Int) async throws {
        try await ScriptedServer.run([.receive, .send("HTTP/1.1 \(status) Denied\r\nContent-Length: 0\r\n\r\n")]) {
            server in
            let response = try await get(server)
            #expect(response.status == status)
        }
    }

    /// An unusual or invalid response, and the expected result: an error, or a response with a body.
    struct Case: Sendable, CustomTestStringConvertible {
        let name: String
        let steps: [ScriptedServer.Step]
        var method = HTTPRequest.Method.get
        var code: AuthError.Code?
        var body = "{}"
        var testDescription: String { name }
    }

    static let cases: [Case] = [
        Case(
            name: "informational responses before the final response",
            steps: [.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n\(response)")]
        ),
        Case(
            name: "endless informational responses",
            steps: [.flood("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")],
            code: .invalidResponse
        ),
        Case(
            name: "a list of identical Content-Length values",
            steps: [.send("HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\n{}")]
        ),
        Case(
            name: "a Content-Length with a space",
            steps: [.send("HTTP/1.1 200 OK\r\nContent-Length: 1 2\r\n\r\n{}")],
            code: .invalidResponse
        ),
        Case(
            name: "a list of different Content-Length values",
            steps: [.send("HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\n{}")],
            code: .invalidResponse
        ),
        Case(
            name: "another protocol",
            steps: [.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"), .hold],
            code: .invalidResponse
        ),
        Case(
            name: "a Content-Length that is too large",
            steps: [.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}")],
            code: .networkFailed
        ),
        Case(
            name: "a Content-Length that is too small",
            steps: [.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n\r\n")]
        ),
        Case(
            name: "a Content-Length that is not a number",
            steps: [.send("HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n{}")],
            code: .invalidResponse
        ),
        Case(
            name: "a negative length",
            steps: [.send("HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}")],
            code: .invalidResponse
        ),
        Case(
            name: "a length beyond 64 bits",
            steps: [.send("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{}"), .hold],
            code: .invalidResponse
        ),
        Case(
            name: "two lengths",
            steps: [.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 1\r\n\r\n{}"), .hold],
            code: .invalidResponse
        ),
        Case(
            name: "a repeated Content-Length",
            steps: [.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}")]
        ),
        Case(
            name: "a Content-Length together with chunked encoding",
            steps: [
                .send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
            ],
            code: .invalidResponse
        ),
        Case(
            name: "chunks",
            steps: [
                .send(
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;a=b\r\n{\r\n1\r\n}\r\n0\r\nX: trailer\r\n\r\n"
                )
            ]
        ),
        Case(
            name: "chunks that end early",
            steps: [.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}")],
            code: .networkFailed
        ),
        Case(
            name: "a chunk without a size",
            steps: [.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n{}"), .hold],
            code: .networkFailed
        ),
        Case(
            name: "endless header fields",
            steps: [.send("HTTP/1.1 200 OK\r\n"), .flood("X-Field: 0123456789\r\n")],
            code: .invalidResponse
        ),
        Case(
            name: "an endless header field",
            steps: [.send("HTTP/1.1 200 OK\r\nX-Field: "), .flood("0123456789")],
            code: .invalidResponse
        ),
        Case(
            name: "an endless body",
            steps: [.send("HTTP/1.1 200 OK\r\n\r\n"), .flood("0123456789")],
            code: .invalidResponse
        ),
        Case(name: "no header", steps: [.send("{}")], code: .invalidResponse),
        Case(
            name: "a response that is not HTTP",
            steps: [.send("SSH-2.0-OpenSSH_9.2\r\n"), .hold],
            code: .invalidResponse
        ),
        Case(
            name: "a folded field",
            steps: [.send("HTTP/1.1 200 OK\r\nX-Folded: one\r\n  two\r\nContent-Length: 2\r\n\r\n{}")]
        ),
        Case(
            name: "a folded first field",
            steps: [.send("HTTP/1.1 200 OK\r\n one: two\r\n\r\n{}")],
            code: .invalidResponse
        ),
        Case(
            name: "NUL in a field",
            steps: [.send("HTTP/1.1 200 OK\r\nX-Field: a\0b\r\nContent-Length: 2\r\n\r\n{}")],
            code: .invalidResponse
        ),
        Case(
            name: "an escape character in a field",
            steps: [.send("HTTP/1.1 200 OK\r\nX-Field: a\u{1B}b\r\nContent-Length: 2\r\n\r\n{}")],
            code: .invalidResponse
        ),
        Case(
            name: "a space before the colon",
            steps: [.send("HTTP/1.1 200 OK\r\nX-Field : a\r\nContent-Length: 2\r\n\r\n{}")],
            code: .invalidResponse
        ),
        Case(
            name: "a line without a colon",
            steps: [.send("HTTP/1.1 200 OK\r\nX-Field\r\nContent-Length: 2\r\n\r\n{}")],
            code: .invalidResponse
        ),
        Case(name: "a body after HEAD", steps: [.send(response)], method: .head, body: ""),
        Case(
            name: "a large Content-Length in a response to HEAD",
            steps: [.send("HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n")],
            method: .head,
            body: ""
        ),
        Case(
            name: "a four-digit status",
            steps: [.send("HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\n{}")],
            code: .invalidResponse
        ),
        Case(
            name: "gzip",
            steps: [.send("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"), .send(Compressed.small)],
            body: #"{"a":1}"#
        ),
        Case(
            name: "a gzip bomb",
            steps: [.send("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"), .send(Compressed.gzipBomb), .hold],
            code: .invalidResponse
        ),
        Case(
            name: "a deflate bomb",
            steps: [
                .send("HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\n\r\n"), .send(Compressed.deflateBomb), .hold,
            ],
            code: .invalidResponse
        ),
        Case(
            name: "plain text labeled as gzip",
            steps: [.send("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nplain")],
            code: .invalidResponse
        ),
        Case(
            name: "more than 200 layers of gzip",
            steps: [
                .send("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\(String(repeating: ", gzip", count: 200))\r\n\r\n"),
                .send(Compressed.small),
            ],
            code: .invalidResponse
        ),
        Case(name: "a drip", steps: [.send("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"), .hold], code: .timedOut),
        Case(
            name: "endless chunk extensions",
            steps: [.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;"), .hold],
            code: .timedOut
        ),
    ]

    @Test(arguments: cases) func rejectsMalformedResponsesAndToleratesHarmlessDeviations(_ example: Case) async throws {
        try await ScriptedServer.run([.receive] + example.steps) { server in
            // The server receives the request before the timeout, even on a slow machine.
            let timeout = Duration.seconds(example.code == .timedOut ? 2 : 20)
            guard let code = example.code else {
                let response = try await get(server, method: example.method, timeout: timeout)
                #expect(response.status == 200)
                #expect(String(decoding: response.body, as: UTF8.self) == example.body)
                return
            }
            let error = await #expect(throws: AuthError.self) {
                try await get(server, method: example.method, timeout: timeout)
            }
            #expect(error?.code == code, "\(error as Any)")
            #expect(error?.description.contains("secret") == false)
            #expect(server.requests.flatMap(\.self).count == 1)
        }
    }

    /// A decoder would not report a truncated body.
    @Test(arguments: ["identity", "gzip"]) func theBodyIsNotDecodedForACallerThatSendsAcceptEncoding(_ accepted: String)
        async throws
    {
        try await ScriptedServer.run([
            .receive, .send("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd"),
        ]) { server in
            let request = TransportRequest(.get, try Endpoint(server.origin), headerFields: [.acceptEncoding: accepted])
            #expect(try await SystemTransport().send(request).body == Array("abcd".utf8))
        }
    }

    @Test func aFoldedFieldIsJoinedWithASpace() async throws {
        let response = try await ScriptedServer.run(
            [.receive, .send("HTTP/1.1 200 OK\r\nX-Folded: one\r\n\t two\r\nContent-Length: 0\r\n\r\n")]
        ) { try await get($0) }
        #expect(response.head.headerFields[HTTPField.Name("X-Folded")!] == "one two")
    }

    @Test func trailersAreNotHeaderFields() async throws {
        let response = try await ScriptedServer.run(
            [
                .receive,
                .send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Type: text/html\r\n\r\n"),
            ]
        ) { try await get($0) }
        #expect(response.head.headerFields[.contentType] == nil)
    }

    /// An authorization code or a refresh token can be used only once, and the server may have processed a request to
    /// which it did not respond.
    @Test(arguments: [[ScriptedServer.Step.reset], []]) func anUnsafeRequestIsNotRetriedWhenItsConnectionIsLost(
        _ end: [ScriptedServer.Step]
    ) async throws {
        for method in [HTTPRequest.Method.post, .put, .delete] {
            try await ScriptedServer.run(
                [.receive, .send(Self.response), .receive] + end,
                [.receive, .send(Self.response)]
            ) {
                server in
                let transport = Self.separateTransport()
                _ = try await post(server, transport)
                let call = try TransportRequest(
                    method,
                    Endpoint("\(server.origin)/token"),
                    body: method == .delete ? [] : Array("refresh_token=once".utf8)
                )
                let error = await #expect(throws: AuthError.self) { try await transport.send(call) }
                #expect(error?.code == .networkFailed)
                // libcurl opens a new connection before the transport can prevent it from sending the request again.
                #expect(server.requests.map(\.count).filter { $0 > 0 } == [2], "\(method): \(server.requests)")
                if method == .post { #expect(server.requests.first?.last?.hasSuffix("refresh_token=once") == true) }
            }
        }
    }

    /// RFC 9110 section 9.2.2: a client may automatically retry an idempotent request, such as GET.
    @Test(arguments: [[ScriptedServer.Step.reset], []]) func aSafeRequestIsRetriedWhenItsConnectionIsLost(
        _ end: [ScriptedServer.Step]
    ) async throws {
        try await ScriptedServer.run(
            [.receive, .send(Self.response), .receive] + end,
            [.receive, .send(Self.response)]
        ) { server in
            let transport = Self.separateTransport()
            _ = try await post(server, transport)
            let call = try TransportRequest(.get, Endpoint("\(server.origin)/jwks"))
            #expect(try await transport.send(call).status == 200)
            #expect(server.requests.map(\.count) == [2, 1])
        }
    }

    @Test func anIdleConnectionThatTheServerClosedIsReplaced() async throws {
        try await ScriptedServer.run([.receive, .send(Self.response)], [.receive, .send(Self.response)]) { server in
            for _ in 0..<2 {
                let response = try await post(server)
                #expect(response.status == 200)
                // Otherwise, the next request might use a connection that is being closed.
                await server.allClosed()
            }
            #expect(server.requests.allSatisfy { $0.count == 1 && $0[0].hasSuffix("refresh_token=once") })
        }
    }

    @Test func aSilentServerTimesOut() async throws {
        var settings = NetworkSettings()
        settings.firstByteTimeout = .milliseconds(100)
        let transport = SystemTransport(settings)
        try await ScriptedServer.run([.receive, .hold]) { server in
            let error = await #expect(throws: AuthError.self) {
                try await transport.send(TransportRequest(.get, Endpoint(server.origin), timeout: .seconds(60)))
            }
            #expect(error?.code == .timedOut)
        }
    }

    /// Only the request timeout applies to protected resources; the first-byte timeout is for authorization servers.
    @Test func onlyTheRequestTimeoutAppliesToAProtectedResource() async throws {
        var settings = NetworkSettings()
        settings.firstByteTimeout = .milliseconds(1)
        let transport = SystemTransport(settings)
        try await ScriptedServer.run([.receive, .hold]) { server in
            var slow = try TransportRequest(.get, Endpoint(server.origin), timeout: .milliseconds(300))
            slow.pool = .resources
            let request = slow
            let error = await #expect(throws: AuthError.self) { try await transport.send(request) }
            #expect(error?.message.contains("within 300 milliseconds") == true, "\(error?.message ?? "")")
        }
    }

    @Test func aThousandConcurrentRequestsAllGetAResponse() async throws {
        try await ScriptedServer.run(
            Array(repeating: [Step.receive, .send(Self.response)], count: 100).flatMap(\.self)
        ) {
            server in
            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<1000 { group.addTask { try await get(server, timeout: .seconds(60)).status } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(statuses == Array(repeating: 200, count: 1000))
            #expect(server.requests.count < 150, "\(server.requests.count) connections")
        }
    }

    @Test func theTransportAddsNoUnrequestedHeaderFields() async throws {
        try await ScriptedServer.run([.receive, .send(Self.response)]) { server in
            _ = try await post(server)
            let request = try #require(server.requests.first?.first)
            let lines = request.split(separator: "\r\n").map(String.init)
            #expect(lines.first == "POST /token HTTP/1.1")
            for unwanted in ["Expect", "Content-Type", "Cookie", "Authorization", "Proxy"] {
                #expect(!lines.contains { $0.hasPrefix(unwanted) }, "\(unwanted) is sent")
            }
            #expect(lines.contains("Content-Length: 18"))
        }
    }

    @Test func noProxyIsUsedForLoopbackAddresses() async throws {
        let dead = try NetworkSettings.ProxyServer(url: "http://127.0.0.1:9")
        for proxy in [
            NetworkSettings.Proxy.server(dead),
            .environment(["http_proxy": "http://127.0.0.1:9", "all_proxy": "http://127.0.0.1:9"]),
        ] {
            var settings = NetworkSettings()
            settings.proxy = proxy
            let transport = SystemTransport(settings)
            let response = try await ScriptedServer.run([.receive, .send(Self.response)]) { server in
                try await transport.send(TransportRequest(.get, Endpoint(server.origin)))
            }
            #expect(response.status == 200)
        }
    }
}

/// Compressed bodies: 200,000 zero bytes compressed to a few hundred bytes, and `{"a":1}`.
private enum Compressed {
    static let gzipBomb = bytes(
        "H4sIAAAAAAACA+3BMQEAAADCoPVPbQZ/o" + String(repeating: "A", count: 257) + "CA1wB7WOBcQA0DAA=="
    )
    static let deflateBomb = bytes("eNrtwTEBAAAAwqD1T20Gf6" + String(repeating: "A", count: 258) + "gNcADW0AAQ==")
    static let small = bytes("H4sIAAAAAAACA6tWSlSyMqwFAK+sG1YHAAAA")

    private static func bytes(_ text: String) -> [UInt8] { Array(Data(base64Encoded: text) ?? Data()) }
}
