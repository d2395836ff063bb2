import AuthFlow
import AuthFlowOIDC
import AuthFlowServer
import AuthFlowTesting
import ConformanceRows
import Foundation
import HTTPTypes
import Testing

/// The server's pages, and its routes for provider frames, proxies and load balancers.
@Suite struct SessionPageTests {
    private func stale(
        _ server: SessionServer,
        _ languages: String?
    ) async throws -> (response: TransportResponse, page: String) {
        var fields = HTTPFields()
        fields[.acceptLanguage] = languages
        let response = try await WebBrowser().send(.get, "/callback?state=x&code=y", to: server, fields)
        return (response, String(decoding: response.body, as: UTF8.self))
    }

    @Test(arguments: [
        (nil, "en"), ("de-AT,en;q=0.5", "de"), ("fr, de;q=0.2, en;q=0.1", "de"), ("en;q=0.3, de;q=0.9", "de"),
        ("fr", "en"),
        ("de;q=0", "en"), ("DE", "de"), (";;;,q=", "en"), ("de\u{301}", "en"),
        (String(repeating: "x,", count: 5000) + "de", "en"),
    ]) func aPageUsesTheBrowsersPreferredLanguage(_ languages: String?, _ expected: String) async throws {
        try await WebEnvironment.run { web in
            let (response, page) = try await stale(try web.process(), languages)
            #expect(response.status == 400)
            #expect(page.contains("<html lang=\"\(expected)\">"))
            #expect(page.contains(expected == "de" ? "Bitte neu anmelden" : "Sign in again"))
        }
    }

    @Test(arguments: [("pt-PT", "pt-PT"), ("PT-br", "pt-BR"), ("pt-AO", "pt-BR"), ("fr, pt-PT;q=0.5", "pt-PT")])
    func aPageUsesTheBrowsersPreferredRegion(_ languages: String, _ expected: String) async throws {
        try await WebEnvironment.run { web in
            let server = try web.process { options in
                options.pages.texts = ["en", "pt-BR", "pt-PT"].map { language in
                    var texts = PageTexts.english
                    texts.language = language
                    return texts
                }
            }
            let (_, page) = try await stale(server, languages)
            #expect(page.contains("<html lang=\"\(expected)\">"))
        }
    }

    @Test func aPageHasTheApplicationNameLinksAndSecurityHeaders() async throws {
        try await WebEnvironment.run { web in
            let server = try web.process(options: { $0.pages.applicationName = "Orders <&>" })
            let (response, page) = try await stale(server, nil)
            #expect(page.contains("Orders &lt;&amp;&gt;"))
            #expect(page.contains("href=\"/login\"") && page.contains("href=\"/\""))
            #expect(page.contains("width=device-width") && page.contains("color-scheme"))
            #expect(response.head.headerFields[.cacheControl] == "no-store")
            let policy = response.head.headerFields[.contentSecurityPolicy] ?? ""
            #expect(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"))
        }
    }

    @Test func theApplicationCanRenderCustomPages() async throws {
        try await WebEnvironment.run { web in
            let server = try web.process { options in
                options.pages.render = { page in
                    guard page.reason == .stale else { return nil }
                    return TransportResponse(
                        head: HTTPResponse(status: page.status),
                        body: Array("\(page.title)|\(page.links.map(\.url).joined(separator: "|"))".utf8)
                    )
                }
            }
            let (response, page) = try await stale(server, nil)
            #expect(page == "Sign in again|/login|/")
            #expect(response.head.headerFields[.cacheControl] == "no-store")
            let browser = WebBrowser()
            let signedIn = try await browser.signIn(web, at: server)
            #expect(String(decoding: signedIn.body, as: UTF8.self).contains("<title>Signed in</title>"))
            #expect(browser.session != nil)
        }
    }

