import AuthFlow
import AuthFlowJSON
import AuthFlowServer
import AuthFlowTesting
import ConformanceRows
import Expectations
import HTTPTypes
import Synchronization
import Testing

/// One application whose users sign in at either of two providers.
@Suite struct SeveralProvidersTests {
    private struct Environment: Sendable {
        let staff: EmulatorEnvironment
        let guests: EmulatorEnvironment
        let store = MemoryTokenStore()

        func process(options change: (inout SessionServerOptions) -> Void = { _ in }) throws -> SessionServer {
            func provider(_ name: String, _ environment: EmulatorEnvironment, _ path: String) throws -> SessionProvider
            {
                var values = ClientRegistration.Values(clientID: WebEnvironment.client.id)
                values.authentication = .clientSecretBasic(Secret(WebEnvironment.client.secret ?? ""))
                values.redirectURIs = [try RedirectURI("\(WebEnvironment.origin)/callback/\(path)")]
                values.scopes = ["openid", "offline_access"]
                return SessionProvider(
                    name,
                    client: OAuthClient(server: environment.server(), registration: try ClientRegistration(values)),
                    displayName: name.uppercased()
                )
            }
            var options = SessionServerOptions(origin: WebEnvironment.origin)
            change(&options)
            return try SessionServer(
                providers: [try provider("staff", staff, "staff"), try provider("guests", guests, "guests")],
                store: store,
                options: options
            )
        }
    }

    private func withEnvironment(_ body: @Sendable (Environment) async throws -> Void) async throws {
        var client = WebEnvironment.client
        client.redirectURIs = ["staff", "guests"].map { "\(WebEnvironment.origin)/callback/\($0)" }
        func environment(_ issuer: String) throws -> EmulatorEnvironment {
            let environment = EmulatorEnvironment(try OIDCEmulator(issuer: issuer, clients: [client]))
            environment.emulator.hasSessionIDs = true
            return environment
        }
        try await body(
            Environment(
                staff: environment("https://staff.example.com"),
                guests: environment("https://guests.example.com")
            )
        )
    }

    /// Signs a user in, and returns the response to the callback.
    @discardableResult
    private func signIn(
        _ browser: WebBrowser,
        _ name: String,
        _ environment: Environment,
        at server: SessionServer
    ) async throws -> TransportResponse {
        let response = try await browser.send(.get, "/login?provider=\(name)", to: server)
        let url = try #require(response.head.headerFields[.location])
        let emulator = name == "staff" ? environment.staff : environment.guests
        #expect(url.hasPrefix(emulator.emulator.issuer))
        let callback = String(try await emulator.visit(url).dropFirst(WebEnvironment.origin.count))
        #expect(callback.hasPrefix("/callback/\(name)?"))
        return try await browser.send(.get, callback, to: server)
    }

    @Test(arguments: ["staff", "guests"]) func aSessionIdentifiesItsProvider(_ name: String) async throws {
        try await withEnvironment { environment in
            let (server, browser) = (try environment.process(), WebBrowser())
            try await signIn(browser, name, environment, at: server)
            #expect(browser.session?.hasSuffix(".\(name)") == true)
            let session = try #require(try await browser.session(at: try environment.process()))
            #expect(session.provider == name)
            #expect(session.identity?.issuer == "https://\(name).example.com")
            #expect(try await !server.freshTokens(for: session).accessToken.exposed.isEmpty)
            let told = try await browser.send(.get, "/session", to: server, WebBrowser.ownPage)
            #expect(try JSON(parsing: told.body)["provider"] == .string(name))
        }
    }

    @Test func loginWithoutAValidProviderShowsAProviderSelectionPage() async throws {
        try await withEnvironment { environment in
            let server = try environment.process()
            for query in ["", "?provider=other&return_to=/a", "?provider=staff&provider=guests"] {
                let response = try await WebBrowser().send(.get, "/login\(query)", to: server)
                #expect(response.status == 200)
                let page = String(decoding: response.body, as: UTF8.self)
                #expect(page.contains("STAFF") && page.contains("provider=guests"))
            }
            let page = try await WebBrowser().send(.get, "/login?return_to=/a%3Fb%3D1", to: server)
            #expect(String(decoding: page.body, as: UTF8.self).contains("provider=staff&amp;return_to=%2Fa%3Fb%3D1\""))
        }
    }

    @Test func theProviderSelectionPageForwardsTheParametersOfTheSignInRoute() async throws {
        try await withEnvironment { environment in
            let server = try environment.process { $0.signInParameters = [.loginHint, .maximumAge] }
            let query = "/login?max_age=60&login_hint=alice&prompt=login"
            let page = try await WebBrowser().send(.get, query, to: server)
            let text = String(decoding: page.body, as: UTF8.self)
            #expect(text.contains("provider=staff&amp;login_hint=alice&amp;max_age=60\""), "\(text)")
            #expect(!text.contains("prompt=login"))
        }
    }

