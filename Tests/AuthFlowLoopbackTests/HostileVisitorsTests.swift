import AuthFlow
import AuthFlowLoopback
import Foundation
import Synchronization
import Testing

/// Requests that a hostile page in the user's browser, or a hostile local process, can send to the loopback port:
/// none of them can end, hijack or observe the sign-in, and the genuine authorization response still arrives.
@Suite struct HostileVisitorsTests {
    /// Waits for an authorization response on a port, runs `knock`, and then sends the genuine response.
    private func survives(
        _ redirectURI: String = "http://127.0.0.1/callback",
        _ mode: ResponseMode = .query,
        _ knock: @escaping @Sendable (_ port: Int) async throws -> Void
    ) async throws {
        let options = RedirectOptions(
            redirectURIs: [try RedirectURI(redirectURI)],
            state: Secret("the-right-state"),
            responseMode: mode,
            reporter: FlowReporter(),
            clock: ContinuousClock()
        )
        let knocked = Mutex<Result<Void, any Error>?>(nil)
        let response = try await LoopbackUserAgent(launcher: nil).withRedirectSession(options) { session in
            let port = try #require(try Endpoint(session.redirectURI).port)
            async let response = session.visit("https://id.example.com/authorize")
            do {
                try await knock(port)
                knocked.withLock { $0 = .success(()) }
            } catch {
                knocked.withLock { $0 = .failure(error) }
            }
            let call = "GET /callback?code=true&state=the-right-state HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\n\r\n"
            // The response page is not sent until the outcome of the sign-in is known, so the test does not wait for
            // it.
            Task { _ = try await Self.send(call, port) }
            return try await response
        }
        try knocked.withLock { $0 }?.get()
        #expect(response.hasSuffix("/callback?code=true&state=the-right-state"))
    }

    /// Sends one request and returns the response.
    private static func send(_ text: String, _ port: Int) async throws -> String {
        try await RawConnection.exchange(text, port: port, isIPv6: false)
    }

    struct Request: CustomTestStringConvertible {
        let name: String
        let status: Int
        let head: [String]
        let body: String
        var testDescription: String { name }
    }