    @Test(arguments: [
        (nil, "/login"), ("/", "/login"),
        ("/orders?page=2&sort=date", "/login?return_to=%2Forders%3Fpage%3D2%26sort%3Ddate"),
    ]) func theSignInLinkAfterAFailedSignInReturnsToTheRequestedPage(_ page: String?, _ link: String) async throws {
        try await WebEnvironment.run { web in
            for isRefused in [true, false] {
                let server = try web.process { options in
                    options.hooks.onSignIn = { _ in
                        guard isRefused else { throw AuthError(.networkFailed, "The users cannot be read.") }
                        return .refuse("Ask the administrator.")
                    }
                }
                let response = try await WebBrowser().signIn(web, at: server, returnTo: page)
                #expect(response.status == (isRefused ? 403 : 500))
                #expect(String(decoding: response.body, as: UTF8.self).contains("href=\"\(link)\""))
            }
            let server = try web.process(transport: DeadTransport())
            let target = "/login" + (page.map { "?\(FormURLEncoding.encodeQuery(["return_to": $0]))" } ?? "")
            let response = try await WebBrowser().send(.get, target, to: server)
            #expect(response.status == 502)
            #expect(String(decoding: response.body, as: UTF8.self).contains("href=\"\(link)\""))
        }
    }

    // MARK: Front-channel logout

    private static let frontChannel = "/frontchannel-logout"

    private func query(_ issuer: String?, _ session: String?) -> String {
        var query = FormParameters()
        if let issuer { query.append("iss", issuer) }
        if let session { query.append("sid", session) }
        return FormURLEncoding.encodeQuery(query)
    }

    @Test func frontChannelLogoutEndsOnlyTheSessionWithTheMatchingSid() async throws {
        try await WebEnvironment.run { web in
            let server = try web.process(options: { $0.frontChannelLogoutPath = Self.frontChannel })
            let (alice, bob) = (WebBrowser(), WebBrowser())
            try await alice.signIn(web, at: server)
            try await bob.signIn(web, at: server, user: .bob)
            let name = try #require(try await alice.session(at: server)?.authentication?.sessionID)
            let issuer = web.environment.emulator.issuer
            let wrong = [
                query(issuer, nil), query(nil, name), query("https://evil.example", name),
                "\(query(issuer, name))&sid=x",
                query(issuer, String(repeating: "a", count: 4097)),
            ]
            for wrong in wrong {
                let response = try await WebBrowser().send(.get, "\(Self.frontChannel)?\(wrong)", to: server)
                #expect(response.status == 400, "\(wrong)")
            }
            // Back-channel logout accepts it, too.
            let long = query(issuer, String(repeating: "a", count: 257))
            #expect(try await WebBrowser().send(.get, "\(Self.frontChannel)?\(long)", to: server).status == 200)
            #expect(try await alice.session(at: server) != nil)
            let target = "\(Self.frontChannel)?\(query(issuer, name))"
            let image = try await WebBrowser().send(.get, target, to: server, Self.fields(["Sec-Fetch-Dest": "image"]))
            #expect(image.status == 403)
            let response = try await WebBrowser().send(.get, target, to: server)
            #expect(response.status == 200)
            #expect(response.head.headerFields[.contentSecurityPolicy]?.contains("frame-ancestors \(issuer)") == true)
            #expect(try await alice.session(at: try web.process()) == nil)
            #expect(try await bob.session(at: server) != nil)
        }
    }