    @Test func aSilentSignInShowsNoProviderSelectionPage() async throws {
        try await withEnvironment { environment in
            let (server, browser) = (try environment.process { $0.signInParameters = [.prompt] }, WebBrowser())
            let failed = try await browser.send(.get, "/login?prompt=none&return_to=/a", to: server)
            let text = String(decoding: failed.body, as: UTF8.self)
            #expect(text.contains("silent_sign_in=failed") && !text.contains("STAFF"), "\(text)")
            // The provider of the session is used.
            try await signIn(browser, "guests", environment, at: server)
            let response = try await browser.send(.get, "/login?prompt=none&return_to=/a", to: server)
            #expect(response.head.headerFields[.location]?.hasPrefix("https://guests.example.com") == true)
        }
    }

    @Test func aCookieWithAnotherProvidersNameIsNotAValidSession() async throws {
        try await withEnvironment { environment in
            let (server, browser) = (try environment.process(), WebBrowser())
            try await signIn(browser, "staff", environment, at: server)
            let value = try #require(browser.session)
            for name in ["guests", "", "STAFF", "staff.", "staff.guests", "admin"] {
                browser.cookies["__Host-Http-authflow"] = value.prefix(43) + (name.isEmpty ? "" : ".\(name)")
                #expect(try await browser.session(at: server) == nil, "\(name)")
            }
        }
    }

    /// RFC 9700 section 4.4: a response from one provider is not accepted as a response from the other (mix-up).
    @Test func aResponseAtAnotherProvidersRedirectURIIsRejected() async throws {
        try await withEnvironment { environment in
            let (server, browser) = (try environment.process(), WebBrowser())
            let response = try await browser.send(.get, "/login?provider=staff", to: server)
            let url = try #require(response.head.headerFields[.location])
            let callback = String(try await environment.staff.visit(url).dropFirst(WebEnvironment.origin.count))
            let mixed = callback.replacing("/callback/staff", with: "/callback/guests")
            #expect(try await browser.send(.get, mixed, to: server).status == 400)
            #expect(browser.session == nil)
            #expect(!environment.guests.emulator.requests.contains("POST /token"))
        }
    }

    @Test func signingInWithAnotherProviderEndsThePreviousSession() async throws {
        try await withEnvironment { environment in
            let ends = Mutex<[String]>([])
            let linked = Mutex<[String]>([])
            let server = try environment.process { options in
                options.hooks.onEnd = { end in
                    ends.withLock { $0.append("\(end.session.provider) \(end.reason.rawValue)") }
                }
                options.hooks.onSignIn = { signIn in
                    linked.withLock { $0.append("\(signIn.previous?.provider ?? "none") to \(signIn.provider)") }
                    return .accept
                }
            }
            let browser = WebBrowser()
            try await signIn(browser, "staff", environment, at: server)
            let staff = browser.cookies
            try await signIn(browser, "guests", environment, at: server)
            #expect(linked.withLock { $0 } == ["none to staff", "none to guests"])
            #expect(await server.drain(within: .seconds(20)))
            #expect(ends.withLock { $0 } == ["staff replaced"])
            let old = WebBrowser()
            old.cookies = staff
            #expect(try await old.session(at: server) == nil)
            // The tokens of the replaced session are revoked at the provider that issued them.
            #expect(environment.staff.emulator.requests.count { $0 == "POST /revoke" } == 2)
            #expect(!environment.guests.emulator.requests.contains("POST /revoke"))
        }
    }

    @Test func aLogoutTokenEndsOnlySessionsOfTheProviderThatIssuedIt() async throws {
        try await withEnvironment { environment in
            let (server, staff, guest) = (try environment.process(), WebBrowser(), WebBrowser())
            try await signIn(staff, "staff", environment, at: server)
            try await signIn(guest, "guests", environment, at: server)
            let session = try #require(try await staff.session(at: server))
            let token = try environment.staff.emulator.logoutToken(
                for: WebEnvironment.client.id,
                subject: session.identity?.subject,
                sessionID: session.authentication?.sessionID
            )
            func post(_ path: String) async throws -> Int {
                try await WebBrowser().send(.post, path, to: server, body: Array("logout_token=\(token)".utf8)).status
            }
            #expect(try await post("/backchannel-logout/guests") == 400)
            #expect(try await staff.session(at: server) != nil)
            #expect(try await post("/backchannel-logout/staff") == 200)
            #expect(try await staff.session(at: server) == nil)
            #expect(try await guest.session(at: server) != nil)
        }
    }

