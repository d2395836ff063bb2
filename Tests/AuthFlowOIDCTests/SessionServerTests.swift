import AuthFlow
import AuthFlowServer
import AuthFlowTesting
import ConformanceRows
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// Delays requests to a path until a test releases them.
struct HeldRequests: HTTPTransport {
    let base: any HTTPTransport
    let path: String
    let arrived = AsyncStream<Void>.makeStream()
    let released = AsyncStream<Void>.makeStream()

    func send(_ call: TransportRequest) async throws -> TransportResponse {
        if call.head.path == path {
            arrived.continuation.yield()
            for await _ in released.stream {}
        }
        return try await base.send(call)
    }

    func arrivals(_ count: Int) async {
        var left = count
        for await _ in arrived.stream {
            left -= 1
            if left == 0 { break }
        }
    }
}

@Suite struct SessionServerTests {
    /// Runs a test of a web application whose users sign in at the emulator.
    private func withWeb(_ body: @escaping @Sendable (WebEnvironment, SessionServer) async throws -> Void) async throws
    {
        try await EmulatorEnvironment.with(.inProcess, clients: [WebEnvironment.client]) { environment in
            let web = WebEnvironment(environment)
            try await body(web, try web.process())
        }
    }

    @Test func slowRequestsOfOneUserDoNotBlockOtherUsers() async throws {
        try await withWeb { web, _ in
            let api = APITransport(web.environment.transport) { _, _ in
                TransportResponse(head: HTTPResponse(status: .ok))
            }
            let held = HeldRequests(base: api, path: "/slow")
            let server = try web.process(transport: held)
            let proxy = ResourceProxy(
                server: server,
                routes: [try .init("/api/", to: Endpoint("https://api.example.com/"))]
            )
            let (alice, bob) = (WebBrowser(), WebBrowser())
            try await alice.signIn(web, at: server)
            try await bob.signIn(web, at: server, user: .bob)
            await withTaskGroup(of: TransportResponse?.self) { group in
                for _ in 0..<41 {
                    group.addTask {
                        await proxy.response(to: alice.request(.get, "/api/slow", WebBrowser.ownPage))
                    }
                }
                // Eight requests are in progress at the API and 32 are waiting, so only the rejected request
                // completes.
                let refused = await group.next() ?? nil
                #expect(refused?.status == 429)
                #expect(refused?.head.headerFields[.retryAfter] != nil)
                let other = await proxy.response(to: bob.request(.get, "/api/fast", WebBrowser.ownPage))
                #expect(other?.status == 200)
                held.released.continuation.finish()
                for await response in group { #expect(response?.status == 200) }
            }
        }
    }

    @Test func theProxyReportsWhyARequestWasNotForwarded() async throws {
        let events = Mutex<[FlowEvent]>([])
        try await withWeb { web, _ in
            let api = APITransport(web.environment.transport) { _, _ in
                throw AuthError(.networkFailed, "The connection to api.example.com was refused.")
            }
            let server = try web.process(transport: api, observer: { event in events.withLock { $0.append(event) } })
            let route = try ResourceProxy.Route("/api/", to: "https://api.example.com/", methods: [.get, .head])
            let proxy = ResourceProxy(server: server, routes: [route])
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            func status(_ method: HTTPRequest.Method, _ fields: HTTPFields) async throws -> (Int, String) {
                let response = try #require(await proxy.response(to: browser.request(method, "/api/1", fields)))
                return (response.status, String(decoding: response.body, as: UTF8.self))
            }
            #expect(try await status(.get, WebBrowser.ownPage) == (502, ""))
            #expect(try await status(.get, [:]).0 == 403)
            #expect(try await status(.get, [:]).1.contains("X-AuthFlow"))
            #expect(try await status(.head, [:]) == (403, ""))
            #expect(try await status(.post, WebBrowser.ownPage).1.contains("POST"))
        }
        let reported = events.withLock { $0.filter { $0.step == .forwarding } }
        #expect(reported.map(\.progress) == [.failed(.networkFailed), .note, .note, .note, .note])
        #expect(reported.first?.details["message"] == nil)
        #expect(reported.first?.details["route"] == "/api/")
        #expect(reported.map { $0.details["status"]?.prefix(3) } == ["502", "403", "403", "403", "405"])
    }

    @Test func theProxyListsTheMethodsOfARouteWhenItRejectsAnotherMethod() async throws {
        try await withWeb { web, server in
            let route = try ResourceProxy.Route("/api/", to: "https://api.example.com/", methods: [.head, .get])
            let proxy = ResourceProxy(server: server, routes: [route])
            let request = WebBrowser().request(.post, "/api/1", WebBrowser.ownPage)
            for response in [proxy.refusal(of: request), await proxy.response(to: request)] {
                #expect(response?.status == 405)
                #expect(response?.head.headerFields[.allow] == "GET, HEAD")
            }
        }
    }

    @Test func aFailedStepReportsTheProvidersErrorCode() async throws {
        let events = Mutex<[FlowEvent]>([])
        try await withWeb { web, _ in
            let server = try web.process(
                registration: { $0.authentication = .clientSecretBasic(Secret("another secret")) },
                observer: { event in events.withLock { $0.append(event) } }
            )
            _ = try await WebBrowser().signIn(web, at: server)
        }
        let failure = events.withLock { $0.first { $0.progress == .failed(.providerRejected) } }
        #expect(failure?.step == .codeExchange)
        #expect(failure?.details["error"] == "invalid_client")
        #expect(failure?.description.contains("error=invalid_client") == true)
        // Messages may identify the user.
        #expect(failure?.details["message"] == nil)
    }

    @Test(arguments: [
        (AuthError.Code.invalidConfiguration, true), (.keyUnavailable, true), (.storageFailed, true),
        (.invalidIDToken, true), (.loginRequired, false), (.accountMismatch, false), (.networkFailed, false),
        (.providerRejected, false), (.invalidCallback, false), (AuthError.Code(rawValue: "of an adapter"), false),
    ])
    func eventsOmitMessagesThatMayIdentifyTheUserOrAnAPI(_ code: AuthError.Code, _ isPublic: Bool) throws {
        let messages = Mutex<[String?]>([])
        let reporter = FlowReporter { event in messages.withLock { $0.append(event.details["message"]) } }
        reporter.report(.refresh, failedWith: AuthError(code, "Alice"))
        #expect(messages.withLock { $0 } == [isPublic ? "Alice" : nil])
    }

    @Test(arguments: ["bad_token:s3cr3t", "x\n[0] refresh succeeded", String(repeating: "x", count: 41), "a b=c"])
    func malformedErrorCodesAreReportedAsOther(_ code: String) throws {
        let events = Mutex<[FlowEvent]>([])
        let reporter = FlowReporter(observer: { event in events.withLock { $0.append(event) } })
        let error = AuthError(.providerRejected, "", providerError: ProviderError(error: code))
        reporter.report(.refresh, failedWith: error)
        #expect(events.withLock { $0.map { $0.details["error"] } } == ["other"])
    }

    @Test func revocationsRunConcurrentlyAndDoNotCountAsUnsavedTokens() async throws {
        try await withWeb { web, _ in
            let held = HeldRequests(base: web.environment.transport, path: "/revoke")
            let (server, laptop) = (try web.process(transport: held), WebBrowser())
            for browser in [laptop] + (0..<12).map({ _ in WebBrowser() }) {
                try await browser.signIn(web, at: server)
            }
            _ = try await laptop.send(.post, "/logout?everywhere=1", to: server, WebBrowser.ownPage)
            await held.arrivals(13)
            #expect(await server.drain(within: .milliseconds(1)))
            held.released.continuation.finish()
            #expect(await server.drain(within: .seconds(20)))
            #expect(web.environment.emulator.requests.count { $0 == "POST /revoke" } == 26)
        }
    }

    @Test(arguments: [true, false])
    func aSignOutRevokesTheTokensOfARefreshInProgress(_ isSameProcess: Bool) async throws {
        try await withWeb { web, _ in
            let slow = SlowRefreshes(web.environment.transport)
            let refreshing = try web.process(transport: slow)
            let leaving = isSameProcess ? refreshing : try web.process()
            web.environment.emulator.accessTokenLifetime = 0
            let browser = WebBrowser()
            try await browser.signIn(web, at: refreshing)
            let session = try #require(try await browser.session(at: refreshing))
            slow.gate.close()
            let late = Task { try await refreshing.freshTokens(for: session) }
            await slow.gate.arrival()
            _ = try await browser.send(.post, "/logout", to: leaving, WebBrowser.ownPage)
            slow.gate.open()
            await expectError(.loginRequired) { try await late.value }
            for server in [leaving, refreshing] { #expect(await server.drain(within: .seconds(20))) }
            let revoked = web.environment.emulator.receivedRequests.filter {
                $0.path == "/revoke" && $0.form["token_type_hint"] == "refresh_token"
            }
            #expect(Set(revoked.compactMap { $0.form["token"] }).count == 2)
        }
    }

    /// Another user's sign-in in the same browser replaces the session, so the first user's new tokens are not stored.
    @Test func aSignInByAnotherUserRevokesTheTokensOfARefreshInProgress() async throws {
        try await withWeb { web, _ in
            let slow = SlowRefreshes(web.environment.transport)
            let refreshing = try web.process(transport: slow)
            web.environment.emulator.accessTokenLifetime = 0
            let browser = WebBrowser()
            try await browser.signIn(web, at: refreshing)
            let session = try #require(try await browser.session(at: refreshing))
            slow.gate.close()
            let late = Task { try await refreshing.freshTokens(for: session) }
            await slow.gate.arrival()
            let other = try web.process()
            try await browser.signIn(web, at: other, user: .bob)
            slow.gate.open()
            await expectError(.loginRequired) { try await late.value }
            for server in [other, refreshing] { #expect(await server.drain(within: .seconds(20))) }
            let revoked = web.environment.emulator.receivedRequests.filter {
                $0.path == "/revoke" && $0.form["token_type_hint"] == "refresh_token"
            }
            #expect(Set(revoked.compactMap { $0.form["token"] }).count == 2)
        }
    }

    @Test func aLateResponseToASessionPollDoesNotRemoveTheCookie() async throws {
        try await withWeb { web, server in
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            let poll = browser.request(.get, "/session", WebBrowser.ownPage)
            try await browser.signIn(web, at: server)
            let late = await server.response(to: poll)
            #expect(late?.status == 401)
            #expect(late?.head.headerFields[.setCookie] == nil)
        }
    }

    @Test func signInFailuresAreReportedToTheObserver() async throws {
        try await withWeb { web, _ in
            let events = Mutex<[FlowEvent]>([])
            let observer: @Sendable (FlowEvent) -> Void = { event in events.withLock { $0.append(event) } }
            let network = FlakyTransport(web.environment.transport)
            network.takeDown()
            let down = try web.process(transport: network, observer: observer)
            #expect(try await WebBrowser().send(.get, "/login", to: down).status == 502)
            // This is a separate process, because the first process sends no requests during its backoff.
            let server = try web.process(observer: observer)
            let browser = WebBrowser()
            let callback = try await browser.visitProvider(web, at: server)
            browser.cookies = [:]
            #expect(try await browser.send(.get, callback, to: server).status == 400)
            let failed = events.withLock { $0 }.filter { if case .failed = $0.progress { true } else { false } }
            #expect(failed.map(\.step) == [.authorizationRequest, .authorizationResponse])
        }
    }

    @Test func mapsSessionErrorsToHTTPResponses() {
        let ended = SessionServer.response(for: AuthError(.loginRequired, "Over."))
        #expect(ended?.status == 401)
        let limited = AuthError(.temporarilyUnavailable, "Later.", retryAfter: .seconds(90))
        let outage = SessionServer.response(for: limited)
        #expect(outage?.status == 503)
        #expect(outage?.head.headerFields[.retryAfter] == "90")
        let busy = AuthError(.leaseBusy, "Try again.", retryAfter: .milliseconds(1200))
        #expect(SessionServer.response(for: busy)?.head.headerFields[.retryAfter] == "2")
        #expect(SessionServer.response(for: AuthError(.invalidIDToken, "No.")) == nil)
    }

    struct Rejection: CustomTestStringConvertible {
        let testDescription: String
        var challenge = #"Bearer error="invalid_token""#
        /// Whether the API accepts a refreshed token.
        var acceptsNewTokens = true
        /// The age of the token, in seconds.
        var age = 120.0
        var scopes = ["openid", "profile", "offline_access"]
        var isStreamed = false
        let status: Int
        let refreshes: Int
    }

    /// For example, the provider has revoked the access token.
    @Test(arguments: [
        Rejection(testDescription: "a revoked token", status: 200, refreshes: 1),
        Rejection(testDescription: "no challenge", challenge: "", status: 200, refreshes: 1),
        Rejection(testDescription: "a revoked token, streamed response", isStreamed: true, status: 200, refreshes: 1),
        Rejection(testDescription: "all tokens", acceptsNewTokens: false, status: 401, refreshes: 1),
        Rejection(testDescription: "a new token", age: 0, status: 401, refreshes: 0),
        Rejection(testDescription: "no refresh token", scopes: ["openid"], status: 401, refreshes: 0),
        Rejection(
            testDescription: "a weak authentication",
            challenge: #"Bearer error="insufficient_user_authentication", max_age="5""#,
            status: 401,
            refreshes: 0
        ),
    ]) func theProxyReplacesATokenThatTheAPIRejects(_ test: Rejection) async throws {
        try await withWeb { web, _ in
            let rejected = Mutex<String?>(nil)
            let bodies = Mutex<[[UInt8]]>([])
            let api = APITransport(web.environment.transport) { request, body in
                bodies.withLock { $0.append(body) }
                let token = request.headerFields[.authorization]
                let isFirst = rejected.withLock { rejected -> Bool in
                    rejected = rejected ?? token
                    return rejected == token
                }
                let accepts = test.acceptsNewTokens && !isFirst
                guard !accepts else { return TransportResponse(head: HTTPResponse(status: .ok)) }
                var head = HTTPResponse(status: .unauthorized)
                if !test.challenge.isEmpty { head.headerFields[.wwwAuthenticate] = test.challenge }
                return TransportResponse(head: head)
            }
            let browser = WebBrowser()
            try await browser.signIn(web, at: try web.process(registration: { $0.scopes = test.scopes }))
            let server = try web.process(
                transport: api,
                host: HostServices(now: { Date() + test.age }),
                registration: { $0.scopes = test.scopes }
            )
            let route = try ResourceProxy.Route(
                "/api/",
                to: "https://api.example.com/",
                methods: [.post],
                streamsResponses: test.isStreamed
            )
            let proxy = ResourceProxy(server: server, routes: [route])
            let before = web.environment.emulator.requests.count { $0 == "POST /token" }
            // The second request finds the same token, or the token that has replaced it.
            for _ in 0..<2 {
                let request = browser.request(.post, "/api/orders", WebBrowser.ownPage)
                // Without `streamsResponses`, the body is complete.
                let response = await proxy.streamedResponse(to: request, body: [1])
                #expect(response?.head.status.code == test.status)
            }
            let after = web.environment.emulator.requests.count { $0 == "POST /token" }
            #expect(after - before == test.refreshes)
            #expect(bodies.withLock { $0 } == Array(repeating: [1], count: 2 + test.refreshes))
            #expect(try await browser.session(at: server) != nil)
        }
    }

    /// A request counts toward the user's limit until the response body has been read.
    @Test func aStreamedResponseCountsTowardTheRequestLimitUntilItsBodyIsRead() async throws {
        try await withWeb { web, _ in
            let api = APITransport(web.environment.transport) { _, _ in
                TransportResponse(
                    head: HTTPResponse(
                        status: .ok,
                        headerFields: [.contentType: "text/event-stream", .setCookie: "a=b"]
                    ),
                    body: Array("data: 1\n\n".utf8)
                )
            }
            let server = try web.process(transport: api)
            let route = try ResourceProxy.Route(
                "/api/",
                to: Endpoint("https://api.example.com/"),
                maximumRequestSize: 10,
                streamsResponses: true
            )
            let proxy = ResourceProxy(server: server, routes: [route])
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            let request = browser.request(.get, "/api/events", WebBrowser.ownPage)
            var open: [ResponseStream] = []
            for _ in 0..<8 { open.append(try #require(await proxy.streamedResponse(to: request))) }
            #expect(open[0].head.headerFields[.contentType] == "text/event-stream")
            #expect(open[0].head.headerFields[.setCookie] == nil)
            async let ninth = proxy.streamedResponse(to: request)
            let first = open.removeFirst()
            #expect(try await first.body.collect(upTo: 100) == Array("data: 1\n\n".utf8))
            open.removeAll()
            #expect(await ninth?.head.status == .ok)
            let large = await proxy.streamedResponse(to: request, body: Array(repeating: 0, count: 11))
            #expect(large?.head.status == .contentTooLarge)
            let stranger = await proxy.streamedResponse(to: WebBrowser().request(.get, "/api/events"))
            #expect(stranger?.head.status == .forbidden)
        }
    }

    /// An API that does not read the body of such a request would parse it as the next request on the connection (request smuggling, RFC 9112 section 11.2).
    @Test(arguments: [HTTPRequest.Method.get, .head, .options])
    func rejectsARequestBodyThatAnAPIMightNotRead(_ method: HTTPRequest.Method) async throws {
        try await withWeb { web, _ in
            let calls = Mutex<[[UInt8]]>([])
            let api = APITransport(web.environment.transport) { _, body in
                calls.withLock { $0.append(body) }
                return TransportResponse(head: HTTPResponse(status: .ok))
            }
            let server = try web.process(transport: api)
            let target: Endpoint = "https://api.example.com/"
            let route = try ResourceProxy.Route("/api/", to: target, methods: [method, .post])
            let proxy = ResourceProxy(server: server, routes: [route])
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            var request = browser.request(method, "/api/photos", WebBrowser.ownPage)
            #expect(await proxy.response(to: request, body: [1])?.status == 400)
            #expect(await proxy.response(to: request)?.status == 200)
            for (name, value) in [(HTTPField.Name.contentLength, "1"), (.transferEncoding, "chunked")] {
                request.headerFields[.contentLength] = nil
                request.headerFields[name] = value
                #expect(proxy.refusal(of: request)?.status == 400)
                #expect(!proxy.streamsBody(of: request))
            }
            let post = browser.request(.post, "/api/photos", WebBrowser.ownPage)
            #expect(await proxy.response(to: post, body: [1])?.status == 200)
            #expect(calls.withLock { $0 } == [[], [1]])
        }
    }

    /// A server calls this function before it reads the body of a request.
    @Test func theProxyRejectsARequestWithoutASessionIdentifierBeforeItsBodyIsRead() async throws {
        try await withWeb { web, server in
            let route = try ResourceProxy.Route("/api/", to: "https://api.example.com/", methods: [.post])
            let proxy = ResourceProxy(server: server, routes: [route])
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            let identifier = try #require(browser.session)
            func refusal(_ cookie: String?) -> Int? {
                browser.cookies["__Host-Http-authflow"] = cookie
                return proxy.refusal(of: browser.request(.post, "/api/photos", WebBrowser.ownPage))?.status
            }
            #expect(refusal(identifier) == nil)
            let zeros = String(repeating: "A", count: 42)
            // The last bits of a canonical identifier are zero.
            let malformed = [zeros, "\(zeros)AA", "\(zeros)B", "\(zeros)!", "\(identifier).", "\(identifier).x", ""]
            #expect(refusal(nil) == 401)
            for cookie in malformed { #expect(refusal(cookie) == 401, "\(cookie)") }
        }
    }

    /// Browsers send some characters that RFC 3986 does not allow, and Foundation would then encode the whole path or query again.
    @Test(arguments: [
        ("x", "x"), ("x|y", "x%7Cy"), ("x%20y|z", "x%20y%7Cz"), ("x?a|b", "x?a%7Cb"), ("x?100%", "x?100%"),
        ("x?filter[name]=J%C3%BCrgen", "x?filter%5Bname%5D=J%C3%BCrgen"), ("x^y?{a}`b", "x%5Ey?%7Ba%7D%60b"),
    ])
    func theProxyEncodesNothingTwice(_ path: String, _ expected: String) async throws {
        try await withWeb { web, _ in
            let paths = Mutex<[String]>([])
            let api = APITransport(web.environment.transport) { request, _ in
                paths.withLock { $0.append(request.path ?? "") }
                return TransportResponse(head: HTTPResponse(status: .ok))
            }
            let server = try web.process(transport: api)
            let route = try ResourceProxy.Route("/api/", to: "https://api.example.com/a%20b/")
            let proxy = ResourceProxy(server: server, routes: [route])
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            _ = await proxy.response(to: browser.request(.get, "/api/\(path)", WebBrowser.ownPage))
            #expect(paths.withLock { $0 } == ["/a%20b/\(expected)"])
        }
    }

    @Test(arguments: [
        ("api/", "https://api.example.com/"), ("/api", "https://api.example.com/"),
        ("/api/", "https://api.example.com"), ("/api/", "https://api.example.com/v1"),
        ("/api/", "https://api.example.com/?key=1/"),
    ]) func rejectsAProxyRouteWithAnInvalidPrefixOrTarget(_ prefix: String, _ target: String) throws {
        let target = try Endpoint(target)
        let error = #expect(throws: AuthError.self) { try ResourceProxy.Route(prefix, to: target) }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.message.contains("must start and end with a slash") == true)
    }

    /// A frame with the `sandbox` attribute sends the origin "null", whichever site it is on.
    @Test(arguments: [(nil, false), ("same-origin", true), ("none", false), ("same-site", false)])
    func aRequestWithAnOpaqueOriginIsOwnOnlyIfTheBrowserIndicatesTheSameOrigin(_ site: String?, _ isOwn: Bool)
        async throws
    {
        try await withWeb { _, server in
            var request = WebBrowser().request(.post, "/", WebBrowser.ownPage)
            request.headerFields[.origin] = "null"
            request.headerFields[try #require(HTTPField.Name("Sec-Fetch-Site"))] = site
            #expect(server.isFromOwnPage(request) == isOwn)
            #expect(server.isFromOwnForm(request) == isOwn)
        }
    }

    @Test func rejectsABodyOfMoreThan64KiB() async throws {
        try await withWeb { web, server in
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            for (size, status) in [(65_537, 413), (65_536, 303)] {
                let body = [UInt8](repeating: UInt8(ascii: "a"), count: size)
                let response = try await browser.send(.post, "/logout", to: server, WebBrowser.ownPage, body: body)
                #expect(response.status == status)
                #expect((browser.session != nil) == (status == 413))
            }
        }
    }

    struct InvalidOption: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let message: String
        let change: @Sendable (inout SessionServerOptions) -> Void

        init(_ name: String, _ message: String, _ change: @escaping @Sendable (inout SessionServerOptions) -> Void) {
            self.testDescription = name
            self.message = message
            self.change = change
        }
    }

    private static let invalidOptions = [
        InvalidOption("no sessions", "sessionsPerUser must be at least 1") { $0.sessionsPerUser = 0 },
        InvalidOption("an origin with a slash", "must be written as https://app.example.com.") {
            $0.origin = "https://app.example.com/"
        },
        InvalidOption("an origin in upper case", "must be written as https://app.example.com.") {
            $0.origin = "https://APP.example.com"
        },
        InvalidOption("an origin with the default port", "must be written as https://app.example.com.") {
            $0.origin = "https://app.example.com:443"
        },
        InvalidOption("a header field that any page can send", "Requests of any page can contain the field Accept.") {
            $0.headerName = "Accept"
        },
        InvalidOption("a header field that the browser sets", "of any page can contain the field Sec-Fetch-Mode.") {
            $0.headerName = "Sec-Fetch-Mode"
        },
        InvalidOption("a header field of conditional requests", "of any page can contain the field If-None-Match.") {
            $0.headerName = "If-None-Match"
        },
        InvalidOption("a header field of WebViews", "of any page can contain the field X-Requested-With.") {
            $0.headerName = "X-Requested-With"
        },
        InvalidOption("a header field that proxies add", "of any page can contain the field X-Request-ID.") {
            $0.headerName = "X-Request-ID"
        },
        InvalidOption("a prefix of proxies", "of any page can contain the field X-Forwarded-Proto.") {
            $0.headerName = "X-Forwarded-Proto"
        },
        InvalidOption("a cookie name with a space", "cookie name is empty or contains") {
            $0.cookieName = "__Host-a b"
        },
        InvalidOption("a cookie name with a semicolon", "cookie name is empty or contains") {
            $0.cookieName = "__Host-a;Path"
        },
        // Without TLS, the prefix is removed.
        InvalidOption("an empty cookie name", "cookie name is empty or contains") {
            $0.origin = "http://127.0.0.1:8080"
            $0.allowsPlainHTTPOnLoopback = true
            $0.cookieName = "__Host-"
        },
        InvalidOption("an IPv6 address that browsers write differently", "written as https://[2001:db8::1]:8443.") {
            $0.origin = "https://[2001:db8:0:0::1]:8443"
        },
        InvalidOption("a route without a slash", "path that starts with a slash") { $0.loginPath = "login" },
        InvalidOption("an empty route", "path that starts with a slash") { $0.frontChannelLogoutPath = "" },
        InvalidOption("a route with a query", "must not contain a query") { $0.backChannelLogoutPath = "/ended?app=1" },
        InvalidOption("a route with a fragment", "must not contain a query") { $0.loginPath = "/#login" },
        InvalidOption("a route with a dot segment", "must not contain a query") { $0.logoutPath = "/a/../logout" },
        InvalidOption("a route with a space", "must not contain a query") { $0.sessionPath = "/my session" },
        InvalidOption("a route that is not ASCII", "must not contain a query") {
            $0.frontChannelLogoutPath = "/f\u{FC}r"
        },
        InvalidOption("a route with two slashes", "must not start with two slashes") { $0.loginPath = "//login" },
    ]

    @Test(arguments: invalidOptions)
    func rejectsOptionsThatWouldBeUnsafeOrIneffective(_ option: InvalidOption) async throws {
        try await withWeb { web, _ in
            let error = #expect(throws: AuthError.self) { _ = try web.process(options: option.change) }
            #expect(error?.code == .invalidConfiguration)
            #expect(error?.message.contains(option.message) == true)
        }
    }

    @Test(arguments: [ResponseMode.fragment, .fragmentJWT])
    func rejectsAResponseModeWhoseResponsesDoNotReachTheServer(_ mode: ResponseMode) async throws {
        try await withWeb { web, _ in
            let error = #expect(throws: AuthError.self) {
                _ = try web.process(registration: { $0.responseMode = mode })
            }
            #expect(error?.code == .invalidConfiguration)
            #expect(error?.message.contains("Browsers do not send fragments to a server") == true)
        }
    }

    /// RFC 6265bis section 5.7: a browser ignores a cookie with `SameSite=None` that is not `Secure`.
    @Test(arguments: [WebEnvironment.origin, "http://127.0.0.1:8080"])
    func theCookieOfASignInWhoseResponseIsPostedIsSecure(_ origin: String) async throws {
        try await withWeb { web, _ in
            let redirectURI = try RedirectURI("\(origin)/callback")
            let server = try web.process {
                ($0.origin, $0.allowsPlainHTTPOnLoopback) = (origin, true)
            } registration: {
                $0.redirectURIs = [redirectURI]
                $0.responseMode = .formPost
            }
            let authority = String(origin.drop { $0 != "/" }.dropFirst(2))
            let scheme = String(origin.prefix { $0 != ":" })
            let request = HTTPRequest(method: .get, scheme: scheme, authority: authority, path: "/login")
            let response = try #require(await server.response(to: request, body: []))
            let cookie = response.head.headerFields[fields: .setCookie].map(\.value).first { $0.contains("-login-") }
            #expect(cookie?.contains("; SameSite=None; Secure; ") == true, "\(cookie ?? "")")
        }
    }

    /// Users rely on the message that all sessions have ended.
    @Test func signingOutEverywhereFailsIfTheSessionHasAlreadyEnded() async throws {
        try await withWeb { web, server in
            let (laptop, phone) = (WebBrowser(), WebBrowser())
            try await laptop.signIn(web, at: server)
            try await phone.signIn(web, at: server)
            let session = try #require(try await laptop.session(at: server))
            let cookies = laptop.cookies
            try await server.endSessions(ofUserOf: session, named: [session.name])
            let response = try await laptop.send(.post, "/logout?everywhere=1", to: server, WebBrowser.ownPage)
            #expect(response.status == 401)
            #expect(String(decoding: response.body, as: UTF8.self).contains("Sign in"))
            #expect(laptop.session == nil && !cookies.isEmpty)
            #expect(try await phone.session(at: server) != nil)
        }
    }

    @Test func signingOutEverywhereEndsAllSessionsOfTheUser() async throws {
        try await withWeb { web, server in
            let (laptop, phone, bob) = (WebBrowser(), WebBrowser(), WebBrowser())
            try await laptop.signIn(web, at: server)
            try await phone.signIn(web, at: server)
            try await bob.signIn(web, at: server, user: .bob)
            let response = try await laptop.send(.post, "/logout?everywhere=1", to: server, WebBrowser.ownPage)
            #expect(response.status == 303)
            #expect(response.head.headerFields[.location]?.hasPrefix(web.environment.emulator.issuer) == true)
            #expect(try await phone.session(at: try web.process()) == nil)
            #expect(try await bob.session(at: server) != nil)
            #expect(await server.drain(within: .seconds(20)))
            // Both refresh tokens and both access tokens are revoked.
            #expect(web.environment.emulator.requests.count { $0 == "POST /revoke" } == 4)
        }
    }

    /// If cookies were split by `Character`, a mark that merges with an adjacent character would hide the next cookie.
    @Test(arguments: ["x=a\u{600}", "x\u{301}=1", "\u{1F1E6}=\u{1F1E6}"]) func nonASCIICookiesDoNotHideTheSessionCookie(
        _ cookie: String
    )
        async throws
    {
        try await withWeb { web, server in
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            var request = browser.request(.get, "/")
            request.headerFields[.cookie] = "\(cookie); \(request.headerFields[.cookie] ?? "");\(cookie)"
            #expect(try await server.session(of: request) != nil)
        }
    }

    /// If sign-in cookies were not selected by the state, each of these cookies would cause a store lookup.
    @Test func aCallbackUsesOnlyTheSignInCookieOfItsState() async throws {
        try await withWeb { web, server in
            let browser = WebBrowser()
            let callback = try await browser.visitProvider(web, at: server)
            let own = try #require(browser.cookies.first { $0.key.contains("-login-") })
            let prefix = own.key.prefix(own.key.count - 8)
            for number in 0..<10 { browser.cookies["\(prefix)AAAAAAA\(number)"] = own.value }
            // The right value in other cookies, and then a wrong value in the right cookie.
            browser.cookies[own.key] = nil
            #expect(try await browser.send(.get, callback, to: server).status == 400)
            browser.cookies[own.key] = String(own.value.dropLast(4)) + "AAAA"
            #expect(try await browser.send(.get, callback, to: server).status == 400)
            browser.cookies[own.key] = own.value
            #expect(try await browser.send(.get, callback, to: server).status == 200)
        }
    }
}