    /// The `iss` of the request is the issuer of the tenant's ID Tokens, which differs from the server's issuer.
    @Test func frontChannelLogoutEndsTheSessionOfATenantsUser() async throws {
        try await WebEnvironment.run { web in
            let emulator = web.environment.emulator
            let template = "\(emulator.issuer)/{tenant}"
            let rule = try TokenIssuerTemplate(template, claim: "tid", tenants: ["first", "second"])
            emulator.tenancy = .init(template: template, claim: "tid", tenant: "first")
            let server = try web.process(
                OIDCProvider(issuer: emulator.issuer, tokenIssuer: rule),
                options: { $0.frontChannelLogoutPath = Self.frontChannel }
            )
            let browser = WebBrowser()
            try await browser.signIn(web, at: server)
            let name = try #require(try await browser.session(at: server)?.authentication?.sessionID)
            for (tenant, status, isSignedIn) in [("third", 400, true), ("second", 200, true), ("first", 200, false)] {
                let issuer = "\(emulator.issuer)/\(tenant)"
                let target = "\(Self.frontChannel)?\(query(issuer, name))"
                let response = try await WebBrowser().send(.get, target, to: server)
                #expect(response.status == status, "\(tenant)")
                #expect(try await (browser.session(at: server) != nil) == isSignedIn, "\(tenant)")
            }
        }
    }

    @Test func frontChannelLogoutByATenantSucceedsDuringAnOutageOfAnotherProvider() async throws {
        try await WebEnvironment.run { web in
            let issuer = web.environment.emulator.issuer
            let rule = try TokenIssuerTemplate("\(issuer)/{tenant}", claim: "tid", tenants: ["first"])
            func provider(_ name: String, _ server: AuthorizationServer) throws -> SessionProvider {
                var values = ClientRegistration.Values(clientID: WebEnvironment.client.id)
                values.authentication = .clientSecretBasic(Secret(WebEnvironment.client.secret ?? ""))
                values.redirectURIs = [try RedirectURI("\(WebEnvironment.origin)/callback/\(name)")]
                let client = OAuthClient(server: server, registration: try ClientRegistration(values))
                return SessionProvider(name, client: client)
            }
            let dead = AuthorizationServer(issuer: "https://dead.example.com", transport: DeadTransport())
            let own = web.environment.server(OIDCProvider(issuer: issuer, tokenIssuer: rule))
            var options = SessionServerOptions(origin: WebEnvironment.origin)
            options.frontChannelLogoutPath = Self.frontChannel
            let server = try SessionServer(
                providers: [try provider("dead", dead), try provider("own", own)],
                store: MemoryTokenStore(),
                options: options
            )
            for (tenant, status) in [("first", 200), ("second", 503)] {
                let target = "\(Self.frontChannel)?\(query("\(issuer)/\(tenant)", "session"))"
                #expect(try await WebBrowser().send(.get, target, to: server).status == status, "\(tenant)")
            }
        }
    }

    /// If the provider's clock is ahead, a sign-in appears to be later than a logout that followed it.
    @Test func frontChannelLogoutEndsASignInInProgressDespiteClockSkew() async throws {
        try await WebEnvironment.run { web in
            let host = HostServices(now: { Date() - 30 })
            let other = try web.process(host: host, options: { $0.frontChannelLogoutPath = Self.frontChannel })
            let issuer = web.environment.emulator.issuer
            let server = try web.process(
                host: host,
                options: { options in
                    options.frontChannelLogoutPath = Self.frontChannel
                    options.hooks.onSignIn = { signIn in
                        let name = signIn.credential.authentication?.sessionID
                        let target = "\(Self.frontChannel)?\(query(issuer, name))"
                        let response = try await WebBrowser().send(.get, target, to: other)
                        #expect(response.status == 200)
                        return .accept
                    }
                }
            )
            let browser = WebBrowser()
            #expect(try await browser.signIn(web, at: server).status == 400)
            #expect(browser.session == nil)
        }
    }

    @Test func theFrontChannelLogoutRouteIsDisabledByDefault() async throws {
        try await WebEnvironment.run { web in
            let request = WebBrowser().request(.get, "\(Self.frontChannel)?iss=a&sid=b")
            let server = try web.process()
            #expect(await server.response(to: request) == nil)
        }
    }

    // MARK: Forward-auth

    private static func fields(_ values: KeyValuePairs<String, String>) -> HTTPFields {
        var fields = HTTPFields()
        for (name, value) in values { HTTPField.Name(name).map { fields[$0] = value } }
        return fields
    }

