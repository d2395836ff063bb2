import AuthFlow
import AuthFlowDesktop
import AuthFlowTesting
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

@testable import AuthFlowLoopback

/// The loopback user agent over real sockets.
@Suite struct LoopbackUserAgentTests {
    private let transport = SystemTransport()

    private func options(_ redirectURI: String = "http://127.0.0.1/callback") throws -> RedirectOptions {
        RedirectOptions(
            redirectURIs: [try RedirectURI(redirectURI)],
            state: Secret("the-right-state"),
            reporter: FlowReporter(),
            clock: ContinuousClock()
        )
    }

    /// A user agent whose browser is a function. The function receives the query of the authorization URL, which is the
    /// redirect URI in these tests.
    private func agent(_ browser: @escaping @Sendable (_ redirectURI: String) async -> Void) -> LoopbackUserAgent {
        LoopbackUserAgent(
            launcher: BrowserLauncher { url in
                Task {
                    // The browser receives a short URL on the loopback port, which redirects to the provider.
                    let endpoint = try Endpoint(url)
                    let response = try await self.getRaw(url, path: endpoint.path)
                    let location = response.split(separator: "\r\n").first { $0.hasPrefix("Location: ") } ?? ""
                    await browser(String(location.drop { $0 != "?" }.dropFirst()))
                }
                return "test"
            }
        )
    }

    private func get(_ url: String, method: HTTPRequest.Method = .get, fields: HTTPFields = [:]) async throws
        -> TransportResponse
    {
        try await transport.send(TransportRequest(method, Endpoint(url), headerFields: fields))
    }

    /// Requests a target verbatim, even if it is not a valid path, with any `Host` field.
    private func getRaw(_ redirectURI: String, path: String, host: String? = nil) async throws -> String {
        let endpoint = try Endpoint(redirectURI)
        let text = "GET \(path) HTTP/1.1\r\nHost: \(host ?? endpoint.authority)\r\nConnection: close\r\n\r\n"
        return try await RawConnection.exchange(text, port: endpoint.port ?? 0, isIPv6: endpoint.host == "[::1]")
    }

    private func text(_ response: TransportResponse?) -> String {
        String(decoding: response?.body ?? [], as: UTF8.self)
    }

    @Test(arguments: [
        "http://127.0.0.1/callback", "http://localhost/callback", "http://[::1]/cb", "http://127.0.0.1/",
        "http://127.0.0.1",
    ]) func receivesTheAuthorizationResponse(_ redirectURI: String) async throws {
        let (pages, page) = AsyncStream<String?>.makeStream()
        let agent = agent { redirectURI in
            let path = (try? Endpoint(redirectURI))?.path ?? ""
            let target = "\(path.isEmpty ? "/" : path)?code=1&state=the-right-state"
            page.yield(try? await self.getRaw(redirectURI, path: target))
        }
        let response = try await agent.withRedirectSession(try options(redirectURI)) { session in
            let response = try await session.visit("https://id.example.com/?\(session.redirectURI)")
            #expect(response == "\(session.redirectURI)?code=1&state=the-right-state")
            return response
        }
        #expect(response.contains("code=1"))
        for await response in pages {
            let response = try #require(response)
            #expect(response.hasPrefix("HTTP/1.1 200"))
            #expect(response.contains("You are signed in"))
            #expect(response.contains("no-store"))
            #expect(response.contains("default-src 'none'"))
            break
        }
    }

    @Test func listensOnIPv4AndIPv6ForLocalhost() async throws {
        // RFC 8252 section 8.3. In practice, other programs' servers on ::1 have received authorization responses.
        let agent = agent { redirectURI in
            let other = redirectURI.replacingOccurrences(of: "localhost", with: "[::1]")
            let host = redirectURI.split(separator: "/")[1]
            _ = try? await self.getRaw(other, path: "/callback?code=6&state=the-right-state", host: String(host))
        }
        let response = try await agent.withRedirectSession(try options("http://localhost/callback")) {
            try await $0.visit("https://id.example.com/?\($0.redirectURI)")
        }
        #expect(response.contains("code=6"))
    }

    @Test(arguments: [
        "/x/../callback?code=1&state=the-right-state", "/%63allback?code=1&state=the-right-state",
        "http://127.0.0.1/callback?code=1&state=the-right-state", "/callback#?code=1&state=the-right-state", "*", "",
    ]) func acceptsOnlyTheExactRedirectPath(_ path: String) async throws {
        let (responses, received) = AsyncStream<String>.makeStream()
        let agent = agent { redirectURI in
            received.yield((try? await self.getRaw(redirectURI, path: path)) ?? "")
            _ = try? await self.get("\(redirectURI)?code=good&state=the-right-state")
        }
        let response = try await agent.withRedirectSession(try options()) {
            try await $0.visit("https://id.example.com/?\($0.redirectURI)")
        }
        #expect(response.contains("code=good"))
        for await response in responses {
            #expect(!response.hasPrefix("HTTP/1.1 200"))
            break
        }
    }