    @Test func linkingAccountsPassesThePreviousSessionToTheSignInHook() async throws {
        try await withEnvironment { environment in
            let linked = Mutex<[String]>([])
            let server = try environment.process { options in
                options.hooks.onSignIn = { signIn in
                    linked.withLock { $0.append("\(signIn.previous?.provider ?? "none") to \(signIn.provider)") }
                    return .accept
                }
            }
            let browser = WebBrowser()
            try await signIn(browser, "staff", environment, at: server)
            var options = SessionSignInOptions(provider: "guests")
            options.linksAccounts = true
            let response = await server.signIn(browser.request(.post, "/link"), options)
            browser.keep(response)
            let callback = try await environment.guests.visit(try #require(response.head.headerFields[.location]))
            _ = try await browser.send(.get, String(callback.dropFirst(WebEnvironment.origin.count)), to: server)
            #expect(linked.withLock { $0 } == ["none to staff", "staff to guests"])
        }
    }

    /// A page on another site cannot send the user to a provider of its choice.
    @Test func aResumedLoginWithAnotherProviderRequiresConfirmation() async throws {
        try await withEnvironment { environment in
            let (server, browser) = (try environment.process(), WebBrowser())
            try await signIn(browser, "staff", environment, at: server)
            var fields = HTTPFields()
            HTTPField.Name("Sec-Fetch-Site").map { fields[$0] = "same-origin" }
            let own = try await browser.send(.get, "/login?provider=staff&resume=1&return_to=/a", to: server, fields)
            #expect(own.status == 303 && own.head.headerFields[.location] == "/a")
            let other = try await browser.send(.get, "/login?provider=guests&resume=1", to: server, fields)
            #expect(other.status == 200)
            #expect(String(decoding: other.body, as: UTF8.self).contains("href=\"/login?provider=guests\""))
        }
    }

    /// Two users of different providers may have the same subject.
    @Test func forwardAuthAcceptsOnlySessionsOfItsProvider() async throws {
        try await withEnvironment { environment in
            let (server, browser) = (try environment.process(), WebBrowser())
            try await signIn(browser, "guests", environment, at: server)
            for (provider, status) in [(nil, 403), ("staff", 403), ("other", 403), ("guests", 204)] {
                let auth = ForwardAuth(server: server, provider: provider, fields: [:])
                #expect(await auth.response(to: browser.request(.get, "/forward-auth"))?.status == status)
            }
        }
    }

    @Test func twoProvidersWithTheSameIssuerAndClientIDAreRejected() async throws {
        try await withEnvironment { environment in
            let client = try environment.process().credentials.client
            var values = ClientRegistration.Values(clientID: WebEnvironment.client.id)
            values.authentication = .clientSecretBasic(Secret("x"))
            values.redirectURIs = [try RedirectURI("\(WebEnvironment.origin)/callback/other")]
            let other = OAuthClient(server: environment.staff.server(), registration: try ClientRegistration(values))
            expectError(.invalidConfiguration) {
                try SessionServer(
                    providers: [SessionProvider("a", client: client), SessionProvider("b", client: other)],
                    store: MemoryTokenStore(),
                    options: SessionServerOptions(origin: WebEnvironment.origin)
                )
            }
        }
    }

    /// An API receives only the tokens of its route's provider.
    @Test func theProxySendsNoTokenOfAnotherProvider() async throws {
        try await withEnvironment { environment in
            let (server, browser) = (try environment.process(), WebBrowser())
            try await signIn(browser, "guests", environment, at: server)
            let target = Endpoint("https://api.example.com/")
            for provider in [nil, "staff"] {
                let route = try ResourceProxy.Route("/api/", to: target, provider: provider)
                let proxy = ResourceProxy(server: server, routes: [route])
                let response = await proxy.response(to: browser.request(.get, "/api/x", WebBrowser.ownPage))
                #expect(response?.status == 403)
            }
        }
    }

    @Test(arguments: [[], ["a", "a"], ["A"], [""], ["a.b"], [String(repeating: "a", count: 33)]] as [[String]])
    func missingDuplicateOrInvalidProviderNamesAreRejected(_ names: [String]) async throws {
        try await withEnvironment { environment in
            let client = try environment.process().credentials.client
            let error = #expect(throws: AuthError.self) {
                try SessionServer(
                    providers: names.map { SessionProvider($0, client: client) },
                    store: MemoryTokenStore(),
                    options: SessionServerOptions(origin: WebEnvironment.origin)
                )
            }
            #expect(error?.code == .invalidConfiguration)
            #expect(error?.message.contains("each with a unique name") == true)
        }
    }
}