    @Test func forwardAuthReturnsIdentityHeadersOnlyForASignedInUser() async throws {
        try await WebEnvironment.run { web in
            let (server, browser) = (try web.process(), WebBrowser())
            try await browser.signIn(web, at: server)
            let name = { HTTPField.Name($0)! }
            let auth = ForwardAuth(
                server: server,
                fields: [
                    name("X-User"): .subject, name("X-Name"): .claim("name"),
                    .authorization: .accessToken,
                ]
            )
            let session = try #require(try await browser.session(at: server))
            let response = await auth.response(to: browser.request(.get, "/forward-auth?x=1"))
            #expect(response?.status == 204)
            #expect(response?.head.headerFields[name("X-User")] == session.identity?.subject)
            #expect(response?.head.headerFields[name("X-Name")] == session.identity?.name)
            #expect(response?.head.headerFields[.authorization]?.hasPrefix("Bearer ") == true)
            let unknown = await auth.response(
                to: WebBrowser().request(.get, "/forward-auth", Self.fields(["X-User": "admin"]))
            )
            #expect(unknown?.status == 401)
            #expect(unknown?.head.headerFields[name("X-Sign-In")] == "/login")
            for (page, path) in [
                ("/wiki/My%20Page?x=1&y=2", "/login?return_to=%2Fwiki%2FMy%2520Page%3Fx%3D1%26y%3D2"),
                ("//evil.example/", "/login"),
            ] {
                let fields = Self.fields(["X-Original-URI": page])
                let response = await auth.response(to: WebBrowser().request(.get, "/forward-auth", fields))
                #expect(response?.head.headerFields[name("X-Sign-In")] == path)
            }
            // A user without the configured claim is rejected, because the application would receive a request
            // without a user.
            let lacking = ForwardAuth(server: server, fields: [name("X-User"): .claim("absent")])
            #expect(await lacking.response(to: browser.request(.get, "/forward-auth"))?.status == 403)
            #expect(unknown?.head.headerFields[name("X-User")] == nil)
            #expect(await auth.response(to: browser.request(.get, "/forward-auth/x")) == nil)
        }
    }

    /// The application behind the proxy would receive another field, or another user's name.
    @Test(arguments: [
        ("Vertrieb S\u{FC}d", 204), ("staff\r\nX-User: admin", 403), ("staff\n", 403), ("st\u{7F}aff", 403),
        (" staff", 403), ("staff ", 403), ("", 403),
    ]) func forwardAuthRejectsAClaimThatIsNotAValidFieldValue(_ claim: String, _ status: Int) async throws {
        try await WebEnvironment.run { web in
            web.environment.emulator.fault = .idToken(.claim("team", .string(claim)))
            let (server, browser) = (try web.process(), WebBrowser())
            try await browser.signIn(web, at: server)
            let name = try #require(HTTPField.Name("X-Team"))
            let auth = ForwardAuth(server: server, fields: [name: .claim("team")])
            let response = await auth.response(to: browser.request(.get, "/forward-auth"))
            #expect(response?.status == status)
            #expect(response?.head.headerFields[name] == (status == 204 ? claim : nil))
        }
    }

    /// With Lax cookies, a request from a cross-site page may contain the session cookie, so the method is checked.
    @Test(arguments: [
        ("POST", "cross-site", 403), ("GET", "cross-site", 204), ("HEAD", "cross-site", 204),
        ("get", "cross-site", 403),
        ("", "cross-site", 403), ("POST", "same-origin", 204), ("POST", "", 204), ("GET, POST", "cross-site", 403),
    ]) func forwardAuthRejectsCrossSiteRequestsOtherThanGetAndHead(_ method: String, _ site: String, _ status: Int)
        async throws
    {
        try await WebEnvironment.run { web in
            let (server, browser) = (try web.process(options: { $0.sameSite = .lax }), WebBrowser())
            try await browser.signIn(web, at: server)
            var fields = HTTPFields()
            if !method.isEmpty { HTTPField.Name("X-Original-Method").map { fields[$0] = method } }
            if !site.isEmpty { HTTPField.Name("Sec-Fetch-Site").map { fields[$0] = site } }
            let auth = ForwardAuth(server: server, fields: [:])
            #expect(await auth.response(to: browser.request(.get, "/forward-auth", fields))?.status == status)
        }
    }