    @Test func keepsWaitingAfterUnrelatedRequests() async throws {
        let (results, result) = AsyncStream<[Int]>.makeStream()
        let agent = agent { redirectURI in
            let origin = redirectURI.dropLast("/callback".count)
            var statuses: [Int] = []
            for (method, path, fields) in [
                (.get, "/favicon.ico", [:]), (.get, "/", [:]), (.get, "/callback", [:]),
                (.get, "/callback?code=1&state=wrong", [:]), (.get, "/callback?error=access_denied", [:]),
                (.get, "/callback?error=access_denied&state=wrong", [:]),
                (.get, "/callback?code=1&state=the-right-state&state=the-right-state", [:]),
                (.get, "/callback/?code=1&state=the-right-state", [:]),
                (.get, "//callback?code=1&state=the-right-state", [:]),
                (.post, "/callback?code=1&state=the-right-state", [:]),
                (.head, "/callback?code=1&state=the-right-state", [:]),
                (.put, "/callback?code=1&state=the-right-state", [:]),
                (.get, "/callback?code=1&state=the-right-state", [HTTPField.Name("Sec-Purpose")!: "prefetch"]),
                (.get, "/callback?code=1&state=the-right-state", [HTTPField.Name("Host")!: "evil.example.com"]),
            ] as [(HTTPRequest.Method, String, HTTPFields)] {
                let response = try? await self.get("\(origin)\(path)", method: method, fields: fields)
                statuses.append(response?.status ?? 0)
            }
            result.yield(statuses)
            _ = try? await self.get("\(redirectURI)?code=good&state=the-right-state")
        }
        let response = try await agent.withRedirectSession(try options()) {
            try await $0.visit("https://id.example.com/?\($0.redirectURI)")
        }
        #expect(response.contains("code=good"))
        for await statuses in results {
            #expect(statuses == [404, 404, 400, 400, 400, 400, 400, 404, 404, 405, 405, 405, 503, 400])
            break
        }
    }