    /// Requests that must be rejected, each with the expected status of the response.
    static let requests: [Request] = [
        Request(name: "favicon", status: 404, head: ["GET /favicon.ico HTTP/1.1", "Host: {authority}"], body: ""),
        Request(
            name: "forged error",
            status: 400,
            head: ["GET /callback?error=access_denied HTTP/1.1", "Host: {authority}"],
            body: ""
        ),
        Request(
            name: "wrong state",
            status: 400,
            head: ["GET /callback?code=evil&state=wrong HTTP/1.1", "Host: {authority}"],
            body: ""
        ),
        Request(
            name: "state twice",
            status: 400,
            head: ["GET /callback?code=e&state=x&state=the-right-state HTTP/1.1", "Host: {authority}"],
            body: ""
        ),
        Request(
            name: "rebound name",
            status: 400,
            head: ["GET /callback?code=e&state=the-right-state HTTP/1.1", "Host: evil.example:{port}"],
            body: ""
        ),
        Request(
            name: "rebound, other port",
            status: 400,
            head: ["GET /callback?code=e&state=the-right-state HTTP/1.1", "Host: 127.0.0.1:1"],
            body: ""
        ),
        Request(name: "no host", status: 400, head: ["GET /callback?code=e&state=the-right-state HTTP/1.1"], body: ""),
        Request(
            name: "two hosts",
            status: 400,
            head: ["GET /callback?code=e&state=the-right-state HTTP/1.1", "Host: {authority}", "Host: evil.example"],
            body: ""
        ),
        Request(
            name: "cross-site form",
            status: 405,
            head: [
                "POST /callback HTTP/1.1", "Host: {authority}", "Origin: https://evil.example",
                "Content-Type: application/x-www-form-urlencoded", "Content-Length: 31",
            ],
            body: "code=evil&state=the-right-state"
        ),
        Request(
            name: "another's start address",
            status: 404,
            head: ["GET /start/AAAAAAAAAAAA HTTP/1.1", "Host: {authority}"],
            body: ""
        ),
        Request(
            name: "prefetch",
            status: 503,
            head: [
                "GET /callback?code=e&state=the-right-state HTTP/1.1", "Host: {authority}", "Sec-Purpose: prefetch",
            ],
            body: ""
        ),
        Request(
            name: "prerender",
            status: 503,
            head: [
                "GET /callback?code=e&state=the-right-state HTTP/1.1", "Host: {authority}",
                "Sec-Purpose: prefetch;prerender",
            ],
            body: ""
        ),
        Request(
            name: "preflight",
            status: 405,
            head: ["OPTIONS /callback HTTP/1.1", "Host: {authority}", "Origin: https://evil.example"],
            body: ""
        ),
        Request(
            name: "websocket",
            status: 400,
            head: ["GET /callback HTTP/1.1", "Host: {authority}", "Upgrade: websocket"],
            body: ""
        ),
        Request(
            name: "absolute form",
            status: 400,
            head: ["GET http://127.0.0.1/callback?state=the-right-state HTTP/1.1", "Host: {authority}"],
            body: ""
        ),
        Request(
            name: "chunked",
            status: 411,
            head: ["POST /callback HTTP/1.1", "Host: {authority}", "Transfer-Encoding: chunked"],
            body: "0\r\n\r\n"
        ),
        Request(
            name: "two lengths",
            status: 400,
            head: ["POST /callback HTTP/1.1", "Host: {authority}", "Content-Length: 1", "Content-Length: 2"],
            body: "a"
        ),
        Request(
            name: "large body",
            status: 413,
            head: ["POST /callback HTTP/1.1", "Host: {authority}", "Content-Length: 262145"],
            body: ""
        ),
        Request(
            name: "length with a sign",
            status: 400,
            head: ["POST /callback HTTP/1.1", "Host: {authority}", "Content-Length: +1"],
            body: "x"
        ),
        Request(
            name: "negative length",
            status: 400,
            head: ["POST /callback HTTP/1.1", "Host: {authority}", "Content-Length: -1"],
            body: ""
        ),
        Request(
            name: "space before the colon",
            status: 400,
            head: ["GET /callback HTTP/1.1", "Host : {authority}"],
            body: ""
        ),
        Request(
            name: "no ASCII",
            status: 400,
            head: ["GET /callback?state=ä HTTP/1.1", "Host: {authority}"],
            body: ""
        ),
        Request(
            name: "a line break in the target",
            status: 400,
            head: ["GET /callback\n?a=b HTTP/1.1", "Host: {authority}"],
            body: ""
        ),
        Request(name: "HTTP/2", status: 400, head: ["PRI * HTTP/2.0", ""], body: "SM\r\n\r\n"),
        Request(
            name: "NUL in a field",
            status: 400,
            head: ["GET /callback?code=e&state=the-right-state HTTP/1.1", "Host: {authority}", "Accept: a\u{0}b"],
            body: ""
        ),
        Request(
            name: "another version",
            status: 400,
            head: ["GET /callback?code=e&state=the-right-state HTTP/0.9", "Host: {authority}"],
            body: ""
        ),
        // Comparing such strings takes quadratic time.
        Request(
            name: "many combining marks",
            status: 400,
            head: [
                "GET /favicon.ico HTTP/1.1", "Host: {authority}",
                "Accept: a\(String(repeating: "\u{301}", count: 100))",
            ],
            body: ""
        ),
        Request(name: "no request", status: 400, head: ["hello"], body: ""),
    ]

    @Test(arguments: requests.indices)
    func rejectsInvalidRequestsAndKeepsWaitingForTheAuthorizationResponse(_ index: Int) async throws {
        let request = Self.requests[index]
        try await survives { port in
            let text = (request.head + ["", request.body]).joined(separator: "\r\n")
                .replacingOccurrences(of: "{authority}", with: "127.0.0.1:\(port)")
                .replacingOccurrences(of: "{port}", with: "\(port)")
            let response = try await Self.send(text, port)
            #expect(response.hasPrefix("HTTP/1.1 \(request.status) "), "\(request.name)")
            // Nothing about the sign-in is revealed, and no cross-origin access is granted.
            #expect(!response.contains("the-right-state"))
            #expect(!response.lowercased().contains("access-control-allow"))
        }
    }

    @Test(arguments: [ResponseMode.formPost, .fragment])
    func rejectsForgedFormPostsAndAcceptsTheGenuineResponse(_ mode: ResponseMode)
        async throws
    {
        try await survivesPosted(mode)
    }