    /// A page on a sibling host can open a WebSocket with the Strict cookie. The handshake is a GET request with an
    /// Origin header.
    @Test func forwardAuthRejectsAWebSocketHandshakeFromAnotherOrigin() async throws {
        try await WebEnvironment.run { web in
            let (server, browser) = (try web.process(), WebBrowser())
            try await browser.signIn(web, at: server)
            let auth = ForwardAuth(server: server, fields: [:])
            for (origin, status) in [("https://other.example.com", 403), (WebEnvironment.origin, 204)] {
                let fields = Self.fields(["X-Original-Method": "GET", "Origin": origin])
                #expect(await auth.response(to: browser.request(.get, "/forward-auth", fields))?.status == status)
            }
        }
    }

    /// With Lax cookies, a link on another site opens the page with the session cookie. Without a page that asks the user, the sign-in route and
    /// the page would redirect to each other.
    @Test(arguments: ["cross-site", "none"])
    func forwardAuthCausesNoRedirectLoopIfTheAccessTokenCannotBeRefreshed(_ site: String) async throws {
        try await WebEnvironment.run { web in
            func process(_ host: HostServices = .system) throws -> SessionServer {
                try web.process(
                    host: host,
                    options: { $0.sameSite = .lax },
                    registration: { $0.scopes = ["openid", "profile"] }
                )
            }
            let browser = WebBrowser()
            try await browser.signIn(web, at: try process())
            // The access token has expired.
            let server = try process(HostServices(now: { Date() + 86_400 }))
            #expect(try await browser.session(at: server) != nil)
            let auth = ForwardAuth(server: server, fields: [.authorization: .accessToken])
            var fields = Self.fields(["X-Original-URI": "/wiki", "X-Original-Method": "GET", "Sec-Fetch-Site": site])
            let response = await auth.response(to: browser.request(.get, "/forward-auth", fields))
            #expect(response?.status == 401)
            let target = try #require(response?.head.headerFields[HTTPField.Name("X-Sign-In")!])
            #expect(target == "/login?return_to=%2Fwiki&renew=1")
            fields = Self.fields(["Sec-Fetch-Dest": "document", "Sec-Fetch-Site": site])
            let next = try await browser.send(.get, target, to: server, fields)
            guard site == "none" else {
                let page = String(decoding: next.body, as: UTF8.self)
                #expect(next.status == 200 && page.contains("/login?return_to=%2Fwiki\""), "\(page)")
                return
            }
            let location = next.head.headerFields[.location] ?? ""
            #expect(next.status == 303 && location.hasPrefix(web.environment.emulator.issuer), "\(location)")
        }
    }

    // MARK: Readiness

    @Test func aProcessIsReadyUntilItStartsShuttingDown() async throws {
        try await WebEnvironment.run { web in
            let server = try web.process()
            #expect(await server.readiness().isReady)
            _ = await server.drain(within: .seconds(1))
            #expect(await server.readiness().problems == ["The process is shutting down."])
        }
    }

    @Test func aProcessWithoutProviderMetadataIsNotReady() async throws {
        try await WebEnvironment.run { web in
            let server = try web.process(transport: DeadTransport())
            let readiness = await server.readiness()
            #expect(readiness.problems.count == 1 && readiness.problems[0].contains("metadata"))
        }
    }
}

private struct DeadTransport: HTTPTransport {
    func send(_ call: TransportRequest) async throws -> TransportResponse {
        throw AuthError(.networkFailed, "No route.")
    }
}
