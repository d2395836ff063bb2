import AuthFlow
import AuthFlowServer
import AuthFlowTesting
import ConformanceRows
import HTTPTypes
import Testing

@Suite struct SessionServerTests {
    /// Runs a test of a web application whose users sign in at the emulator.
    private func withWeb(_ body: @escaping @Sendable (WebScene, SessionServer) async throws -> Void) async throws {
        try await EmulatorScene.with(.inProcess, clients: [WebScene.client]) { scene in
            let web = WebScene(scene)
            try await body(web, try web.process())
        }
    }

    /// A user who is told that all sessions have ended relies on it.
    @Test func signingOutEverywhereSaysWhenTheOtherSessionsWereNotFound() async throws {
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
            #expect(response.head.headerFields[.location]?.hasPrefix(web.scene.emulator.issuer) == true)
            #expect(try await phone.session(at: try web.process()) == nil)
            #expect(try await bob.session(at: server) != nil)
            #expect(await server.drain(within: .seconds(20)))
            // Both refresh tokens, and both access tokens.
            #expect(web.scene.emulator.requests.count { $0 == "POST /revoke" } == 4)
        }
    }

    /// To Swift's characters a mark that joins what follows would hide the next cookie.
    @Test(arguments: ["x=a\u{600}", "x\u{301}=1", "\u{1F1E6}=\u{1F1E6}"]) func anotherSitesCookieHidesNone(
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

    /// Each of them would be looked for in the store.
    @Test func cookiesThatBelongToNoResponseCostNoAccessToTheStore() async throws {
        try await withWeb { web, server in
            let browser = WebBrowser()
            let callback = try await browser.visitProvider(web, at: server)
            let own = try #require(browser.cookies.first { $0.key.contains("-login-") })
            let prefix = own.key.prefix(own.key.count - 8)
            for number in 0..<10 { browser.cookies["\(prefix)AAAAAAA\(number)"] = own.value }
            // The right value in another cookie, and another value in the right one.
            browser.cookies[own.key] = nil
            #expect(try await browser.send(.get, callback, to: server).status == 400)
            browser.cookies[own.key] = String(own.value.dropLast(4)) + "AAAA"
            #expect(try await browser.send(.get, callback, to: server).status == 400)
            browser.cookies[own.key] = own.value
            #expect(try await browser.send(.get, callback, to: server).status == 200)
        }
    }
}
