import AuthFlow
import AuthFlowLoopback
import Dispatch
import Expectations
import HTTPTypes
import Synchronization
import Testing

@testable import AuthFlowTransport

/// The transport over real sockets, and the actions that it must not take automatically.
@Suite struct SystemTransportTests {
    private func response(_ status: Int, _ fields: HTTPFields = [:], body: [UInt8] = []) -> TransportResponse {
        TransportResponse(head: HTTPResponse(status: .init(code: status), headerFields: fields), body: body)
    }

    private func serve<Return: Sendable>(
        _ handler: @escaping LoopbackServer.Handler,
        _ body: (String) async throws -> Return
    ) async throws -> Return {
        try await LoopbackServer.run(host: "127.0.0.1", port: nil) { _ in
            handler
        } _: { port in
            try await body("http://127.0.0.1:\(port)")
        }
    }

    @Test func sendsARequestAndReturnsTheResponse() async throws {
        let response = try await serve { request, body in
            let seen =
                "\(request.method) \(request.path ?? "") \(request.headerFields[.accept] ?? "") \(String(decoding: body, as: UTF8.self))"
            return TransportResponse(head: HTTPResponse(status: .created), body: Array(seen.utf8))
        } _: { origin in
            try await SystemTransport().send(
                TransportRequest(
                    .post,
                    Endpoint("\(origin)/a?b=c%20d"),
                    headerFields: [.accept: "x/y"],
                    body: Array("hello".utf8)
                )
            )
        }
        #expect(response.status == 201)
        #expect(String(decoding: response.body, as: UTF8.self) == "POST /a?b=c%20d x/y hello")
    }

    @Test(.enabled(if: (try? LoopbackPort.probe(host: "[::1]")) != nil, "This machine has no IPv6."))
    func connectsToAnIPv6Address() async throws {
        let response = try await LoopbackServer.run(host: "[::1]", port: nil) { _ in
            { _, _ in self.response(204) }
        } _: { port in
            try await SystemTransport().send(TransportRequest(.get, Endpoint("http://[::1]:\(port)/")))
        }
        #expect(response.status == 204)
    }

    @Test(arguments: [301, 302, 303, 307, 308]) func doesNotFollowRedirects(_ status: Int) async throws {
        let response = try await serve { request, _ in
            request.path == "/" ? self.response(status, [.location: "/elsewhere"]) : self.response(200)
        } _: { origin in
            try await SystemTransport().send(TransportRequest(.get, Endpoint("\(origin)/")))
        }
        #expect(response.status == status)
        #expect(response.head.headerFields[.location] == "/elsewhere")
    }

    @Test func sendsTheProductNameUnlessTheRequestHasAUserAgent() async throws {
        var settings = NetworkSettings()
        settings.productName = "com.example.app/1.2 (admin@example.com)"
        let transport = SystemTransport(settings)
        try await serve { request, _ in
            self.response(200, body: Array((request.headerFields[.userAgent] ?? "").utf8))
        } _: { origin in
            let endpoint = try Endpoint("\(origin)/")
            let answers = [
                try await SystemTransport().send(TransportRequest(.get, endpoint)),
                try await transport.send(TransportRequest(.get, endpoint)),
                try await transport.send(TransportRequest(.get, endpoint, headerFields: [.userAgent: "own"])),
            ].map { String(decoding: $0.body, as: UTF8.self) }
            #expect(answers == ["AuthFlow", settings.productName, "own"])
        }
    }

    @Test func doesNotStoreCookies() async throws {
        let second = try await serve { request, _ in
            self.response(200, [.setCookie: "a=1; Path=/"], body: Array((request.headerFields[.cookie] ?? "none").utf8))
        } _: { origin in
            let transport = SystemTransport()
            _ = try await transport.send(TransportRequest(.get, Endpoint("\(origin)/")))
            return try await transport.send(TransportRequest(.get, Endpoint("\(origin)/")))
        }
        #expect(String(decoding: second.body, as: UTF8.self) == "none")
    }