    @Test func escapesTheErrorMessageOnTheErrorPage() async throws {
        let (pages, page) = AsyncStream<TransportResponse?>.makeStream()
        let agent = agent { page.yield(try? await self.get("\($0)?code=1&state=the-right-state")) }
        let error = try await #require(throws: AuthError.self) {
            try await agent.withRedirectSession(try options()) { session in
                _ = try await session.visit("https://id.example.com/?\(session.redirectURI)")
                throw AuthError(.invalidIDToken, "It was <script>alert(1)</script> & \"worse\".")
            }
        }
        #expect(error.code == .invalidIDToken)
        for await response in pages {
            #expect(text(response).contains("The sign-in failed"))
            #expect(text(response).contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;worse&quot;"))
            #expect(!text(response).contains("<script>"))
            break
        }
    }

    @Test func rejectsAPostLogoutRedirectWithAMissingOrWrongState() async throws {
        let (responses, received) = AsyncStream<[String]>.makeStream()
        let agent = agent { redirectURI in
            let path = (try? Endpoint(redirectURI))?.path ?? ""
            var pages: [String] = []
            for query in ["", "?state=wrong", "?post_logout=1", "?state=the-right-state&state=the-right-state"] {
                pages.append((try? await self.getRaw(redirectURI, path: path + query)) ?? "")
            }
            received.yield(pages)
            pages.append((try? await self.getRaw(redirectURI, path: "\(path)?state=the-right-state")) ?? "")
            received.yield([pages.last ?? ""])
        }
        let options = RedirectOptions(
            purpose: .signOut,
            redirectURIs: [RedirectURI("http://127.0.0.1/callback")],
            state: Secret("the-right-state"),
            reporter: FlowReporter(),
            clock: ContinuousClock()
        )
        let response = try await agent.withRedirectSession(options) {
            try await $0.visit("https://id.example.com/logout?\($0.redirectURI)")
        }
        #expect(response.hasSuffix("/callback?state=the-right-state"))
        var pages = responses.makeAsyncIterator()
        for page in await pages.next() ?? [] {
            #expect(page.hasPrefix("HTTP/1.1 400"))
            #expect(!page.contains("You are signed out"))
        }
        #expect(await pages.next()?.first?.contains("You are signed out") == true)
    }

    private func inbox(at redirectURI: String, port: Int, _ reporter: FlowReporter) -> CallbackInbox {
        CallbackInbox(
            redirectURI: redirectURI,
            host: "127.0.0.1",
            port: port,
            path: "/callback",
            expected: RedirectOptions(
                redirectURIs: [.loopback],
                state: Secret("the-right-state"),
                reporter: reporter,
                clock: ContinuousClock()
            ),
            appearance: LoopbackUserAgent.Appearance(applicationName: "", accentColor: nil)
        )
    }

    @Test(arguments: [("127.0.0.1", true), ("127.0.0.1:80", true), ("127.0.0.1:81", false), ("evil.example", false)])
    func theHostHeaderMayOmitTheDefaultPort(_ host: String, _ isBelieved: Bool) async throws {
        // RFC 9110 section 4.2.3: the scheme's default port is omitted.
        let inbox = inbox(at: "http://127.0.0.1/callback", port: 80, FlowReporter())
        inbox.conclude(.succeeded)
        let target = "/callback?code=1&state=the-right-state"
        let request = HTTPRequest(method: .get, scheme: "http", authority: host, path: target)
        #expect(await inbox.handle(request, body: []).status == (isBelieved ? 200 : 400))
    }

    /// Some providers omit the state from error responses, and the terminal does not show the page that the browser displays.
    @Test func aRedirectWithoutTheStateIsReportedOnce() async throws {
        let ignored = Mutex<[String]>([])
        let reporter = FlowReporter { event in ignored.withLock { $0 += [event.details["ignored"]].compactMap { $0 } } }
        let inbox = inbox(at: "http://127.0.0.1:8400/callback", port: 8400, reporter)
        for query in ["error=access_denied", "error=access_denied&state=wrong", "code=1"] {
            let request = HTTPRequest(
                method: .get,
                scheme: "http",
                authority: "127.0.0.1:8400",
                path: "/callback?\(query)"
            )
            #expect(await inbox.handle(request, body: []).status == 400)
        }
        #expect(ignored.withLock { $0.count } == 1)
    }

    @Test func theErrorPageShowsTheApplicationNameAndAccentColor() async throws {
        let agent = LoopbackUserAgent(launcher: nil, applicationName: "My <app>", accentColor: "#1a4fb4")
        struct Denied: Error {}
        let (pages, page) = AsyncStream<String>.makeStream()
        await #expect(throws: Denied.self) {
            try await agent.withRedirectSession(try options()) { session in
                let target = try Endpoint("\(session.redirectURI)?error=access_denied&state=the-right-state")
                Task {
                    let response = try await transport.send(TransportRequest(.get, target))
                    page.yield(String(decoding: response.body, as: UTF8.self))
                }
                _ = try await session.visit("https://id.example.com/authorize")
                throw Denied()
            }
        }
        var shown = pages.makeAsyncIterator()
        let text = try #require(await shown.next())
        #expect(text.contains("Go back to My &lt;app&gt;, and try again there."))
        #expect(text.contains("border-top: 0.25rem solid #1a4fb4"))
    }

    @Test func usesTheFirstResponseAndShowsASecondTabTheSamePage() async throws {
        let inbox = CallbackInbox(
            redirectURI: "http://127.0.0.1:8400/callback",
            host: "127.0.0.1",
            port: 8400,
            path: "/callback",
            expected: RedirectOptions(
                redirectURIs: [.loopback],
                state: Secret("the-right-state"),
                reporter: FlowReporter(),
                clock: ContinuousClock()
            ),
            appearance: LoopbackUserAgent.Appearance(applicationName: "", accentColor: nil)
        )
        func request(_ code: String) -> HTTPRequest {
            HTTPRequest(
                method: .get,
                scheme: "http",
                authority: "127.0.0.1:8400",
                path: "/callback?code=\(code)&state=the-right-state"
            )
        }
        async let first = inbox.handle(request("1"), body: [])
        guard case .response(let response) = try await inbox.callback() else {
            Issue.record("The response was not decoded on arrival.")
            return
        }
        #expect(response.parameters["code"] == "1")
        async let second = inbox.handle(request("2"), body: [])
        inbox.conclude(.succeeded)
        #expect(text(await first).contains("You are signed in"))
        #expect(text(await second).contains("You are signed in"))
        // The same page is returned after the sign-in has ended.
        #expect(text(await inbox.handle(request("1"), body: [])).contains("You are signed in"))
    }

    /// The first visitor may be another user of the same machine who has read the browser's command line.
    @Test func aSecondBrowserOnTheStartPageAbortsTheSignIn() async throws {
        let agent = LoopbackUserAgent(
            launcher: BrowserLauncher { url in
                Task { for _ in 0..<2 { _ = try await self.get(url) } }
                return "test"
            }
        )
        let error = await #expect(throws: AuthError.self) {
            try await agent.withRedirectSession(try options()) {
                try await $0.visit("https://id.example.com/authorize?state=the-right-state")
            }
        }
        #expect(error?.code == .userAgentFailed)
        #expect(error?.message.contains("two browsers") == true)
    }

    @Test func redirectsOnlyTheFirstBrowserToTheProvider() async throws {
        let (addresses, address) = AsyncStream<String>.makeStream()
        let agent = LoopbackUserAgent(
            launcher: BrowserLauncher { url in
                address.yield(url)
                return "test"
            }
        )
        _ = try await agent.withRedirectSession(try options()) { session in
            let visit = Task { try await session.visit("https://id.example.com/authorize?state=the-right-state") }
            for await start in addresses {
                // Every user of the machine can read a browser's command line, so the URL in it must not contain the
                // state.
                #expect(!start.contains("state"))
                // A request that a browser would not send does not consume the start page.
                #expect(try await get(start, method: .post).status == 405)
                let first = try await get(start)
                #expect(first.status == 302)
                let target = "https://id.example.com/authorize?state=the-right-state"
                #expect(first.head.headerFields[.location] == target)
                #expect(first.head.headerFields[.cacheControl] == "no-store")
                let cookie = (first.head.headerFields[.setCookie] ?? "").prefix { $0 != ";" }
                #expect(try await get(start).status == 410)
                #expect(try await get(start, fields: [.cookie: "authflow=x; \(cookie)x"]).status == 410)
                // A browser that navigates back to the start page is recognized by its cookie.
                #expect(try await get(start, fields: [.cookie: "a=b; \(cookie)"]).status == 302)
                _ = try await get("\(session.redirectURI)?code=1&state=the-right-state", method: .head)
                break
            }
            visit.cancel()
            return 0
        }
    }

    @Test func usesTheFirstRedirectURIWhosePortIsFree() async throws {
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let options = RedirectOptions(
                redirectURIs: try [
                    "com.example.app:/callback", "\(emulator.issuer)/callback", "http://127.0.0.1/other",
                ].map { try RedirectURI($0) },
                state: Secret("the-right-state"),
                reporter: FlowReporter(),
                clock: ContinuousClock()
            )
            try await LoopbackUserAgent(launcher: nil).withRedirectSession(options) { session in
                #expect(session.redirectURI.hasSuffix("/other"))
                #expect(session.redirectURI != "\(emulator.issuer)/callback")
            }
        }
    }

    /// An origin at which this machine cannot listen: it has no IPv6, or this user may not bind a privileged port.
    private static let unavailable = ["http://[::1]", "http://127.0.0.1:1"].first { origin in
        guard let endpoint = try? Endpoint(origin) else { return false }
        do {
            _ = try LoopbackPort.probe(host: endpoint.host, port: endpoint.port)
            return false
        } catch {
            return (error as? AuthError)?.code == .userAgentFailed
        }
    }

    @Test(.enabled(if: unavailable != nil, "This machine can listen at every loopback address and port."))
    func usesTheNextRedirectURIIfItCannotListenAtTheFirst() async throws {
        let options = RedirectOptions(
            redirectURIs: try ["\(Self.unavailable ?? "")/callback", "http://127.0.0.1/other"].map {
                try RedirectURI($0)
            },
            state: Secret("the-right-state"),
            reporter: FlowReporter(),
            clock: ContinuousClock()
        )
        try await LoopbackUserAgent(launcher: nil).withRedirectSession(options) { session in
            #expect(session.redirectURI.hasSuffix("/other"))
        }
    }

    @Test func reportsABusyPortBeforeTheBrowserOpens() async throws {
        let opened = Mutex(false)
        try await EmulatorServer.run {
            try OIDCEmulator(issuer: $0)
        } _: { emulator in
            let agent = agent { _ in opened.withLock { $0 = true } }
            let error = await #expect(throws: AuthError.self) {
                try await agent.withRedirectSession(try options("\(emulator.issuer)/callback")) {
                    try await $0.visit("https://id.example.com/")
                }
            }
            #expect(error?.code == .portBusy)
        }
        #expect(!opened.withLock { $0 })
    }

    @Test func freesItsPortWhenItIsCancelled() async throws {
        let (ports, port) = AsyncStream<String>.makeStream()
        let agent = agent { port.yield($0) }
        let options = try options()
        let task = Task {
            try await agent.withRedirectSession(options) {
                try await $0.visit("https://id.example.com/?\($0.redirectURI)")
            }
        }
        for await redirectURI in ports {
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
            let error = await #expect(throws: AuthError.self) { try await get(redirectURI) }
            #expect(error?.code == .networkFailed)
            break
        }
    }

    @Test(arguments: ["com.example.app:/callback", "https://app.example.com/callback"])
    func rejectsNonLoopbackRedirectURIs(_ redirectURI: String) async throws {
        await expectError(.invalidConfiguration) {
            try await LoopbackUserAgent(launcher: nil).withRedirectSession(try options(redirectURI)) { _ in }
        }
    }
}