    private func survivesPosted(_ mode: ResponseMode) async throws {
        let options = RedirectOptions(
            redirectURIs: [.loopback],
            state: Secret("the-right-state"),
            responseMode: mode,
            reporter: FlowReporter(),
            clock: ContinuousClock()
        )
        func post(
            _ body: String,
            _ port: Int,
            type: String = "application/x-www-form-urlencoded",
            origin: String = "null"
        ) -> String {
            """
            POST /callback HTTP/1.1\r
            Host: 127.0.0.1:\(port)\r
            Origin: \(origin)\r
            Content-Type: \(type)\r
            Content-Length: \(body.utf8.count)\r
            \r
            \(body)
            """
        }
        let response = try await LoopbackUserAgent(launcher: nil).withRedirectSession(options) { session in
            let port = try #require(try Endpoint(session.redirectURI).port)
            async let response = session.visit("https://id.example.com/authorize")
            // A page can post this content type cross-site without a preflight, and no provider uses it.
            let plain = post("code=evil&state=the-right-state", port, type: "text/plain")
            let refused = try await Self.send(plain, port)
            #expect(refused.hasPrefix("HTTP/1.1 405 "))
            if mode == .fragment {
                // Only the page of this server forwards a fragment.
                let foreign = post("code=evil&state=the-right-state", port, origin: "https://evil.example.com")
                #expect(try await Self.send(foreign, port).hasPrefix("HTTP/1.1 405 "))
            }
            for body in ["code=evil&state=wrong", "error=access_denied", "code=evil&state=the-right-state&state=x", ""]
            {
                #expect(try await Self.send(post(body, port), port).hasPrefix("HTTP/1.1 400 "))
            }
            // RFC 9110 section 8.3.1: a media type is case-insensitive, and may have parameters.
            let type = "Application/X-WWW-Form-Urlencoded ; charset=utf-8"
            Task { _ = try await Self.send(post("code=true&state=the-right-state", port, type: type), port) }
            return try await response
        }
        #expect(response.contains("code=true"))
        #expect(response.contains(mode == .fragment ? "/callback#" : "/callback?"))
    }

    @Test func survivesHugeHeaders() async throws {
        try await survives { port in
            let line = "X-Junk: \(String(repeating: "a", count: 70_000))\r\n"
            let response = try? await Self.send(
                "GET /callback HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\n\(line)\r\n",
                port
            )
            // The rejection may be lost when the connection closes, because unread header fields cause a reset.
            #expect(response.map { $0.isEmpty || $0.hasPrefix("HTTP/1.1 431 ") } != false)
            let path = "/callback?\(String(repeating: "b", count: 2_000_000))"
            _ = try? await Self.send("GET \(path) HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\n\r\n", port)
        }
    }

    /// RFC 9110 section 5.5: a field value may contain bytes that are not ASCII.
    /// All ports of a host share its cookies (RFC 6265 section 8.5).
    @Test func acceptsTheCookieOfAnotherServerThatIsNotUTF8() throws {
        let head = Array("GET /callback?code=1 HTTP/1.1\r\nHost: 127.0.0.1:8400\r\nCookie: name=Ren".utf8) + [0xE9]
        let request = try HTTPMessageReader.head(head[...])
        #expect(request.path == "/callback?code=1")
        #expect(request.headerFields[.cookie] == "name=Ren\u{E9}")
    }

    /// RFC 9110 section 9.3.2.
    @Test func aResponseToAHEADRequestHasNoContent() async throws {
        try await survives { port in
            let response = try await Self.send("HEAD /favicon.ico HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\n\r\n", port)
            #expect(response.hasPrefix("HTTP/1.1 404 ") && response.hasSuffix("\r\n\r\n"))
        }
    }

    @Test func respondsOnlyToTheFirstOfSeveralPipelinedRequests() async throws {
        try await survives { port in
            let request = "GET /favicon.ico HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\n\r\n"
            let response = try await Self.send(String(repeating: request, count: 20), port)
            #expect(response.components(separatedBy: "HTTP/1.1 404").count == 2)
            #expect(response.contains("Connection: close"))
        }
    }

    @Test func survivesManyIdleConnections() async throws {
        try await survives { port in
            let idle = try (0..<300).map {
                try RawConnection.open(port: port, saying: String("GET /callb".prefix(1 + $0 % 10)))
            }
            // A client that sends a complete request is served immediately.
            let response = try await Self.send("GET / HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\n\r\n", port)
            #expect(response.hasPrefix("HTTP/1.1 404 "))
            for connection in idle { close(connection) }
        }
    }

    /// More connections than the server accepts, reopened as fast as they are closed, while a browser sends requests.
    @Test func servesABrowserDuringAFloodOfIdleConnections() async throws {
        try await survives { port in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<2 {
                    group.addTask {
                        var held: [Int32] = []
                        while !Task.isCancelled {
                            if let connection = try? RawConnection.open(port: port, saying: "") {
                                held.append(connection)
                            }
                            if held.count == 400 { close(held.removeFirst()) }
                            await Task.yield()
                        }
                        for connection in held { close(connection) }
                    }
                }
                for _ in 0..<20 {
                    let response = try await Self.send("GET / HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\n\r\n", port)
                    #expect(response.hasPrefix("HTTP/1.1 404 "))
                }
                group.cancelAll()
                try await group.waitForAll()
            }
        }
    }

    @Test func survivesTenThousandJunkRequests() async throws {
        try await survives { port in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for worker in 0..<8 {
                    group.addTask {
                        for number in 0..<1250 {
                            let target = "/callback?code=\(worker)&state=\(number)"
                            let text = "GET \(target) HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\n\r\n"
                            let response = try await Self.send(text, port)
                            #expect(response.hasPrefix("HTTP/1.1 400 "))
                        }
                    }
                }
                try await group.waitForAll()
            }
        }
    }
}