    @Test func sendsSeveralCookiesInOneField() async throws {
        let cookies = "session=a*b.c; theme=dark; x=1"
        let sent = try await serve { request, _ in
            self.response(200, body: Array((request.headerFields[.cookie] ?? "").utf8))
        } _: { origin in
            try await SystemTransport().send(
                TransportRequest(.get, Endpoint("\(origin)/"), headerFields: [.cookie: cookies])
            )
        }
        #expect(String(decoding: sent.body, as: UTF8.self) == cookies)
    }

    @Test func separatesSeveralSetCookieFields() async throws {
        let cookies = ["a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT; Path=/", "b=2; Path=/", "c=x,y"]
        let response = try await serve { _, _ in
            var fields = HTTPFields()
            for cookie in cookies { fields.append(HTTPField(name: .setCookie, value: cookie)) }
            return self.response(200, fields)
        } _: { origin in
            try await SystemTransport().send(TransportRequest(.get, Endpoint("\(origin)/")))
        }
        #expect(Set(response.head.headerFields[fields: .setCookie].map(\.value)) == Set(cookies))
    }

    @Test func rejectsAResponseBodyThatExceedsTheMaximumSize() async throws {
        let error = try await #require(throws: AuthError.self) {
            try await serve { _, _ in
                self.response(200, body: [UInt8](repeating: 65, count: 100_000))
            } _: { origin in
                try await SystemTransport().send(
                    TransportRequest(.get, Endpoint("\(origin)/"), maximumResponseSize: 50_000)
                )
            }
        }
        #expect(error.code == .invalidResponse)
    }

    @Test func reportsARefusedConnectionWithoutQueryParameters() async throws {
        let port = try await serve { _, _ in
            self.response(200)
        } _: {
            $0
        }
        let error = try await #require(throws: AuthError.self) {
            try await SystemTransport().send(TransportRequest(.get, Endpoint("\(port)/?secret=1")))
        }
        #expect(error.code == .networkFailed)
        #expect(!error.description.contains("secret"))
    }

    @Test func stopsWhenItsTaskIsCancelled() async throws {
        let (arrivals, arrived) = AsyncStream<Void>.makeStream()
        await #expect(throws: CancellationError.self) {
            try await serve { _, _ in
                arrived.yield()
                // The handler responds only when the server stops.
                try? await Task.never()
                return self.response(200)
            } _: { origin in
                let task = Task { try await SystemTransport().send(TransportRequest(.get, Endpoint("\(origin)/"))) }
                for await _ in arrivals { break }
                task.cancel()
                return try await task.value
            }
        }
    }

    /// Many concurrent requests, so that the cancellation and the start of a request occur in every order.
    @Test func sendsNothingWhenItsTaskIsAlreadyCancelled() async throws {
        let origin = try await serve { _, _ in
            self.response(200)
        } _: {
            $0
        }
        for _ in 0..<50 {
            await withThrowingTaskGroup(of: TransportResponse.self) { group in
                for _ in 0..<8 {
                    group.addTask {
                        unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
                        return try await SystemTransport().send(TransportRequest(.get, Endpoint("\(origin)/")))
                    }
                }
                while let result = await group.nextResult() {
                    #expect(throws: CancellationError.self) { try result.get() }
                }
            }
        }
    }
}

