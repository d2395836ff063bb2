import AuthFlow
import AuthFlowJSON
import AuthFlowServer
import AuthFlowTesting
import ConformanceRows
import Expectations
import Foundation
import HTTPTypes
import Synchronization
import Testing

/// Sign-ins with additional parameters: from the application, from the URL, for a step-up and without user interaction.
@Suite struct SessionSignInTests {
    private static let navigation: HTTPFields = fields(["Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none"])
    private static let fromElsewhere: HTTPFields = fields([
        "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate",
    ])

    private static func fields(_ values: KeyValuePairs<String, String>) -> HTTPFields {
        var fields = HTTPFields()
        for (name, value) in values { HTTPField.Name(name).map { fields[$0] = value } }
        return fields
    }

    /// The parameters of the authorization request in a redirect response.
    private func parameters(_ response: TransportResponse, _ web: WebEnvironment) throws -> FormParameters {
        #expect(response.status == 303)
        return web.environment.emulator.parameters(ofRequestAt: try #require(response.head.headerFields[.location]))
    }

    /// The browser does not send the session cookie with the provider's redirect.
    @Test func aSignInEndsTheSessionsThatTheBrowsersOtherSignInsHaveStarted() async throws {
        try await WebEnvironment.run { web in
            let (server, browser) = (try web.process(), WebBrowser())
            try await browser.signIn(web, at: server)
            var sessions = [browser.session]
            var targets: [String] = []
            for _ in 0..<3 { targets.append(try await browser.visitProvider(web, at: server)) }
            for target in targets {
                #expect(try await browser.send(.get, target, to: server).status == 200)
                sessions.append(browser.session)
            }
            #expect(Set(sessions).count == 4)
            for session in sessions {
                let other = WebBrowser()
                other.cookies["__Host-Http-authflow"] = session
                #expect(try await (other.session(at: server) != nil) == (session == browser.session))
            }
        }
    }

    /// Anyone can start sign-ins and send responses with invalid codes, so they must not use up the connections to the provider.
    @Test(.timeLimit(.minutes(1))) func onlyALimitedNumberOfResponsesIsHandledConcurrently() async throws {
        try await WebEnvironment.run { web in
            let waiting = Atomic(0)
            let gate = AsyncStream<Void>.makeStream()
            let opened = Task { for await _ in gate.stream {} }
            let transport = TokenGate(base: web.environment.transport) {
                waiting.add(1, ordering: .sequentiallyConsistent)
                await opened.value
            }
            let server = try web.process(transport: transport)
            var browsers: [(WebBrowser, String)] = []
            for _ in 0..<33 {
                let browser = WebBrowser()
                browsers.append((browser, try await browser.visitProvider(web, at: server)))
            }
            let (last, target) = browsers.removeLast()
            try await withThrowingTaskGroup(of: TransportResponse.self) { [browsers] group in
                for (browser, target) in browsers {
                    group.addTask { try await browser.send(.get, target, to: server) }
                }
                while waiting.load(ordering: .sequentiallyConsistent) < 32 { await Task.yield() }
                let rejected = try await last.send(.get, target, to: server)
                #expect(rejected.status == 503)
                #expect(rejected.head.headerFields[.retryAfter] == "2")
                gate.continuation.finish()
                for try await response in group { #expect(response.status == 200) }
            }
            // The rejection did not consume the authorization request.
            #expect(try await last.send(.get, target, to: server).status == 200)
        }
    }

    private struct TokenGate: HTTPTransport {
        let base: any HTTPTransport
        let wait: @Sendable () async throws -> Void

        func send(_ call: TransportRequest) async throws -> TransportResponse {
            if call.head.path == "/token" { try await wait() }
            return try await base.send(call)
        }
    }

    private static let query =
        "prompt=login&max_age=60&acr_values=mfa%20pwd&login_hint=alice%40example.com&ui_locales=de%20en"

    @Test func forwardsOnlyAllowedSignInParametersFromTheURL() async throws {
        try await WebEnvironment.run { web in
            let names = ["prompt", "max_age", "acr_values", "login_hint", "ui_locales"]
            let strict = try await WebBrowser().send(.get, "/login?\(Self.query)", to: try web.process())
            for name in names { #expect(try parameters(strict, web)[name] == nil, "\(name)") }
            let open = try web.process(options: { $0.signInParameters = Set(SignInParameter.allCases) })
            let sent = try parameters(try await WebBrowser().send(.get, "/login?\(Self.query)", to: open), web)
            #expect(names.map { sent[$0] ?? "" } == ["login", "60", "mfa pwd", "alice@example.com", "de en"])
        }
    }

    @Test(arguments: [
        "max_age=-1", "max_age=1e9", "max_age=99999999999", "login_hint=%0a", "login_hint=", "prompt=login&prompt=none",
        "login_hint=\(String(repeating: "a", count: 257))", "redirect_uri=https%3A%2F%2Fevil.example", "scope=admin",
    ]) func ignoresInvalidSignInParametersInTheURL(_ query: String) async throws {
        try await WebEnvironment.run { web in
            let server = try web.process(options: { $0.signInParameters = Set(SignInParameter.allCases) })
            let sent = try parameters(try await WebBrowser().send(.get, "/login?\(query)", to: server), web)
            for name in ["max_age", "login_hint", "prompt"] { #expect(sent[name] == nil) }
            #expect(sent["redirect_uri"] == "\(WebEnvironment.origin)/callback")
            #expect(sent["scope"] == "openid profile offline_access")
        }
    }

    @Test func theApplicationCanStartASignInWithCustomOptions() async throws {
        try await WebEnvironment.run { web in
            let server = try web.process()
            var options = SessionSignInOptions(returnPath: "/orders")
            options.authorization.scopes = ["openid", "orders"]
            options.authorization.parameters["audience"] = "https://api.example.com"
            let response = await server.signIn(WebBrowser().request(.get, "/orders"), options)
            let sent = try parameters(response, web)
            #expect(sent["scope"] == "openid orders")
            #expect(sent["audience"] == "https://api.example.com")
        }
    }

    /// Performs the steps of the browser and the user after a redirect to the provider.
    private func finish(
        _ response: TransportResponse,
        _ browser: WebBrowser,
        _ web: WebEnvironment,
        at server: SessionServer
    ) async throws -> TransportResponse {
        browser.keep(response)
        let url = try #require(response.head.headerFields[.location])
        let callback = String(try await web.environment.visit(url).dropFirst(WebEnvironment.origin.count))
        return try await browser.send(.get, callback, to: server)
    }

    @Test func aStepUpReplacesTheSessionAndPreservesItsData() async throws {
        struct Draft: SessionData { var text = "" }
        try await WebEnvironment.run { web in
            let (server, browser) = (try web.process(), WebBrowser())
            try await browser.signIn(web, at: server)
            let weak = try #require(try await browser.session(at: server))
            try await server.updateData(of: weak) { (draft: inout Draft?) in draft = Draft(text: "to be continued") }
            let requirement = AuthenticationRequirement(acrValues: ["mfa"], maximumAge: .seconds(300))
            let request = browser.request(.get, "/payments?of=may", Self.navigation)
            let response = try #require(await server.stepUp(request, weak, to: requirement))
            let sent = try parameters(response, web)
            #expect(sent["acr_values"] == "mfa" && sent["max_age"] == "300")
            let page = try await finish(response, browser, web, at: server)
            #expect(String(decoding: page.body, as: UTF8.self).contains("url=/payments?of=may\""))
            let strong = try #require(try await browser.session(at: server))
            #expect(strong.authentication?.contextClass == "mfa")
            #expect(await server.stepUp(request, strong, to: requirement) == nil)
            #expect(try await server.data(Draft.self, of: strong)?.text == "to be continued")
            // RFC 10017 section 6.1.3.2, [NIST SP 800-63B]: the session identifier from before the step-up is invalid.
            #expect(strong.name != weak.name)
            #expect(try await server.sessions(ofUserOf: strong).count == 1)
        }
    }

    @Test func aStepUpWithAWeakerAuthenticationLeavesTheSessionUnchanged() async throws {
        try await WebEnvironment.run { web in
            let failures = Mutex<[AuthError.Code]>([])
            let server = try web.process(observer: { event in
                if case .failed(let code?) = event.progress { failures.withLock { $0.append(code) } }
            })
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            let session = try #require(try await browser.session(at: server))
            web.environment.emulator.fault = .idToken(.weakAuthentication)
            let request = browser.request(.get, "/payments", Self.navigation)
            let response = try #require(
                await server.stepUp(request, session, to: AuthenticationRequirement(acrValues: ["mfa"]))
            )
            let page = try await finish(response, browser, web, at: server)
            #expect(page.status == 403)
            #expect(failures.withLock { $0 } == [.insufficientUserAuthentication])
            #expect(try await browser.session(at: server)?.name == session.name)
            #expect(await server.drain(within: .seconds(20)))
            #expect(!web.environment.emulator.requests.contains("POST /revoke"))
        }
    }

    /// The session continues, so the page would fail until the session times out.
    @Test func aPageWhoseAccessTokenCannotBeRefreshedRedirectsToTheProviderAndBack() async throws {
        try await WebEnvironment.run { web in
            let server = try web.process(registration: { $0.scopes = ["openid", "profile"] })
            let later = try web.process(
                host: HostServices(now: { Date() + 7200 }),
                registration: { $0.scopes = ["openid", "profile"] }
            )
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            let session = try #require(try await browser.session(at: later))
            await #expect(throws: AuthError.self) { try await later.freshTokens(for: session) }
            #expect(try await browser.session(at: later) != nil)
            let error = AuthError(.loginRequired, "The access token has expired.")
            let page = browser.request(.get, "/orders?of=may", Self.navigation)
            let script = browser.request(.get, "/orders", WebBrowser.ownPage)
            #expect(await later.response(for: error, to: script, session)?.status == 401)
            #expect(await later.response(for: error, to: page, nil)?.status == 401)
            // The user has just signed in.
            #expect(await server.response(for: error, to: page, session)?.status == 401)
            let response = try #require(await later.response(for: error, to: page, session))
            #expect(response.status == 303)
            let finished = try await finish(response, browser, web, at: server)
            #expect(String(decoding: finished.body, as: UTF8.self).contains("url=/orders?of=may\""))
            #expect(try await browser.session(at: server)?.name != session.name)
        }
    }

    @Test func aStepUpForAScriptReturnsInsufficientUserAuthentication() async throws {
        try await WebEnvironment.run { web in
            let (server, browser) = (try web.process(), WebBrowser())
            try await browser.signIn(web, at: server)
            let session = try #require(try await browser.session(at: server))
            let request = browser.request(.post, "/api/pay", WebBrowser.ownPage)
            let requirement = AuthenticationRequirement(acrValues: ["mfa"], maximumAge: .seconds(60))
            let response = try #require(await server.stepUp(request, session, to: requirement))
            #expect(response.status == 401)
            let json = try JSON(parsing: response.body)
            #expect(json["error"] == "insufficient_user_authentication")
            #expect(json["acr_values"] == "mfa" && json["max_age"] == 60)
            let head = browser.request(.head, "/api/pay", WebBrowser.ownPage)
            let withoutContent = try #require(await server.stepUp(head, session, to: requirement))
            #expect(withoutContent.status == 401 && withoutContent.body.isEmpty)
        }
    }

    @Test(arguments: [
        (HTTPRequest.Method.get, "/account?of=may#x", "/login?return_to=%2Faccount%3Fof%3Dmay%23x"),
        (.get, "//evil.example", "/login"), (.post, "/account", "/login"),
        (.get, "/account?\(String(repeating: "%", count: 1500))", "/login"),
    ])
    func aProtectedPageRedirectsToLoginWithASafeReturnPath(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ location: String
    ) async throws {
        try await WebEnvironment.run { web in
            let server = try web.process()
            let request = WebBrowser().request(method, path, Self.navigation)
            let response = try #require(await server.stepUp(request, nil))
            #expect(response.status == 303)
            #expect(response.head.headerFields[.location] == location)
        }
    }

    @Test func theSignInReturnsToTheProtectedPage() async throws {
        try await WebEnvironment.run { web in
            let (server, browser) = (try web.process(), WebBrowser())
            let request = browser.request(.get, "/account", Self.navigation)
            let redirect = try #require(await server.stepUp(request, nil))
            let login = try #require(redirect.head.headerFields[.location])
            let page = try await finish(try await browser.send(.get, login, to: server), browser, web, at: server)
            #expect(String(decoding: page.body, as: UTF8.self).contains("url=/account\""))
            let session = try await browser.session(at: server)
            #expect(session != nil)
            #expect(await server.stepUp(request, session) == nil)
        }
    }

    @Test(arguments: [(HTTPRequest.Method.get, WebBrowser.ownPage), (.delete, HTTPFields()), (.put, HTTPFields())])
    func anUnauthenticatedScriptRequestReceives401InsteadOfARedirect(_ method: HTTPRequest.Method, _ fields: HTTPFields)
        async throws
    {
        try await WebEnvironment.run { web in
            let request = WebBrowser().request(method, "/api/data", fields)
            let response = try #require(await web.process().stepUp(request, nil))
            #expect(response.status == 401)
            #expect(response.head.headerFields[.location] == nil)
        }
    }

    @Test func aFailedSilentSignInReturnsToTheAppAndPreservesTheSession() async throws {
        try await WebEnvironment.run { web in
            let (server, browser) = (try web.process(), WebBrowser())
            try await browser.signIn(web, at: server)
            let before = browser.session
            var options = SessionSignInOptions(returnPath: "/inbox?folder=1#top")
            options.authorization.prompt = AuthorizationOptions.Prompt.none
            let response = await server.signIn(browser.request(.get, "/"), options)
            #expect(try parameters(response, web)["prompt"] == "none")
            browser.keep(response)
            let url = try #require(response.head.headerFields[.location])
            let callback = String(try await web.environment.visit(url).dropFirst(WebEnvironment.origin.count))
            let page = String(decoding: try await browser.send(.get, callback, to: server).body, as: UTF8.self)
            #expect(page.contains("url=/inbox?folder=1&amp;silent_sign_in=failed#top\""))
            #expect(!page.contains("signed in"))
            #expect(browser.session == before)
            #expect(try await browser.session(at: server) != nil)
        }
    }

    @Test func aSilentSignInThatCannotStartReturnsToTheAppAndPreservesTheSession() async throws {
        try await WebEnvironment.run { web in
            let browser = WebBrowser()
            try await browser.signIn(web, at: try web.process())
            let before = browser.session
            let network = FlakyTransport(web.environment.transport)
            network.takeDown()
            let server = try web.process(transport: network)
            var options = SessionSignInOptions(returnPath: "/inbox")
            options.authorization.prompt = AuthorizationOptions.Prompt.none
            let response = await server.signIn(browser.request(.get, "/"), options)
            #expect(response.status == 200)
            #expect(String(decoding: response.body, as: UTF8.self).contains("url=/inbox?silent_sign_in=failed\""))
            browser.keep(response)
            #expect(browser.session == before)
            #expect(try await browser.session(at: server) != nil)
        }
    }

    /// Starts a silent sign-in at a provider where the user is signed in, and returns the response to the callback.
    private func signInSilently(
        _ browser: WebBrowser,
        _ web: WebEnvironment,
        at server: SessionServer,
        returnTo page: String
    ) async throws -> TransportResponse {
        var options = SessionSignInOptions(returnPath: page)
        options.authorization.prompt = AuthorizationOptions.Prompt.none
        let response = await server.signIn(browser.request(.get, "/"), options)
        browser.keep(response)
        let url = try #require(response.head.headerFields[.location])
        let redirect = try web.environment.emulator.redirect(for: url, as: OIDCEmulator.User.alice.username)
        return try await browser.send(.get, String(redirect.dropFirst(WebEnvironment.origin.count)), to: server)
    }

    /// The user has not started this sign-in, so no page about it is displayed.
    @Test func aSilentSignInThatTheApplicationRefusesReturnsToTheAppAndPreservesTheSession() async throws {
        try await WebEnvironment.run { web in
            let server = try web.process(options: { options in
                options.hooks.onSignIn = { $0.returnPath == "/inbox" ? .refuse("Not now.") : .accept }
            })
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            let before = browser.session
            let page = try await signInSilently(browser, web, at: server, returnTo: "/inbox")
            #expect(page.status == 200)
            #expect(String(decoding: page.body, as: UTF8.self).contains("url=/inbox?silent_sign_in=failed\""))
            #expect(browser.session == before)
            #expect(try await browser.session(at: server) != nil)
        }
    }

    @Test func aSilentSignInThatSucceedsReplacesTheSession() async throws {
        try await WebEnvironment.run { web in
            let (server, browser) = (try web.process(), WebBrowser())
            try await browser.signIn(web, at: server)
            let before = browser.session
            let page = try await signInSilently(browser, web, at: server, returnTo: "/inbox?folder=1")
            #expect(String(decoding: page.body, as: UTF8.self).contains("url=/inbox?folder=1\""))
            let session = try #require(try await browser.session(at: server))
            #expect(browser.session != before)
            #expect(try await server.sessions(ofUserOf: session).count == 1)
        }
    }

    // MARK: Navigations from other sites

    @Test func aCrossSiteLinkResumesTheExistingSession() async throws {
        try await WebEnvironment.run { web in
            let (server, browser) = (try web.process(), WebBrowser())
            try await browser.signIn(web, at: server)
            // The browser does not send the Strict cookie, so the application redirects to the sign-in route.
            let page = try await WebBrowser().send(
                .get,
                "/login?return_to=/orders%3Fid%3D7",
                to: server,
                Self.fromElsewhere
            )
            let body = String(decoding: page.body, as: UTF8.self)
            #expect(page.status == 200)
            #expect(body.contains("url=/login?return_to=/orders%3Fid%3D7&amp;resume=1\""))
            let again = try await browser.send(
                .get,
                "/login?return_to=/orders%3Fid%3D7&resume=1",
                to: server,
                Self.fields(["Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "same-origin"])
            )
            #expect(again.status == 303)
            #expect(again.head.headerFields[.location] == "/orders?id=7")
            let session = try #require(try await browser.session(at: server))
            #expect(try await server.sessions(ofUserOf: session).count == 1)
        }
    }

    /// The invalid URL cannot be requested again, but the navigation still must not replace a session whose Strict cookie
    /// the browser did not send.
    @Test(arguments: ["/login?\\", "/login?x=\(String(repeating: "x", count: 2048))"])
    func aCrossSiteLoginLinkWithAnInvalidURLResumesWithoutItsQuery(_ path: String) async throws {
        try await WebEnvironment.run { web in
            let page = try await WebBrowser().send(.get, path, to: try web.process(), Self.fromElsewhere)
            #expect(page.status == 200)
            #expect(String(decoding: page.body, as: UTF8.self).contains("url=/login?resume=1\""))
        }
    }

    @Test func aCrossSiteLinkWithoutASessionRedirectsToTheProviderOnResume() async throws {
        try await WebEnvironment.run { web in
            let (server, browser) = (try web.process(), WebBrowser())
            // The page does not redirect automatically if the URL already has the marker.
            let marked = try await browser.send(.get, "/login?resume=1", to: server, Self.fromElsewhere)
            #expect(marked.status == 200)
            #expect(!String(decoding: marked.body, as: UTF8.self).contains("http-equiv=\"refresh\""))
            let response = try await browser.send(.get, "/login?resume=1", to: server, Self.navigation)
            #expect(response.status == 303)
            let lax = try web.process(options: { $0.sameSite = .lax })
            #expect(try await WebBrowser().send(.get, "/login", to: lax, Self.fromElsewhere).status == 303)
        }
    }

    /// The browser cannot send the form again with the Strict cookie, so there is no page that continues the sign-in.
    @Test func aSignInStartedByAFormOnAnotherSiteRedirectsToTheProvider() async throws {
        try await WebEnvironment.run { web in
            let request = WebBrowser().request(.post, "/subscribe", Self.fromElsewhere)
            let response = try await web.process().signIn(request)
            #expect(try parameters(response, web)["client_id"] == WebEnvironment.client.id)
        }
    }

    /// Login CSRF: a page on another site cannot replace a user's session with a session of the attacker's choice.
    @Test(arguments: ["login_hint=mallory", "prompt=login&resume=1"], [SessionServerOptions.SameSite.strict, .lax])
    func aCrossSiteLoginLinkCannotReplaceAnExistingSession(_ query: String, _ sameSite: SessionServerOptions.SameSite)
        async throws
    {
        try await WebEnvironment.run { web in
            let server = try web.process(options: {
                $0.sameSite = sameSite
                $0.signInParameters = [.loginHint, .prompt]
            })
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            // The request contains the session cookie: either the cookie is SameSite=Lax, or it is SameSite=Strict
            // and this is the second request of the sign-in.
            let response = try await browser.send(.get, "/login?\(query)", to: server, Self.fromElsewhere)
            #expect(response.status == 200)
            let page = String(decoding: response.body, as: UTF8.self)
            #expect(page.contains("already signed in") && !page.contains("http-equiv"))
            #expect(!page.contains("resume"))
            #expect(try await browser.session(at: server) != nil)
        }
    }

    /// The second request comes from this site, and its mark cannot be found in a query that cannot be decoded.
    @Test(arguments: ["x=%zz", "x=%FF"])
    func aCrossSiteLoginLinkWithAQueryThatCannotBeDecodedPreservesTheSession(_ query: String) async throws {
        try await WebEnvironment.run { web in
            let (server, browser) = (try web.process(), WebBrowser())
            try await browser.signIn(web, at: server)
            let page = try await WebBrowser().send(.get, "/login?\(query)", to: server, Self.fromElsewhere)
            #expect(String(decoding: page.body, as: UTF8.self).contains("url=/login?\(query)&amp;resume=1\""))
            let response = try await browser.send(.get, "/login?\(query)&resume=1", to: server, Self.navigation)
            #expect(response.head.headerFields[.location] == "/")
            #expect(try await browser.session(at: server) != nil)
        }
    }

    /// A page on another site could otherwise start a sign-in in two steps. The second step would be a request from this
    /// site, which needs no confirmation.
    @Test(arguments: [
        "/login", "/login?provider=other", "/%6Cogin", "/login#x", "/callback", "/logout", "/session",
    ])
    func aLoginLinkCannotReturnToAnEndpointOfTheServer(_ path: String) async throws {
        try await WebEnvironment.run { web in
            let server = try web.process()
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            let query = FormURLEncoding.encodeQuery(["return_to": path, "resume": "1"])
            let response = try await browser.send(.get, "/login?\(query)", to: server, Self.fromElsewhere)
            #expect(response.head.headerFields[.location] == "/")
            #expect(try await browser.session(at: server) != nil)
        }
    }

    @Test(arguments: [
        "//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:alert(1)", "/a\u{0}b",
        "/a\r\nSet-Cookie: a=b",
    ]) func replacesAnUnsafeReturnPathWithTheStartPage(_ path: String) async throws {
        try await WebEnvironment.run { web in
            let (server, browser) = (try web.process(), WebBrowser())
            let requirement = AuthenticationRequirement(acrValues: ["mfa"])
            let options = SessionSignInOptions(returnPath: path, requirement: requirement)
            web.environment.emulator.fault = .idToken(.weakAuthentication)
            let refused = try await finish(
                await server.signIn(browser.request(.get, "/"), options),
                browser,
                web,
                at: server
            )
            // The requirement of the options is stored with the sign-in, and the weak authentication does not meet it.
            #expect(refused.status == 403 && browser.session == nil)
            web.environment.emulator.fault = nil
            let response = try await finish(
                await server.signIn(browser.request(.get, "/"), options),
                browser,
                web,
                at: server
            )
            #expect(String(decoding: response.body, as: UTF8.self).contains("content=\"0;url=/\""))
        }
    }

    @Test(arguments: [
        ("/app/orders?id=7", "/app/orders?id=7"), ("/help/", "/help/"), ("/admin", "/"), ("/apps", "/"),
        ("/a?/app/", "/"), ("/app/../admin", "/"), ("/app/%2e%2e/admin", "/"),
    ]) func theSignInReturnsOnlyToAPathWithAnAllowedPrefix(_ path: String, _ expected: String) async throws {
        try await WebEnvironment.run { web in
            let server = try web.process(options: { $0.returnPrefixes = ["/app/", "/help/"] })
            let response = try await WebBrowser().signIn(web, at: server, returnTo: path)
            #expect(String(decoding: response.body, as: UTF8.self).contains("content=\"0;url=\(expected)\""))
        }
    }

    @Test func aMaximumAgeOfZeroIsMetByANewSignIn() async throws {
        try await WebEnvironment.run { web in
            let (server, browser) = (try web.process(), WebBrowser())
            try await browser.signIn(web, at: server)
            let session = try #require(try await browser.session(at: server))
            let now = AuthenticationRequirement(maximumAge: .zero)
            #expect(server.isMet(now, by: session))
            let options = SessionSignInOptions(requirement: now)
            let response = await server.signIn(browser.request(.get, "/"), options)
            #expect(try parameters(response, web)["max_age"] == "0")
            _ = try await finish(response, browser, web, at: server)
            #expect(try await browser.session(at: server)?.name != session.name)
        }
    }

    /// The ID Token's `auth_time` is from the provider's clock, which may differ by the client's `clock_leeway`.
    @Test(arguments: [120.0, -120]) func aStepUpSucceedsIfTheClockDiffersByLessThanTheClientsLeeway(_ offset: Double)
        async throws
    {
        try await WebEnvironment.run { web in
            let server = try web.process(
                host: HostServices(now: { Date() + offset }),
                registration: { $0.clockLeeway = .seconds(180) }
            )
            let browser = WebBrowser()
            let requirement = AuthenticationRequirement(maximumAge: .zero)
            let options = SessionSignInOptions(requirement: requirement)
            let start = await server.signIn(browser.request(.get, "/"), options)
            #expect(try await finish(start, browser, web, at: server).status == 200)
            let session = try #require(try await browser.session(at: server))
            #expect(server.isMet(requirement, by: session))
        }
    }

    @Test func rejectsAnInvalidStartPath() async throws {
        try await WebEnvironment.run { web in
            for path in ["/login", "/callback", "https://evil.example/", "//a"] {
                expectError(.invalidConfiguration) { try web.process(options: { $0.startPath = path }) }
            }
        }
    }

    @Test func withSameSiteLaxTheCallbackRedirectsAndSetsALaxCookie() async throws {
        try await WebEnvironment.run { web in
            let (server, browser) = (try web.process(options: { $0.sameSite = .lax }), WebBrowser())
            let response = try await browser.signIn(web, at: server, returnTo: "/orders")
            #expect(response.status == 303)
            #expect(response.head.headerFields[.location] == "/orders")
            let cookies = response.head.headerFields[fields: .setCookie].map(\.value)
            #expect(cookies.contains { $0.hasPrefix("__Host-Http-authflow=") && $0.contains("SameSite=Lax") })
        }
    }

    @Test func theSessionEndpointReturnsOnlyTheConfiguredClaims() async throws {
        try await WebEnvironment.run { web in
            let server = try web.process(options: { $0.sessionClaims = ["email", "preferred_username", "absent"] })
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            let response = try await browser.send(.get, "/session", to: server, WebBrowser.ownPage)
            let claims = try JSON(parsing: response.body)["claims"]?.object ?? [:]
            let session = try #require(try await browser.session(at: server))
            #expect(claims["absent"] == nil && claims["sub"] == nil)
            #expect(claims["preferred_username"] == session.identity?.claims["preferred_username"])
        }
    }
}
