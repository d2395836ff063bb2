import AuthFlow
import AuthFlowJSON
import AuthFlowServer
import AuthFlowTesting
import HTTPTypes
import Synchronization

/// Rows for web applications, by section of RFC 10017.
extension ConformanceTable {
    static func web(
        _ number: String,
        _ name: String,
        _ demand: String,
        _ body: @escaping @Sendable (WebEnvironment, SessionServer, WebBrowser) async throws -> Void
    ) -> ConformanceRow {
        .row(number, name, demand, clients: [WebEnvironment.client]) { environment in
            let web = WebEnvironment(environment)
            try await body(web, try web.process(), WebBrowser())
        }
    }

    private static func setCookies(_ response: TransportResponse) -> [String] {
        response.head.headerFields[fields: .setCookie].map(\.value)
    }

    static let webApplications: [ConformanceRow] = [
        web("W1", "6.1.3.1 confidential client", "rejects a client that does not authenticate") { web, _, _ in
            do {
                _ = try web.process(registration: { $0.authentication = .none })
                throw ConformanceRow.Failure(description: "A public client must be rejected.")
            } catch let error as AuthError where error.code == .invalidConfiguration {}
        },
        web("W2", "6.1.3.2 transport", "requires TLS, except on loopback if a setting allows it") {
            web,
            _,
            _ in
            for allowed in [false, true] {
                let server = try? web.process {
                    ($0.origin, $0.allowsPlainHTTPOnLoopback) = ("http://127.0.0.1:8080", allowed)
                } registration: {
                    $0.redirectURIs = [RedirectURI("http://127.0.0.1:8080/callback")]
                }
                try ConformanceRow.require((server != nil) == allowed, "Only the setting may allow plain HTTP.")
            }
        },
        web("W3", "6.1.3.2 cookie", "Secure, HttpOnly, SameSite=Strict, Path=/, no Domain, __Host-Http-") {
            web,
            server,
            browser in
            let field =
                setCookies(try await browser.signIn(web, at: server)).first { $0.hasPrefix("__Host-Http-authflow=") }
                ?? ""
            let attributes = Set(field.split(separator: ";").dropFirst().map { $0.drop { $0 == " " } })
            try ConformanceRow.require(
                attributes == ["Secure", "HttpOnly", "SameSite=Strict", "Path=/"],
                "The cookie has the wrong attributes: \(attributes)."
            )
        },
        web("W4", "6.1.2.1 session in the cookie", "a random 256-bit identifier; the store contains only its hash") {
            web,
            server,
            browser in
            try await browser.signIn(web, at: server)
            let value = browser.session ?? ""
            try ConformanceRow.require(Base64URL.decode(value)?.count == 32, "The identifier must have 32 bytes.")
            let session = try await browser.session(at: server)
            try ConformanceRow.require(
                session.map { !$0.name.contains(value) } == true,
                "The session's name must not contain the identifier."
            )
        },
        web("W5", "6.1.3.3 CSRF", "rejects scripts' requests without the header field, and requests from other sites") {
            web,
            server,
            browser in
            try await browser.signIn(web, at: server)
            try ConformanceRow.require(
                try await browser.send(.get, "/session", to: server).status == 403,
                "A request without the header field must get 403."
            )
            for (name, value) in [
                ("Origin", "https://evil.example"), ("Sec-Fetch-Site", "same-site"), ("Sec-Fetch-Site", "cross-site"),
            ] {
                var fields = WebBrowser.ownPage
                fields[try HTTPField.Name(name).required()] = value
                try ConformanceRow.require(
                    try await browser.send(.get, "/session", to: server, fields).status == 403,
                    "\(name): \(value) must get 403."
                )
            }
            let response = try await browser.send(.get, "/session", to: server, WebBrowser.ownPage)
            try ConformanceRow.require(
                response.status == 200 && response.head.headerFields[.accessControlAllowOrigin] == nil,
                "The application's own page must get a response without CORS headers."
            )
        },
        web("W6", "6.1.3.3 sign-out", "accepts only a POST from the application's own pages") { web, server, browser in
            try await browser.signIn(web, at: server)
            try ConformanceRow.require(
                try await browser.send(.get, "/logout", to: server).status == 405,
                "GET must be rejected."
            )
            try ConformanceRow.require(
                try await browser.send(.post, "/logout", to: server).status == 403,
                "A POST without an origin must be rejected."
            )
            try ConformanceRow.require(
                try await browser.send(.post, "/logout", to: server, [.origin: "https://evil.example"]).status == 403,
                "A POST from another site must be rejected."
            )
            try ConformanceRow.require(try await browser.session(at: server) != nil, "The session must continue.")
            let response = try await browser.send(.post, "/logout", to: server, [.origin: WebEnvironment.origin])
            let location = response.head.headerFields[.location] ?? ""
            try ConformanceRow.require(
                response.status == 303 && location.hasPrefix("\(web.environment.emulator.issuer)/end_session"),
                "The browser must be redirected to the provider's sign-out page."
            )
            try ConformanceRow.require(browser.session == nil, "The cookie must be deleted.")
        },
        web("W7", "6.1.2.2 rejected refresh token", "ends the session") { web, server, browser in
            web.environment.emulator.accessTokenLifetime = 0
            try await browser.signIn(web, at: server)
            let session = try await browser.session(at: server).required()
            web.environment.emulator.endSessions()
            do {
                _ = try await server.freshTokens(for: session)
                throw ConformanceRow.Failure(description: "No tokens may be returned.")
            } catch let error as AuthError where error.code == .loginRequired {}
            try ConformanceRow.require(try await browser.session(at: server) == nil, "The session must end.")
        },
        web("W8", "sign-in in another process", "a sign-in can be completed by any other process") {
            web,
            server,
            browser in
            let target = try await browser.visitProvider(web, at: server, returnTo: "/orders?page=2")
            // No later request reaches the first process.
            let other = try web.process()
            let response = try await browser.send(.get, target, to: other)
            let page = String(decoding: response.body, as: UTF8.self)
            try ConformanceRow.require(
                response.status == 200 && page.contains("url=/orders?page=2"),
                "The browser must be sent to the requested page."
            )
            let third = try await browser.session(at: try web.process())
            try ConformanceRow.require(
                third?.identity?.subject == "248289761001",
                "Every process must find the session."
            )
        },
        web("W9", "session fixation", "a sign-in creates a new identifier, and invalidates the previous one") {
            web,
            server,
            browser in
            // An attacker with a session has injected its identifier into the user's browser.
            let attacker = WebBrowser()
            try await attacker.signIn(web, at: server, user: .bob)
            browser.cookies = attacker.cookies
            try await browser.signIn(web, at: server)
            try ConformanceRow.require(browser.session != attacker.session, "The identifier must be new.")
            try ConformanceRow.require(
                try await attacker.session(at: server) == nil,
                "The attacker's session must end."
            )
            let invented = WebBrowser()
            invented.cookies = ["__Host-Http-authflow": Base64URL.encode([UInt8](repeating: 7, count: 32))]
            try ConformanceRow.require(
                try await invented.session(at: server) == nil,
                "A forged identifier must not have a session."
            )
        },
        web("W10", "sign-in CSRF", "rejects the response to another browser's sign-in") {
            web,
            server,
            browser in
            let attacker = WebBrowser()
            let target = try await attacker.visitProvider(web, at: server, user: .bob)
            _ = try await browser.send(.get, "/login", to: server)
            let response = try await browser.send(.get, target, to: server)
            try ConformanceRow.require(
                response.status == 400 && browser.session == nil,
                "The response must be rejected."
            )
        },
        web("W11", "replayed callback", "accepts a response only once, even if the sign-in failed") {
            web,
            server,
            browser in
            let target = try await browser.visitProvider(web, at: server)
            let cookies = browser.cookies
            try ConformanceRow.require(
                try await browser.send(.get, target, to: server).status == 200,
                "The first response must be accepted."
            )
            let thief = WebBrowser()
            thief.cookies = cookies
            try ConformanceRow.require(
                try await thief.send(.get, target, to: server).status == 400,
                "The second response must be rejected."
            )
            try ConformanceRow.require(thief.session == nil, "The replay must not start a session.")
        },
        web("W12", "two tabs", "both sign-ins of one browser succeed, in any order") { web, server, browser in
            let first = try await browser.visitProvider(web, at: server, returnTo: "/one")
            let second = try await browser.visitProvider(web, at: server, returnTo: "/two")
            for (target, page) in [(second, "/two"), (first, "/one")] {
                let response = try await browser.send(.get, target, to: server)
                try ConformanceRow.require(
                    response.status == 200 && String(decoding: response.body, as: UTF8.self).contains("url=\(page)"),
                    "The browser must be sent to \(page)."
                )
            }
            try ConformanceRow.require(try await browser.session(at: server) != nil, "The user must be signed in.")
            let left = browser.cookies.keys.filter { $0.contains("-login-") }
            try ConformanceRow.require(left.isEmpty, "No sign-in may remain in progress.")
        },
        web("W13", "many tabs", "a browser has at most five sign-ins in progress; a new one replaces the oldest") {
            web,
            server,
            browser in
            for _ in 0..<9 { _ = try await browser.send(.get, "/login", to: server) }
            let slots = browser.cookies.keys.filter { $0.contains("-login-") }
            try ConformanceRow.require(slots.count == 5, "There must be five sign-ins, not \(slots.count).")
        },
        web("W14", "cookie tossing", "ignores the cookie if it is sent twice") { web, server, browser in
            try await browser.signIn(web, at: server)
            var request = browser.request(.get, "/")
            let other = Base64URL.encode([UInt8](repeating: 7, count: 32))
            request.headerFields[.cookie] =
                "__Host-Http-authflow=\(other); __Host-Http-authflow=\(browser.session ?? "")"
            try ConformanceRow.require(try await server.session(of: request) == nil, "There must be no session.")
        },
        web("W15", "RFC 9700 section 4.11 open redirector", "returns only to a page of the application") {
            web,
            server,
            browser in
            let pages = [
                "https://evil.example", "//evil.example", "/\\evil.example", "///evil.example", "\\/evil.example",
                "/%5c..//x/..", "/app/../%CC%81x", "/app/../%CC%81%D8%80/../admin",
                "javascript:alert(1)", "data:text/html,x", "https:/evil.example", "/\tevil", "/%2e%2e/x", "/a/../../x",
                "evil", "",
            ]
            for page in pages {
                let response = try await browser.signIn(web, at: server, returnTo: page)
                let text = String(decoding: response.body, as: UTF8.self)
                try ConformanceRow.require(
                    text.contains("content=\"0;url=/\""),
                    "The return page \(page) must be replaced with the start page."
                )
            }
            let text = String(
                decoding: try await browser.signIn(web, at: server, returnTo: "/a?b=\"><script>").body,
                as: UTF8.self
            )
            try ConformanceRow.require(!text.contains("<script>"), "Text in a URL must not become markup.")
        },
        web("W16", "sign out everywhere", "ends all of the user's sessions in every process, and no other sessions") {
            web,
            server,
            browser in
            let (phone, bob, other) = (WebBrowser(), WebBrowser(), try web.process())
            try await browser.signIn(web, at: server)
            try await phone.signIn(web, at: other)
            try await bob.signIn(web, at: other, user: .bob)
            let session = try await browser.session(at: server).required()
            let list = try await server.sessions(ofUserOf: session)
            try ConformanceRow.require(
                list.count == 2 && list.filter(\.isCurrent).count == 1,
                "Both sessions must be listed."
            )
            let bobs = try await bob.session(at: other).required()
            try await server.endSessions(ofUserOf: session, named: [bobs.name])
            try ConformanceRow.require(
                try await bob.session(at: other) != nil,
                "It must not be possible to end another user's session by its name."
            )
            _ = try await browser.send(.post, "/logout?everywhere=1", to: server, [.origin: WebEnvironment.origin])
            for (browser, isSignedIn) in [(browser, false), (phone, false), (bob, true)] {
                for process in [server, other] {
                    try ConformanceRow.require(
                        try await (browser.session(at: process) != nil) == isSignedIn,
                        "Only Alice's sessions must end."
                    )
                }
            }
        },
        web("W17", "idle and absolute timeout", "a session expires when idle, and after its maximum lifetime") {
            web,
            _,
            _ in
            let time = VirtualTime()
            let store = MemoryTokenStore(host: time.host)
            let web = WebEnvironment(web.environment, store: store)
            let server = try web.process { ($0.idleTime, $0.lifetime) = (.seconds(600), .seconds(1500)) }
            let (idle, busy) = (WebBrowser(), WebBrowser())
            try await idle.signIn(web, at: server)
            try await busy.signIn(web, at: server)
            var seen: [[Bool]] = []
            for _ in 0..<4 {
                time.advance(by: .seconds(400))
                let process = try web.process { ($0.idleTime, $0.lifetime) = (.seconds(600), .seconds(1500)) }
                let isBusy = try await busy.session(at: process) != nil
                // A script on an abandoned page requests the session information.
                let status = try await idle.send(.get, "/session", to: process, WebBrowser.ownPage).status
                seen.append([isBusy, status == 200])
            }
            try ConformanceRow.require(
                seen == [[true, true], [true, false], [true, false], [false, false]],
                "An active session must end after its lifetime, and an idle session before that: \(seen)."
            )
        },
        web("W18", "a grant for one resource", "is stored, found and refreshed like any other") { web, _, browser in
            let server = try web.process(registration: { $0.resources = ["https://api.example.com"] })
            try await browser.signIn(web, at: server)
            let session = try await browser.session(at: server).required()
            let own = try await server.freshTokens(for: session)
            let named = try await server.freshTokens(for: session, resource: "https://api.example.com")
            try ConformanceRow.require(
                own.accessToken == named.accessToken,
                "The session's token must be used, not exchanged for another."
            )
            _ = try await browser.send(
                .post,
                "/logout",
                to: server,
                [.origin: WebEnvironment.origin],
                body: Array("everywhere=1".utf8)
            )
            try ConformanceRow.require(try await browser.session(at: server) == nil, "The session must end.")
        },
        web("W19", "a stolen identifier", "becomes invalid at the next sign-in, even if not sent to the callback") {
            web,
            server,
            browser in
            try await browser.signIn(web, at: server)
            let thief = WebBrowser()
            thief.cookies = browser.cookies
            try await browser.signIn(web, at: try web.process())
            try ConformanceRow.require(
                try await thief.session(at: server) == nil,
                "The previous identifier must not have a session."
            )
            try ConformanceRow.require(
                try await browser.session(at: server) != nil,
                "The new identifier must have a session."
            )
        },
        web("W20", "tabs restored simultaneously", "complete separate sign-ins") { web, server, browser in
            let cookies = browser.cookies
            var targets: [String] = []
            var collected = cookies
            for _ in 0..<3 {
                // No tab has the cookies of the other tabs.
                browser.cookies = cookies
                targets.append(try await browser.visitProvider(web, at: server))
                collected.merge(browser.cookies) { $1 }
            }
            browser.cookies = collected
            for target in targets {
                try ConformanceRow.require(
                    try await browser.send(.get, target, to: server).status == 200,
                    "Each sign-in must be completed."
                )
            }
        },
        web("W21", "sign-out everywhere, from a form", "also reads the parameter from the body") {
            web,
            server,
            browser in
            let phone = WebBrowser()
            try await browser.signIn(web, at: server)
            try await phone.signIn(web, at: server)
            var fields: HTTPFields = [.origin: "null"]
            fields[try HTTPField.Name("Sec-Fetch-Site").required()] = "same-origin"
            _ = try await browser.send(.post, "/logout", to: server, fields, body: Array("everywhere=1".utf8))
            try ConformanceRow.require(try await phone.session(at: server) == nil, "The other session must end.")
        },
        web("W23", "6.1.3.6 nested routes", "cannot be bypassed with another spelling of a path") { web, _, browser in
            let asked = Mutex(0)
            let transport = APITransport(web.environment.transport) { _, _ in
                asked.withLock { $0 += 1 }
                return TransportResponse(head: HTTPResponse(status: .ok))
            }
            let server = try web.process(transport: transport)
            let proxy = ResourceProxy(
                server: server,
                routes: [
                    try .init("/api/", to: Endpoint("https://api.example.com/"), methods: [.get, .delete]),
                    try .init("/api/admin/", to: Endpoint("https://api.example.com/admin/")),
                ]
            )
            try await browser.signIn(web, at: server)
            for (path, status) in [
                ("%61dmin/x", 400), ("%61dmin/%FF", 400), ("admi%6e/x", 400), ("admin;a=b/x", 400),
                ("admin%3Ba/x", 400), (";a/admin/x", 400), ("ADMIN/x", 400), ("admin", 400),
                ("%61dmin/%CC%81x", 400), ("a%0d%0ab", 400), ("a%0ab", 400), ("a%7f", 400), ("admin/x", 405),
                ("administrators/7", 200), ("%C3%A9", 200),
            ] {
                let found = await proxy.response(to: browser.request(.delete, "/api/\(path)", WebBrowser.ownPage))?
                    .status
                try ConformanceRow.require(found == status, "\(path) must get \(status), not \(found ?? 0).")
            }
            try ConformanceRow.require(asked.withLock { $0 } == 2, "Only the last two may reach the API.")
        },
        web("W24", "6.1.3.6 header fields", "forwards only listed fields, in both directions") { web, _, browser in
            let seen = Mutex<Set<String>>([])
            let control = Mutex<String?>(nil)
            let transport = APITransport(web.environment.transport) { request, _ in
                seen.withLock { $0 = Set(request.headerFields.map(\.name.canonicalName)) }
                var head = HTTPResponse(status: request.headerFields[.ifNoneMatch] == nil ? .ok : .notModified)
                for name in [
                    "Clear-Site-Data", "WWW-Authenticate", "Alt-Svc", "Refresh", "Service-Worker-Allowed", "Link",
                    "Set-Cookie", "Content-Security-Policy", "Access-Control-Allow-Origin", "X-Secret", "ETag",
                ] {
                    if let field = HTTPField.Name(name) { head.headerFields[field] = "\"1\"" }
                }
                head.headerFields[.cacheControl] = control.withLock { $0 }
                return TransportResponse(head: head)
            }
            let server = try web.process(transport: transport)
            let proxy = ResourceProxy(
                server: server,
                routes: [
                    try .init(
                        "/api/",
                        to: Endpoint("https://api.example.com/"),
                        forwardedFields: [try HTTPField.Name("X-Request-ID").required()]
                    )
                ]
            )
            try await browser.signIn(web, at: server)
            var fields = WebBrowser.ownPage
            for name in [
                "X-Original-URL", "X-Rewrite-URL", "X-HTTP-Method-Override", "X-Forwarded-User", "X-Real-IP",
                "Client-IP", "SSL-Client-Cert", "Via", "Accept", "X-Request-ID",
            ] {
                if let field = HTTPField.Name(name) { fields[field] = "x" }
            }
            var response = await proxy.response(to: browser.request(.get, "/api/x", fields))
            try ConformanceRow.require(
                seen.withLock { $0 } == ["accept", "x-request-id", "via", "authorization", "accept-encoding"],
                "The API received the wrong fields: \(seen.withLock { $0 })."
            )
            try ConformanceRow.require(
                Set((response?.head.headerFields ?? [:]).map(\.name.canonicalName))
                    == ["etag", "cache-control", "vary", "content-security-policy", "x-content-type-options"],
                "The page received the wrong fields: \((response?.head.headerFields ?? [:]).map(\.name.canonicalName))."
            )
            // A navigation is rejected, and must not be served the response that was cached for a script.
            try ConformanceRow.require(
                response?.head.headerFields[.vary]?.contains("X-AuthFlow") == true
                    && response?.head.headerFields[.contentSecurityPolicy]?.hasPrefix("sandbox") == true,
                "A response must not be rendered as a page of the application."
            )
            for (sent, returned) in [
                (nil, "private, no-cache"), ("public, s-maxage=60, max-age=5", "private, max-age=5"),
                ("no-store", "private, no-store"),
                // A reverse proxy must not compress, and thereby delay, an event stream.
                ("no-cache, No-Transform", "private, no-cache, no-transform"),
                ("no-transform", "private, no-cache, no-transform"),
            ] {
                control.withLock { $0 = sent }
                response = await proxy.response(to: browser.request(.get, "/api/x", fields))
                let found = response?.head.headerFields[.cacheControl]
                try ConformanceRow.require(
                    found == returned,
                    "Cache-Control must be \(returned), not \(found ?? "none")."
                )
            }
            try ConformanceRow.require(
                response?.head.headerFields[.vary]?.hasSuffix("Cookie") == true,
                "Responses must vary with the cookie."
            )
            fields[.ifNoneMatch] = "\"1\""
            response = await proxy.response(to: browser.request(.get, "/api/x", fields))
            try ConformanceRow.require(response?.status == 304, "A page must be able to revalidate (304).")
            do {
                _ = try ResourceProxy.Route("/a/", to: Endpoint("https://a.example/"), forwardedFields: [.cookie])
                throw ConformanceRow.Failure(description: "The session cookie must not be forwarded.")
            } catch is AuthError {}
        },
        web("W22", "6.1.3.6 proxy", "sends only to listed APIs and paths, with the token and without the cookie") {
            web,
            server,
            browser in
            let issuer = web.environment.emulator.issuer
            let proxy = ResourceProxy(
                server: server,
                routes: [try ResourceProxy.Route("/api/", to: try Endpoint("\(issuer)/"))]
            )
            let url = "/api/userinfo"
            let anonymous = await proxy.response(to: browser.request(.get, url, WebBrowser.ownPage))
            try ConformanceRow.require(anonymous?.status == 401, "A request without a session must get 401.")
            try await browser.signIn(web, at: server)
            try ConformanceRow.require(
                await proxy.response(to: browser.request(.get, url))?.status == 403,
                "A request without the header field must get 403."
            )
            let count = web.environment.emulator.requests.count
            let paths = [
                "/api/../admin", "/api/%2e%2e/admin", "/api/a//b", "/api/..%2fadmin", "/api/a%5cb", "/api/a\\b",
                "/api/a%2fb", "/api/..;/admin", "/api/..;%CC%81/admin", "/api/../%CC%81x", "/api/%25252e%25252e/admin",
                "/api/%2e%2e;x=1/admin", "/api/.;/a", "/api/%252e%252e/admin", "/api/..%252fadmin",
                "/api//evil.example/",
                "/api/a#b", "/api/%00",
            ]
            for path in paths {
                let status = await proxy.response(to: browser.request(.get, path, WebBrowser.ownPage))?.status
                try ConformanceRow.require(status == 400, "\(path) must get 400, not \(status ?? 0).")
            }
            let post = await proxy.response(to: browser.request(.post, url, WebBrowser.ownPage))
            try ConformanceRow.require(post?.status == 405, "Only listed methods may be forwarded.")
            try ConformanceRow.require(
                web.environment.emulator.requests.count == count,
                "None of these requests may reach an API."
            )
            try ConformanceRow.require(
                await proxy.response(to: browser.request(.get, "/other")) == nil,
                "Other paths must be left to the application."
            )
            var request = browser.request(.get, url, WebBrowser.ownPage)
            request.headerFields[.authorization] = "Bearer invented"
            let response = await proxy.response(to: request)
            try ConformanceRow.require(
                response?.status == 200,
                "The API must return 200, not \(response?.status ?? 0)."
            )
            let body = String(decoding: response?.body ?? [], as: UTF8.self)
            try ConformanceRow.require(body.contains("248289761001"), "The API must receive the session's token.")
            let fields = web.environment.emulator.receivedRequests.last?.request.headerFields ?? [:]
            let own = try [HTTPField.Name.cookie, .origin, HTTPField.Name("X-AuthFlow").required()]
            try ConformanceRow.require(
                own.allSatisfy { fields[$0] == nil },
                "The API must not receive the page's header fields."
            )
            let signOut = "/api/end_session?client_id=web&post_logout_redirect_uri=\(WebEnvironment.origin)/"
            let redirected = await proxy.response(to: browser.request(.get, signOut, WebBrowser.ownPage))
            try ConformanceRow.require(
                redirected?.status == 502 && redirected?.head.headerFields[.location] == nil,
                "A redirect must be neither followed nor forwarded."
            )
        },
    ]
}

extension Optional {
    /// Returns the value, or fails the row if it is nil.
    func required() throws -> Wrapped {
        guard let self else { throw ConformanceRow.Failure(description: "A required value is nil.") }
        return self
    }
}