#if os(Linux)
/// Requests to one server, with a limit on the number in progress.
@Suite(.timeLimit(.minutes(1))) struct ConnectionLimitTests {
    private static let response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

    private func transport(_ connections: Int) -> CurlTransport {
        var settings = NetworkSettings()
        settings.connectionsPerHost = connections
        return CurlTransport(settings)
    }

    private func request(_ server: ScriptedServer, _ timeout: Duration = .seconds(30)) throws -> TransportRequest {
        TransportRequest(.post, try Endpoint("\(server.origin)/token"), body: [1], timeout: timeout)
    }

    @Test func aRequestIsNotSentIfNoConnectionBecomesAvailableInTime() async throws {
        let transport = transport(2)
        try await ScriptedServer.run([.receive, .hold]) { server in
            let held = try (0..<2).map { _ in try request(server) }.map { call in
                Task { try await transport.send(call) }
            }
            await server.untilReceived(2)
            let error = await #expect(throws: AuthError.self) {
                try await transport.send(try request(server, .milliseconds(50)))
            }
            #expect(error?.code == .timedOut)
            #expect(error?.message.contains("not sent") == true)
            #expect(server.requests.flatMap(\.self).count == 2)
            for task in held { task.cancel() }
            for task in held { _ = await task.result }
        }
    }

    @Test func apiRequestsAndTokenRequestsUseSeparateConnectionPools() async throws {
        let transport = transport(1)
        try await ScriptedServer.run([.receive, .hold], [.receive, .send(Self.response)]) { server in
            var call = try request(server)
            call.pool = .resources
            let held = Task { [call] in try await transport.send(call) }
            await server.untilReceived(1)
            #expect(try await transport.send(try request(server)).status == 200)
            held.cancel()
            _ = await held.result
        }
    }

    @Test func aQueuedRequestIsSentAsSoonAsAConnectionIsFree() async throws {
        let transport = transport(1)
        try await ScriptedServer.run([.receive, .hold], [.receive, .send(Self.response)]) { server in
            let call = try request(server)
            let held = Task { try await transport.send(call) }
            await server.untilReceived(1)
            let waiting = Task { try await transport.send(call) }
            let cancelled = Task { try await transport.send(call) }
            cancelled.cancel()
            await #expect(throws: CancellationError.self) { try await cancelled.value }
            held.cancel()
            #expect(try await waiting.value.status == 200)
            #expect(server.requests.flatMap(\.self).count == 2)
        }
    }

    /// No caller would receive the tokens in the response.
    @Test func aRequestThatIsCancelledWhileItIsBeingStartedIsNotSent() async throws {
        try await ScriptedServer.run([.receive, .send(Self.response), .receive, .send(Self.response)]) { server in
            var settings = NetworkSettings()
            settings.connectionsPerHost = 1
            let loop = CurlLoop()
            let cancelled = CurlTransfer(try request(server), settings: settings, proxy: nil)
            let next = CurlTransfer(try request(server), settings: settings, proxy: nil)
            cancelled.result.finish(.failure(CancellationError()))
            loop.begin(cancelled)
            #expect(try await next.result.value(begin: { loop.begin(next) }).status == 200)
            #expect(server.requests.flatMap(\.self).count == 1)
        }
    }

    /// The waiting request's own deadline is later than the deadline for the first byte of its response.
    @Test func theFirstByteTimeoutAppliesToARequestThatHasWaitedForAConnection() async throws {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
        try await ScriptedServer.run([.receive, .send(head), .hold], [.receive, .hold]) { server in
            var settings = NetworkSettings()
            (settings.connectionsPerHost, settings.firstByteTimeout) = (1, .milliseconds(100))
            let loop = CurlLoop()
            let held = CurlTransfer(try request(server), settings: settings, proxy: nil)
            let holder = Task {
                try await held.result.value(begin: { loop.begin(held) }, onCancel: { loop.cancel(held) })
            }
            await server.untilReceived(1)
            let waiting = CurlTransfer(try request(server), settings: settings, proxy: nil)
            loop.begin(waiting)
            // The loop checks the deadlines of all transfers when this transfer times out.
            var call = try request(server, .milliseconds(200))
            call.pool = .resources
            let other = CurlTransfer(call, settings: settings, proxy: nil)
            await #expect(throws: AuthError.self) { try await other.result.value(begin: { loop.begin(other) }) }
            holder.cancel()
            let error = await #expect(throws: AuthError.self) { try await waiting.result.value(begin: {}) }
            #expect(error?.message.contains("within 100 milliseconds") == true, "\(error?.message ?? "")")
            #expect(waiting.added.duration(to: .now) < .seconds(30))
            _ = await holder.result
        }
    }

    /// The process or the system can be suspended while a response arrives.
    @Test func aResponseThatHasArrivedIsReturnedAlthoughItsTimeoutHasExpired() async throws {
        let (stalled, responded) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let isInTime = Mutex(false)
        try await ScriptedServer.run(
            [.receive, .perform { stalled.wait() }, .send(Self.response), .perform { responded.signal() }, .hold],
            [.receive, .send(Self.response)]
        ) { server in
            let loop = CurlLoop()
            let late = CurlTransfer(try request(server, .seconds(1)), settings: NetworkSettings(), proxy: nil)
            let timeout = late.added + .seconds(1)
            async let first = late.result.value(begin: { loop.begin(late) })
            await server.untilReceived(1)
            var call = try request(server)
            // Stalls the loop's thread until the first response has arrived and its timeout has expired.
            call.addCheckBeforeSending { () throws(AuthError) in
                isInTime.withLock { $0 = ContinuousClock.now < timeout }
                stalled.signal()
                responded.wait()
                while ContinuousClock.now <= timeout { _ = DispatchSemaphore(value: 0).wait(timeout: .now() + 0.01) }
            }
            let other = CurlTransfer(call, settings: NetworkSettings(), proxy: nil)
            #expect(try await other.result.value(begin: { loop.begin(other) }).status == 200)
            let status = try? await first.status
            // On a machine that is so slow that the timeout expires before the response is sent, nothing is tested.
            if isInTime.withLock({ $0 }) { #expect(status == 200) }
        }
    }

    @Test func aFailedCheckBeforeSendingPreventsTheRequest() async throws {
        try await ScriptedServer.run([.receive, .send(Self.response)]) { server in
            var call = try request(server)
            call.addCheckBeforeSending { () throws(AuthError) in throw Lease.lost }
            let checked = call
            let error = await #expect(throws: AuthError.self) { try await CurlTransport().send(checked) }
            #expect(error?.code == .leaseLost)
            #expect(server.requests.flatMap(\.self).isEmpty)
        }
    }
}

/// Requests that must not reach addresses on this machine or in a private network.
@Suite(.timeLimit(.minutes(1))) struct AllowedAddressTests {
    private static let response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

    private func limited(_ url: String) throws -> TransportRequest {
        var request = TransportRequest(.get, try Endpoint(url))
        request.allowedReach = .anywhere
        return request
    }

    @Test func noConnectionIsOpenedOutsideTheAllowedReach() async throws {
        try await ScriptedServer.run([.receive, .send(Self.response), .hold]) { server in
            let error = await #expect(throws: AuthError.self) {
                try await CurlTransport().send(try limited(server.origin))
            }
            #expect(error?.code == .networkFailed)
            #expect(error?.message.contains("resolves to a loopback") == true, "\(error as Any)")
            // The server accepts connections in the order in which they were opened.
            _ = try await CurlTransport().send(TransportRequest(.get, Endpoint(server.origin)))
            #expect(server.requests.map(\.count) == [1])
        }
    }

    @Test func doesNotReuseAConnectionOutsideTheAllowedReach() async throws {
        // With these settings, the transport does not share connections with other tests, which could close them.
        var settings = NetworkSettings()
        settings.addresses = ["unused.example.com:443": "127.0.0.1"]
        let transport = CurlTransport(settings)
        let answer = [ScriptedServer.Step.receive, .send(Self.response)]
        try await ScriptedServer.run(answer + answer) { server in
            let first = try await transport.send(TransportRequest(.get, Endpoint(server.origin)))
            #expect(first.reach == .loopback)
            let error = await #expect(throws: AuthError.self) { try await transport.send(try limited(server.origin)) }
            #expect(error?.code == .networkFailed)
            #expect(error?.message.contains("resolves to a loopback") == true, "\(error as Any)")
            #expect(server.requests.map(\.count) == [1])
        }
    }

    /// A proxy is often in a private network, and it resolves the names of servers itself.
    @Test func theAllowedReachDoesNotApplyToTheAddressOfAProxy() async throws {
        let refusal = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
        try await ScriptedServer.run([.receive, .send(refusal)]) { proxy in
            var settings = NetworkSettings()
            settings.proxy = .server(try NetworkSettings.ProxyServer(url: proxy.origin))
            let transport = CurlTransport(settings)
            let error = await #expect(throws: AuthError.self) {
                try await transport.send(try limited("https://id.example.com/"))
            }
            #expect(error?.code == .networkFailed)
            #expect(error?.message.contains("refused to connect to id.example.com (status 403)") == true)
            #expect(proxy.requests.first?.first?.hasPrefix("CONNECT id.example.com:443 HTTP/1.1\r\n") == true)
        }
    }

    struct FailedProxy: CustomTestStringConvertible {
        let name: String
        var scheme = "http"
        let script: [ScriptedServer.Step]
        let message: String
        var testDescription: String { name }
    }

    static let failedProxies = [
        FailedProxy(name: "closes the connection", script: [], message: "Is it an HTTP proxy?"),
        FailedProxy(name: "does not respond to CONNECT", script: [.receive], message: "Is it an HTTP proxy?"),
        FailedProxy(
            name: "does not respond with HTTP",
            script: [.receive, .send("garbage\r\n\r\n")],
            message: "Is it an HTTP proxy?"
        ),
        FailedProxy(
            name: "closes the connection within the header section of its response",
            script: [.receive, .send("HTTP/1.1 200 OK\r\nServer: x\r\n")],
            message: "Is it an HTTP proxy?"
        ),
        FailedProxy(
            name: "uses plain HTTP instead of TLS",
            scheme: "https",
            script: [.receiveBytes(1), .send("HTTP/1.1 400 Bad Request\r\n\r\n")],
            message: "or does it use plain HTTP (http://)?"
        ),
        FailedProxy(
            name: "rejects the SOCKS authentication methods",
            scheme: "socks5h",
            script: [.receiveBytes(3), .send([5, 0xFF])],
            message: "Is it a SOCKS proxy"
        ),
    ]

    @Test("A failure of the proxy is not attributed to the server", arguments: failedProxies)
    func attributesTheFailureOfAProxy(_ proxy: FailedProxy) async throws {
        try await ScriptedServer.run(proxy.script) { server in
            let place = "127.0.0.1:\(server.port)"
            var settings = NetworkSettings()
            settings.proxy = .server(try NetworkSettings.ProxyServer(url: "\(proxy.scheme)://\(place)"))
            let transport = CurlTransport(settings)
            let error = await #expect(throws: AuthError.self) {
                try await transport.send(try limited("https://id.example.com/"))
            }
            #expect(error?.code == .networkFailed)
            #expect(error?.message.contains("he proxy \(place) ") == true, "\(error as Any)")
            #expect(error?.message.contains(proxy.message) == true, "\(error as Any)")
            #expect(error?.message.contains("certificate") == false, "\(error as Any)")
        }
    }

    @Test func nothingIsSentWhenLibcurlRejectsASetting() async throws {
        var settings = NetworkSettings()
        // libcurl rejects strings of more than 8,000,000 bytes.
        settings.certificateAuthorities = String(repeating: "a", count: 8_000_001)
        let transport = CurlTransport(settings)
        try await ScriptedServer.run([.receive, .send(Self.response)]) { server in
            let error = await #expect(throws: AuthError.self) {
                try await transport.send(TransportRequest(.get, Endpoint(server.origin)))
            }
            #expect(error?.code == .networkFailed)
            #expect(error?.message.contains("libcurl rejects a setting") == true, "\(error as Any)")
            #expect(server.requests.isEmpty)
        }
    }
}
#endif
